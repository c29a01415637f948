"""How many rows a plan can have, by its structure alone."""

from __future__ import annotations

from anabranch.algebra.relation import (
    Aggregate,
    Apply,
    Distinct,
    Empty,
    Filter,
    Join,
    JoinKind,
    LateralJoin,
    Project,
    Relation,
    TopK,
    Values,
    Window,
)


def at_most_one(relation: Relation) -> bool:
    """Whether the plan has one row or none, whatever the tables hold (for each enclosing row, if it reads one)."""
    match relation:
        case Empty() | Aggregate(keys=()):
            return True
        case Values(rows=rows):
            return len(rows) <= 1
        case TopK(limit=limit, partition=()) if limit is not None and limit <= 1:
            return True
        case Project(child=child) | Filter(child=child) | Distinct(child=child) | Window(child=child):
            return at_most_one(child)
        case TopK(child=child) | Apply(child=child):
            return at_most_one(child)
        case Join(left=left, kind=JoinKind.SEMI | JoinKind.ANTI):
            return at_most_one(left)
        case Join(left=left, right=right, kind=JoinKind.INNER | JoinKind.LEFT) | LateralJoin(left=left, right=right):
            return at_most_one(left) and at_most_one(right)
    return False


def exactly_one(relation: Relation) -> bool:
    """Whether the plan has one row, never none."""
    match relation:
        case Aggregate(keys=()):
            return True
        case Values(rows=rows):
            return len(rows) == 1
        case Project(child=child) | Window(child=child) | Distinct(child=child):
            return exactly_one(child)
    return False
