"""Lateral joins.

    L lateral-join right(l) on c  =  L join R on C and c       right(l) = the rows of R for which C(l) holds (attach.py)

For both kinds: a row of L without a partner under C and c is one for which right(l) has no row under c. A generator
over the enclosing row is a Generate, and a subquery that starts from one row is worked out beside it (`row_wise.py`).
"""

from __future__ import annotations

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation import (
    Generate,
    Join,
    JoinKind,
    LateralJoin,
    Output,
    Project,
    Relation,
    TableFunction,
)
from anabranch.lower.attach import attach, bound_columns, bound_to
from anabranch.lower.build import filtered, passing
from anabranch.lower.names import FreshNames
from anabranch.lower.row_wise import row_wise


def lateral_to_join(lateral: LateralJoin, left: Relation, right: Relation, names: FreshNames) -> Relation:
    """The lateral join as joins; `left` and `right` are its sides, themselves lowered."""
    if not bound_columns(left, right):
        return Join(left, right, lateral.kind, lateral.on)
    if isinstance(right, TableFunction) and not lateral.on:
        return Generate(left, bound_to(left, right.call), lateral.kind is JoinKind.LEFT, right.columns)
    return _beside(lateral, left, right, names) or _attached(lateral, left, right, names)


def _beside(lateral: LateralJoin, left: Relation, right: Relation, names: FreshNames) -> Relation | None:
    """A right side of one row: it is there, so an inner join, or a left join without conditions, finds it."""
    beside = row_wise(left, right, names)
    if beside is None:
        return None
    outputs = tuple(Output(name, beside.place[name].value) for name in right.names)
    if lateral.kind is JoinKind.INNER:
        marks = () if beside.present is None else (beside.present.value,)
        kept = filtered(beside.relation, marks)
        return filtered(Project(kept, passing(left.columns) + outputs), lateral.on)
    if lateral.on or beside.present is not None:
        return None
    return Project(beside.relation, passing(left.columns) + outputs)


def _attached(lateral: LateralJoin, left: Relation, right: Relation, names: FreshNames) -> Relation:
    attached = attach(left, right, names)
    moved: dict[str, Expression] = {name: attached.value(name) for name in right.names}
    on = tuple(each.substitute(moved) for each in lateral.on)
    joined = Join(left, attached.relation, lateral.kind, attached.conditions + on)
    outputs = tuple(Output(name, value) for name, value in moved.items())
    return Project(joined, passing(left.columns) + outputs)
