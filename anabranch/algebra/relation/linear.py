"""Operators on one row at a time, and sums: defined for all weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation.operator import Column, Relation, check_reads, check_unique, operator, require


@operator
class Filter(Relation):
    """Keep the rows for which every predicate is true."""

    child: Relation
    predicates: tuple[Expression, ...]

    def __post_init__(self) -> None:
        check_reads(self.predicates, self.child)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns


@dataclass(frozen=True, slots=True)
class Output:
    """One column of a projection."""

    name: str
    value: Expression

    @property
    def column(self) -> Column:
        return Column(self.name, self.value.type)


@operator
class Project(Relation):
    """One output row per input row, same weight."""

    child: Relation
    outputs: tuple[Output, ...]

    def __post_init__(self) -> None:
        check_reads((each.value for each in self.outputs), self.child)
        check_unique(self.columns)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(each.column for each in self.outputs)


@operator
class UnionAll(Relation):
    """The sum of Z-sets, columns by position; names and types are the first one's."""

    inputs: tuple[Relation, ...]

    def __post_init__(self) -> None:
        require(len(self.inputs) > 0, "a union needs an input")
        width = len(self.inputs[0].columns)
        require(all(len(each.columns) == width for each in self.inputs), "inputs of a union differ in width")

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.inputs[0].columns


@operator
class Negate(Relation):
    """Every weight times -1."""

    child: Relation

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns


@operator
class Expand(Relation):
    """Every input row becomes one row per projection (grouping sets, unpivot)."""

    child: Relation
    projections: tuple[tuple[Expression, ...], ...]
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        require(all(len(row) == len(self.columns) for row in self.projections), "a projection has another width")
        check_reads((each for row in self.projections for each in row), self.child)
        check_unique(self.columns)


@operator
class Generate(Relation):
    """Each input row joined with the rows a generator (`explode(xs)`) makes of it; `outer` keeps rows without any."""

    child: Relation
    generator: Expression
    outer: bool
    generated: tuple[Column, ...]

    def __post_init__(self) -> None:
        check_reads((self.generator,), self.child)
        check_unique(self.columns)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns + self.generated
