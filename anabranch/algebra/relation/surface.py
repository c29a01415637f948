"""Operators that only a query has: `lower/` turns them into joins and aggregates."""

from __future__ import annotations

from enum import Enum
from functools import cached_property

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation.bags import JoinKind
from anabranch.algebra.relation.operator import Column, Relation, check_reads, check_unique, operator, require


class SetKind(Enum):
    INTERSECT = "intersect"
    EXCEPT = "except"


@operator
class SetOperation(Relation):
    """INTERSECT and EXCEPT, with or without ALL, columns by position; NULL equals NULL."""

    kind: SetKind
    all: bool
    left: Relation
    right: Relation

    def __post_init__(self) -> None:
        require(len(self.left.columns) == len(self.right.columns), "inputs of a set operation differ in width")

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.left.columns


class ApplyKind(Enum):
    SCALAR = "scalar"
    EXISTS = "exists"
    IN = "in"


@operator
class Apply(Relation):
    """Evaluate `inner` once per row of `child`, its `Outer` holes bound to that row, and add one column to the row.

    SCALAR: the one value of the one column, NULL for no row, an error for more than one.
    EXISTS: whether there is a row. IN: `probe IN inner`, three-valued, column by column.
    """

    child: Relation
    inner: Relation
    kind: ApplyKind
    output: Column
    probe: tuple[Expression, ...] = ()

    def __post_init__(self) -> None:
        check_reads(self.probe, self.child)
        check_unique(self.columns)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return (*self.child.columns, self.output)


@operator
class LateralJoin(Relation):
    """Join each row of `left` (INNER or LEFT) with the rows of `right` evaluated for it, its `Outer` holes bound."""

    left: Relation
    right: Relation
    kind: JoinKind
    on: tuple[Expression, ...]

    def __post_init__(self) -> None:
        require(self.kind in (JoinKind.INNER, JoinKind.LEFT), "a lateral join is inner or left")
        check_reads(self.on, self.left, self.right)
        check_unique(self.columns)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.left.columns + self.right.columns
