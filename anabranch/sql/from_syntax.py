"""The shape of a FROM clause as Spark's grammar reads it."""

from __future__ import annotations

from anabranch.sql.node import Node, node
from anabranch.sql.query_syntax import Item, Query
from anabranch.sql.syntax import Call, Expr


class FromItem(Node):
    """Something that has rows."""


@node
class PipeInput(FromItem):
    """The rows before a pipe step."""


@node
class Table(FromItem):
    """A table by name. `whole` says that `TABLE name` stands for a query; the name follows that word."""

    parts: tuple[str, ...]
    alias: str | None = None
    columns: tuple[str, ...] = ()
    sampled: bool = False
    versioned: bool = False
    name_end: int = 0
    whole: bool = False


@node
class Derived(FromItem):
    query: Query
    alias: str | None = None
    columns: tuple[str, ...] = ()
    sampled: bool = False
    lateral: bool = False


@node
class Renamed(FromItem):
    """`(a JOIN b ...) AS t`."""

    child: FromItem
    alias: str | None = None
    columns: tuple[str, ...] = ()
    sampled: bool = False


@node
class InlineTable(FromItem):
    """VALUES; `rows_end` is the token after the last row."""

    rows: tuple[tuple[Expr, ...], ...]
    rows_end: int
    alias: str | None = None
    columns: tuple[str, ...] = ()


@node
class TableCall(FromItem):
    call: Call
    alias: str | None = None
    columns: tuple[str, ...] = ()
    lateral: bool = False


@node
class JoinItem(FromItem):
    """`kind` is inner, cross, left, right, full, semi or anti."""

    kind: str
    left: FromItem
    right: FromItem
    natural: bool = False
    using: tuple[str, ...] = ()
    on: Expr | None = None


@node
class LateralView(FromItem):
    child: FromItem | None
    call: Call
    outer: bool
    alias: str | None
    columns: tuple[str, ...] = ()


@node
class Pivot(FromItem):
    """`clause` and `clause_end` are the tokens of the clause without its own alias."""

    child: FromItem
    clause: int
    clause_end: int
    aggregates: tuple[Item, ...]
    columns: tuple[Expr, ...]
    values: tuple[Item, ...]
    alias: str | None = None
    names: tuple[str, ...] = ()


@node
class Unpivot(FromItem):
    """`value_columns FOR name_column IN (sources)`: each source is a tuple of expressions and an optional alias.

    `clause` and `clause_end` are the tokens of the clause without its own alias.
    """

    child: FromItem
    clause: int
    clause_end: int
    include_nulls: bool
    value_columns: tuple[str, ...]
    name_column: str
    sources: tuple[tuple[tuple[Expr, ...], str | None], ...]
    alias: str | None = None
    columns: tuple[str, ...] = ()
