"""What a node stores: the one page that the rest of the engine imports."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.algebra.relation import Relation
from anabranch.delta.build import pick
from anabranch.delta.parts import FLAG, PART_PREFIX, Part, Strategy
from anabranch.delta.simplify import simplify
from anabranch.delta.split import split, worth_storing
from anabranch.delta.strategy import Guarded, delta, full_and_diff, guarded_delta, initial
from anabranch.delta.versions import tables_of

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


def layout(kernel: Relation, visible: tuple[str, ...] | None = None) -> tuple[Part, ...]:
    """The parts of a node, each after the parts it reads; the last one, named "", is what readers see."""
    shown = kernel if visible is None or visible == kernel.names else pick(kernel, visible)
    return split(simplify(shown))


def moving_tables(parts: Sequence[Part], changed: frozenset[str]) -> frozenset[str]:
    """The changed tables together with the parts that change because of them."""
    moving = set(changed)
    for part in parts:
        if tables_of(part.relation) & moving:
            moving.add(part.table)
    return frozenset(moving)
