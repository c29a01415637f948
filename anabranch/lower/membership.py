"""EXISTS and IN as conditions of a WHERE: joins that keep or drop the enclosing row.

    filter (L, EXISTS inner)      =  L semi-join inner on C                   C = the correlated conditions
    filter (L, NOT EXISTS inner)  =  L anti-join inner on C
    filter (L, x IN inner)        =  L semi-join inner on C and x = y         y = the subquery's column
    filter (L, x NOT IN inner)    =  L anti-join inner on C and coalesce(x = y, true)

NOT IN is not NOT EXISTS: a NULL on either side makes `x = y` unknown, and an unknown match already drops the row. With
several columns the comparison is `x1 = y1 AND x2 = y2`, unknown only if no column differs.
"""

from __future__ import annotations

from anabranch.algebra.expression import Expression, equals, expression
from anabranch.algebra.relation import (
    Aggregate,
    Apply,
    ApplyKind,
    Distinct,
    Empty,
    Join,
    JoinKind,
    Project,
    Relation,
    TopK,
    Window,
)
from anabranch.lower.attach import Attached, attach
from anabranch.lower.names import FreshNames


def kept_by(apply: Apply, child: Relation, inner: Relation, wanted: bool, names: FreshNames) -> Relation:
    """The rows of `child` for which EXISTS or IN is true (`wanted`), or false (not `wanted`)."""
    kind = JoinKind.SEMI if wanted else JoinKind.ANTI
    if apply.kind is ApplyKind.EXISTS:
        essential = existence(inner)
        if essential is None:
            return child if wanted else Empty(child.columns)
        attached = attach(child, essential, names)
        return Join(child, attached.relation, kind, attached.conditions)
    attached = attach(child, without_distinct(inner), names)
    comparisons = compared(apply, inner, attached)
    if not wanted:
        comparisons = (expression("coalesce({}, true)", "boolean", all_of(comparisons)),)
    return Join(child, attached.relation, kind, attached.conditions + comparisons)


def compared(apply: Apply, inner: Relation, attached: Attached) -> tuple[Expression, ...]:
    """`x = y` for each column of IN."""
    pairs = zip(apply.probe, inner.names, strict=True)
    return tuple(equals(probe, attached.value(name)) for probe, name in pairs)


def all_of(conditions: tuple[Expression, ...]) -> Expression:
    """The conjunction as one expression."""
    if len(conditions) == 1:
        return conditions[0]
    return expression(" AND ".join("{}" for _ in conditions), "boolean", *conditions)


def existence(inner: Relation) -> Relation | None:
    """A simpler plan that has rows exactly when this one has; None if it always has one."""
    match inner:
        case Aggregate(keys=()):
            return None
        case Project(child=child) | Distinct(child=child) | Window(child=child) | Aggregate(child=child):
            return existence(child)
        case TopK(child=child, limit=limit, offset=0) if limit is None or limit > 0:
            return existence(child)
    return inner


def without_distinct(inner: Relation) -> Relation:
    """IN asks whether a row occurs, not how often."""
    return inner.child if isinstance(inner, Distinct) else inner
