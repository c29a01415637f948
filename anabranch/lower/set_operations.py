"""INTERSECT and EXCEPT.

    L INTERSECT R       =  distinct (L semi-join R on every column <=>)
    L EXCEPT R          =  distinct (L anti-join R on every column <=>)
    L INTERSECT ALL R   =  each row of L + R repeated min(l, r) times     l, r = how often it occurs in L and in R
    L EXCEPT ALL R      =  each row of L + R repeated max(l - r, 0) times

The counts come from one aggregate over both sides, each tagged with its own counter, so NULLs and duplicates need no
care: GROUP BY holds NULL equal to NULL. Repeating a row is exploding an array of that length.
Example: {x: 3, y: 1} EXCEPT ALL {x: 1} gives x: (l, r) = (3, 1), repeated twice; y: (1, 0), once.
"""

from __future__ import annotations

from anabranch.algebra.expression import Expression, expression
from anabranch.algebra.relation import (
    Aggregate,
    Column,
    Distinct,
    Generate,
    Join,
    JoinKind,
    Output,
    Project,
    Relation,
    SetKind,
    SetOperation,
    UnionAll,
)
from anabranch.algebra.walk import transform
from anabranch.lower.build import aggregation, join_apart, passing, pick, same_row
from anabranch.lower.names import FreshNames


def lower_set_operations(root: Relation, names: FreshNames) -> Relation:
    """Replace every INTERSECT and EXCEPT."""

    def rewrite(relation: Relation) -> Relation:
        if not isinstance(relation, SetOperation):
            return relation
        return _with_counts(relation, names) if relation.all else _with_join(relation, names)

    return transform(root, rewrite)


def _with_join(operation: SetOperation, names: FreshNames) -> Relation:
    right, _ = join_apart(operation.left, operation.right, names)
    kind = JoinKind.SEMI if operation.kind is SetKind.INTERSECT else JoinKind.ANTI
    return Distinct(Join(operation.left, right, kind, same_row(operation.left.columns, right.columns)))


def _with_counts(operation: SetOperation, names: FreshNames) -> Relation:
    columns = operation.columns
    left, right = names.take("left"), names.take("right")
    both = UnionAll((_tagged(operation.left, left, right, "1", "0"), _tagged(operation.right, left, right, "0", "1")))
    counts = (
        aggregation(left, "sum", both.column(left).value, "bigint"),
        aggregation(right, "sum", both.column(right).value, "bigint"),
    )
    counted = Aggregate(both, operation.left.names, counts)
    copies = _copies(operation.kind, counted.column(left).value, counted.column(right).value)
    repeat = expression("explode(array_repeat(0, CAST({} AS INT)))", "int", copies)
    return pick(Generate(counted, repeat, False, (Column(names.take("copy"), "int"),)), columns)


def _tagged(side: Relation, left: str, right: str, in_left: str, in_right: str) -> Relation:
    tags = (Output(left, expression(in_left, "int")), Output(right, expression(in_right, "int")))
    return Project(side, passing(side.columns) + tags)


def _copies(kind: SetKind, left: Expression, right: Expression) -> Expression:
    if kind is SetKind.INTERSECT:
        return expression("least({}, {})", "bigint", left, right)
    return expression("greatest({} - {}, 0)", "bigint", left, right)
