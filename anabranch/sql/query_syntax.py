"""The shape of a query as Spark's grammar reads it."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from anabranch.sql.node import Node, SyntaxNode, node
from anabranch.sql.syntax import Expr, SortItem, WindowSpec

if TYPE_CHECKING:
    from anabranch.sql.from_syntax import FromItem, InlineTable, Table


@node
class Item(SyntaxNode):
    """One item of a SELECT list; several names for a generator with several columns."""

    value: Expr
    names: tuple[str, ...] = ()


@node
class Query(Node):
    """WITH ... body ORDER BY ... LIMIT ... OFFSET."""

    body: Body
    ctes: tuple[Cte, ...] = ()
    recursive: bool = False
    order: tuple[SortItem, ...] = ()
    sorted_within: bool = False
    windows: tuple[tuple[str, WindowSpec], ...] = ()
    limit: Expr | None = None
    offset: Expr | None = None
    in_any_order: bool = False
    """Whoever asks does not care which rows LIMIT and OFFSET leave."""


@node
class Cte(SyntaxNode):
    name: str
    columns: tuple[str, ...]
    query: Query


class Body(Node):
    """What stands between WITH and ORDER BY."""


class GroupKind(Enum):
    PLAIN = "plain"
    ROLLUP = "rollup"
    CUBE = "cube"
    SETS = "grouping sets"


@node
class GroupItem(SyntaxNode):
    """One element of GROUP BY. PLAIN has one set with one expression; the others hold their sets or elements."""

    kind: GroupKind
    sets: tuple[tuple[Expr, ...], ...] = ()
    nested: tuple[GroupItem, ...] = ()


@node
class Group(SyntaxNode):
    """GROUP BY. `everything` is GROUP BY ALL; `suffix` is the old `a, b WITH ROLLUP` and `a, b GROUPING SETS (...)`."""

    items: tuple[GroupItem, ...]
    everything: bool = False
    suffix: GroupItem | None = None


@node
class Select(Body):
    items: tuple[Item, ...]
    distinct: bool = False
    source: FromItem | None = None
    where: Expr | None = None
    group: Group | None = None
    having: Expr | None = None
    qualify: Expr | None = None
    windows: tuple[tuple[str, WindowSpec], ...] = ()


@node
class SetBody(Body):
    operator: str
    all: bool
    by_name: bool
    left: Body
    right: Body


@node
class TableBody(Body):
    """`TABLE t`."""

    table: Table


@node
class ValuesBody(Body):
    values: InlineTable


@node
class QueryBody(Body):
    """A query in parentheses."""

    query: Query


@node
class PipeBody(Body):
    """`source |> step |> step`."""

    source: Body
    steps: tuple[PipeStep, ...]


class PipeKind(Enum):
    SELECT = "SELECT"
    EXTEND = "EXTEND"
    SET = "SET"
    DROP = "DROP"
    AS = "AS"
    WHERE = "WHERE"
    AGGREGATE = "AGGREGATE"
    ORDER = "ORDER BY"
    LIMIT = "LIMIT"
    RELATION = "JOIN"
    UNION = "UNION"


@node
class PipeStep(Node):
    """One pipe operator; which fields it uses depends on its kind."""

    kind: PipeKind
    items: tuple[Item, ...] = ()
    names: tuple[str, ...] = ()
    condition: Expr | None = None
    group: Group | None = None
    group_names: tuple[tuple[str, ...], ...] = ()
    windows: tuple[tuple[str, WindowSpec], ...] = ()
    distinct: bool = False
    order: tuple[SortItem, ...] = ()
    sorted_within: bool = False
    limit: Expr | None = None
    offset: Expr | None = None
    relation: FromItem | None = None
    operator: str = ""
    all: bool = False
    by_name: bool = False
    right: Body | None = None
