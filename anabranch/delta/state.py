"""What a node stores, and the change of it.

stored' = stored + delta(part)            the way of a refresh
stored' = initial(part)                   the way of a full one; the same visible rows
stored' = stored + full_and_diff(part)    a full one that hands the difference on
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.algebra.relation import Consolidate, Empty, Relation
from anabranch.delta.build import minus, pick
from anabranch.delta.differentiate import versions_of
from anabranch.delta.merge import delta_unless_extreme_lost
from anabranch.delta.narrow import narrow
from anabranch.delta.parts import FLAG, PART_PREFIX, Part, Strategy
from anabranch.delta.simplify import simplify
from anabranch.delta.split import split, worth_storing
from anabranch.delta.strategy import DELTA, INITIAL, part_of
from anabranch.delta.top import delta_unless_short
from anabranch.delta.versions import Versions, tables_of

__all__ = [
    "FLAG",
    "PART_PREFIX",
    "Guarded",
    "Part",
    "Strategy",
    "delta",
    "full_and_diff",
    "guarded_delta",
    "initial",
    "layout",
    "moving_tables",
    "worth_storing",
]


@dataclass(frozen=True)
class Guarded:
    """A change that holds as long as `guard` has no rows; else `delta` of the part says what the change is.

    The guard is there where the change seldom needs a large read: a group lost its extreme, a top-N ran short.
    """

    change: Relation
    guard: Relation


def layout(kernel: Relation, visible: tuple[str, ...] | None = None) -> tuple[Part, ...]:
    """The parts of a node, each after the parts it reads; the last one, named "", is what readers see."""
    shown = kernel if visible is None or visible == kernel.names else pick(kernel, visible)
    parts, top = split(simplify(shown))
    return (*parts, part_of("", top))


def initial(part: Part) -> Relation:
    """All rows to store, worked out from the tables as this tick sees them."""
    return simplify(INITIAL[part.strategy](part))


def delta(part: Part, changed: frozenset[str]) -> Relation | None:
    """The change of the stored rows when only the tables `changed` may have changed; None where that changes nothing.

    Other parts count as tables: `part:<name>`. Deleted rows are rows that are stored, in every column.
    """
    versions = _versions(part, changed)
    return None if versions is None else _finished(DELTA[part.strategy](part, versions))


def guarded_delta(part: Part, changed: frozenset[str]) -> Guarded | None:
    """For a part whose change seldom needs a large read: the change without it, and when it is not enough."""
    versions = _versions(part, changed)
    if versions is None:
        return None
    match part.strategy:
        case Strategy.TOP:
            found: tuple[Relation, Relation] | None = delta_unless_short(part, versions)
        case Strategy.MERGE:
            found = delta_unless_extreme_lost(part, versions)
        case _:
            found = None
    return None if found is None else Guarded(narrow(simplify(found[0])), narrow(simplify(found[1])))


def full_and_diff(part: Part) -> Relation:
    """Everything worked out anew, minus what is stored."""
    return simplify(Consolidate(minus(initial(part), part.stored)))


def moving_tables(parts: Sequence[Part], changed: frozenset[str]) -> frozenset[str]:
    """The changed tables together with the parts that change because of them."""
    moving = set(changed)
    for part in parts:
        if tables_of(part.relation) & moving:
            moving.add(part.table)
    return frozenset(moving)


def _versions(part: Part, changed: frozenset[str]) -> Versions | None:
    """The versions of the part's plan; None where nothing below it changes."""
    if not tables_of(part.relation) & changed:
        return None
    versions = versions_of(part.relation, changed)
    return None if isinstance(simplify(versions.change(part.relation)), Empty) else versions


def _finished(change: Relation) -> Relation | None:
    narrowed = narrow(simplify(change))
    return None if isinstance(narrowed, Empty) else narrowed
