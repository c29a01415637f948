"""How one part is kept: the strategies in order of preference, and what each is made of."""

from __future__ import annotations

from collections.abc import Callable

from anabranch.algebra.relation import Aggregate, Consolidate, Fixpoint, Relation, TopK, Window
from anabranch.delta.build import minus
from anabranch.delta.face import peel
from anabranch.delta.keyed_state import delta_of_keyed_part, initial_keyed, keyed_part
from anabranch.delta.merge import delta_of_merge, initial_merge, merge_part
from anabranch.delta.parts import Part, Strategy
from anabranch.delta.top import delta_of_top, initial_top, top_part
from anabranch.delta.versions import Versions, after


def part_of(name: str, relation: Relation) -> Part:
    """The part that keeps a relation, by the first strategy that can."""
    return (
        merge_part(name, relation) or top_part(name, relation) or keyed_part(name, relation) or _plain(name, relation)
    )


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
