"""Operators without an input: tables, their changes, and rows made from nothing."""

from __future__ import annotations

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation.operator import Column, Relation, check_reads, operator, require


@operator
class Scan(Relation):
    """A table of the lake (source or stream table) in a defining query; `table` is its identity, not its name."""

    table: str
    columns: tuple[Column, ...]


@operator
class Before(Relation):
    """In a delta plan: the table as the node's frontier saw it."""

    table: str
    columns: tuple[Column, ...]


@operator
class After(Relation):
    """In a delta plan: the table as this tick sees it."""

    table: str
    columns: tuple[Column, ...]


@operator
class Change(Relation):
    """In a delta plan: after - before of the table, as a Z-set."""

    table: str
    columns: tuple[Column, ...]


@operator
class Stored(Relation):
    """In a delta plan: the rows a part has stored before this tick, hidden columns included."""

    part: str
    columns: tuple[Column, ...]


@operator
class Empty(Relation):
    """No rows."""

    columns: tuple[Column, ...]


@operator
class Values(Relation):
    """Rows written in the query (`VALUES`, `SELECT 1`); expressions read no columns."""

    rows: tuple[tuple[Expression, ...], ...]
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        require(all(len(row) == len(self.columns) for row in self.rows), "a row of VALUES has another width")
        check_reads(each for row in self.rows for each in row)


@operator
class TableFunction(Relation):
    """A table-valued function of constants, such as `range(10)`."""

    call: Expression
    columns: tuple[Column, ...]


@operator
class Recursion(Relation):
    """Inside the step of a Fixpoint: the rows found in the round before."""

    name: str
    columns: tuple[Column, ...]
