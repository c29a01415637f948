"""Joins, and the operators that look at all rows of a group or of a table: defined on bags."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation.linear import Output
from anabranch.algebra.relation.operator import Column, Relation, check_reads, check_unique, operator, require


class JoinKind(Enum):
    INNER = "inner"
    LEFT = "left"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"


@operator
class Join(Relation):
    """Rows of both sides for which all of `on` is true; weights multiply. A right join is a left join turned round.

    SEMI and ANTI keep the left row, with its weight, where a partner exists or none does.
    """

    left: Relation
    right: Relation
    kind: JoinKind
    on: tuple[Expression, ...]

    def __post_init__(self) -> None:
        check_reads(self.on, self.left, self.right)
        check_unique(self.left.columns + self.right.columns)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        if self.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return self.left.columns
        return self.left.columns + self.right.columns


@operator
class Distinct(Relation):
    """Each row once, as Spark's DISTINCT compares."""

    child: Relation

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns


@dataclass(frozen=True, slots=True)
class Aggregation:
    """One aggregate: `call` is the whole text, `SUM(DISTINCT x) FILTER (WHERE p)`; the rest is what it was made of."""

    name: str
    function: str
    arguments: tuple[Expression, ...]
    call: Expression
    distinct: bool = False
    filter: Expression | None = None

    @property
    def column(self) -> Column:
        return Column(self.name, self.call.type)


@operator
class Aggregate(Relation):
    """One row per group of equal keys (as GROUP BY compares); without keys exactly one row, even for no input."""

    child: Relation
    keys: tuple[str, ...]
    aggregations: tuple[Aggregation, ...]

    def __post_init__(self) -> None:
        check_reads((each.call for each in self.aggregations), self.child)
        require(set(self.keys) <= set(self.child.names), f"keys {self.keys} are not all columns of the input")
        check_unique(self.columns)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(self.child.column(key) for key in self.keys) + tuple(each.column for each in self.aggregations)


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key of an order."""

    name: str
    descending: bool = False
    nulls_first: bool = True


@operator
class Window(Relation):
    """Adds a column per call; a call is the whole text, OVER clause included. All calls share the partition columns."""

    child: Relation
    partition: tuple[str, ...]
    calls: tuple[Output, ...]

    def __post_init__(self) -> None:
        check_reads((each.value for each in self.calls), self.child)
        require(set(self.partition) <= set(self.child.names), "partition columns are not all columns of the input")
        check_unique(self.columns)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns + tuple(each.column for each in self.calls)


@operator
class TopK(Relation):
    """Rows `offset` to `offset + limit` in the given order (all rows from `offset` where limit is None).

    The order is total up to equal rows (the settled query). With `partition`, per group of equal partition columns.
    """

    child: Relation
    order: tuple[SortKey, ...]
    limit: int | None
    offset: int = 0
    partition: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        named = {each.name for each in self.order} | set(self.partition)
        require(named <= set(self.child.names), "sort keys are not all columns of the input")

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns


@operator
class Fixpoint(Relation):
    """`WITH RECURSIVE`: the anchor's rows, plus the step on the rows of the round before, until a round finds none."""

    name: str
    anchor: Relation
    step: Relation

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.anchor.columns
