"""How one part is kept: the strategies in order of preference, what each stores, and the change of it.

stored' = stored + delta(part)            the way of a refresh
stored' = initial(part)                   the way of a full one; the same visible rows
stored' = stored + full_and_diff(part)    a full one that hands the difference on
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anabranch.algebra.relation import Aggregate, Consolidate, Empty, Fixpoint, Relation, TopK, Window
from anabranch.delta.build import minus
from anabranch.delta.differentiate import versions_of
from anabranch.delta.face import peel
from anabranch.delta.keyed_state import delta_of_keyed_part, initial_keyed, keyed_part
from anabranch.delta.merge import delta_of_merge, delta_unless_extreme_lost, initial_merge, merge_part
from anabranch.delta.narrow import narrow
from anabranch.delta.parts import Part, Strategy
from anabranch.delta.simplify import simplify
from anabranch.delta.top import delta_of_top, delta_unless_short, initial_top, top_part
from anabranch.delta.versions import Versions, after, tables_of
from anabranch.lower.prune_columns import prune_columns


@dataclass(frozen=True)
class Guarded:
    """A change that holds as long as `guard` has no rows; else `delta` of the part says what the change is.

    The guard is there where the change seldom needs a large read: a group lost its extreme, a top-N ran short.
    """

    change: Relation
    guard: Relation


def part_of(name: str, relation: Relation) -> Part:
    """The part that keeps a relation, by the first strategy that can and whose columns a lake can hold."""
    for strategy in (merge_part, top_part, keyed_part):
        part = strategy(name, relation)
        if part is not None and part.is_storable:
            return part
    return _plain(name, relation)


def initial(part: Part) -> Relation:
    """All rows to store, worked out from the tables as this tick sees them."""
    return simplify(INITIAL[part.strategy](part))


def full_and_diff(part: Part) -> Relation:
    """Everything worked out anew, minus what is stored."""
    return simplify(Consolidate(minus(initial(part), part.stored)))


def delta(part: Part, changed: frozenset[str]) -> Relation | None:
    """The change of the stored rows when only the tables `changed` may have changed; None where that changes nothing.

    Other parts count as tables: `part:<name>`. Deleted rows are rows that are stored, in every column.
    """
    versions = _versions(part, changed)
    if versions is None:
        return None
    change = _shortened(DELTA[part.strategy](part, versions))
    return None if isinstance(change, Empty) else change


def guarded_delta(part: Part, changed: frozenset[str]) -> Guarded | None:
    """For a part whose change seldom needs a large read: the change without it, and when it is not enough."""
    versions = _versions(part, changed)
    if versions is None or part.strategy not in GUARDED:
        return None
    found = GUARDED[part.strategy](part, versions)
    return None if found is None else Guarded(_shortened(found[0]), _shortened(found[1]))


def _shortened(change: Relation) -> Relation:
    """The same change from fewer operators, rows and columns."""
    return simplify(prune_columns(narrow(simplify(change))))


def _versions(part: Part, changed: frozenset[str]) -> Versions | None:
    """The versions of the part's plan; None where nothing below it changes."""
    if not tables_of(part.relation) & changed:
        return None
    versions = versions_of(part.relation, changed)
    return None if isinstance(simplify(versions.change(part.relation)), Empty) else versions


def _plain(name: str, relation: Relation) -> Part:
    """Nothing but the result is stored; an operator that is one group is worked out anew."""
    one_group = isinstance(peel(relation)[0], Aggregate | Window | TopK | Fixpoint)
    strategy = Strategy.RECOMPUTE if one_group else Strategy.LINEAR
    return Part(name, relation, relation.columns, relation.names, None, strategy)


def _initial_plain(part: Part) -> Relation:
    return after(part.relation)


def _delta_of_linear_part(part: Part, versions: Versions) -> Relation:
    return Consolidate(versions.change(part.relation))


def _delta_of_recomputed_part(part: Part, versions: Versions) -> Relation:
    return Consolidate(minus(versions.after(part.relation), part.stored))


INITIAL: dict[Strategy, Callable[[Part], Relation]] = {
    Strategy.LINEAR: _initial_plain,
    Strategy.MERGE: initial_merge,
    Strategy.KEYED: initial_keyed,
    Strategy.TOP: initial_top,
    Strategy.RECOMPUTE: _initial_plain,
}

DELTA: dict[Strategy, Callable[[Part, Versions], Relation]] = {
    Strategy.LINEAR: _delta_of_linear_part,
    Strategy.MERGE: delta_of_merge,
    Strategy.KEYED: delta_of_keyed_part,
    Strategy.TOP: delta_of_top,
    Strategy.RECOMPUTE: _delta_of_recomputed_part,
}

GUARDED: dict[Strategy, Callable[[Part, Versions], tuple[Relation, Relation] | None]] = {
    Strategy.MERGE: delta_unless_extreme_lost,
    Strategy.TOP: delta_unless_short,
}
