"""The shape of a query as Spark's grammar reads it. `start` and `end` count tokens of the source, end exclusive.

Nodes compare by identity: two equal texts at two places are two nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=False)
def _node(shape: type[T]) -> type[T]:
    return dataclass(frozen=True, eq=False)(shape)


@_node
class Node:
    start: int
    end: int


# ---- expressions


class Expr(Node):
    """A scalar expression."""

    @property
    def children(self) -> tuple[Expr, ...]:
        return ()


@_node
class Name(Expr):
    """A column reference `a.b.c`, not yet resolved."""

    parts: tuple[str, ...]


@_node
class Star(Expr):
    """`*`, `t.*`, `* EXCEPT (a, b.c)`."""

    qualifier: tuple[str, ...] = ()
    excluded: tuple[tuple[str, ...], ...] = ()


@_node
class Literal(Expr):
    """A literal; `value` is an int for an integer literal, a str for a string, else None."""

    value: int | str | None = None


@_node
class SortItem:
    value: Expr
    descending: bool
    nulls_first: bool


@_node
class Frame:
    """ROWS or RANGE; the bounds are expressions or words, kept as token ranges."""

    rows: bool
    start: int
    end: int
    values: tuple[Expr, ...] = ()


@_node
class WindowSpec:
    """An OVER clause: a name alone, or partition, order and frame."""

    name: str | None = None
    partition: tuple[Expr, ...] = ()
    order: tuple[SortItem, ...] = ()
    frame: Frame | None = None


@_node
class Call(Expr):
    """A function call. `closed` is the token after the arguments' closing parenthesis, `head` the one before OVER."""

    name: tuple[str, ...]
    arguments: tuple[Expr, ...]
    closed: int
    head: int
    distinct: bool = False
    within: tuple[SortItem, ...] = ()
    filter: Expr | None = None
    ignore_nulls: bool = False
    over: WindowSpec | None = None

    @property
    def function(self) -> str:
        return self.name[-1].lower()

    @property
    def children(self) -> tuple[Expr, ...]:
        spec = self.over or WindowSpec()
        return (
            *self.arguments,
            *(each.value for each in self.within),
            *((self.filter,) if self.filter else ()),
            *spec.partition,
            *(each.value for each in spec.order),
            *(spec.frame.values if spec.frame else ()),
        )


@_node
class Lambda(Expr):
    """`(x, y) -> body`; the parameters are no columns."""

    parameters: tuple[str, ...]
    body: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.body,)


@_node
class Aliased(Expr):
    """`value AS name` inside struct(...), or a named argument `name => value`."""

    value: Expr
    name: str

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.value,)


class NestedKind(Enum):
    SCALAR = "scalar"
    EXISTS = "exists"
    IN = "in"
    TABLE = "table"


@_node
class Nested(Expr):
    """A subquery in an expression. For IN, `probe` is what is looked up and `negated` says NOT IN."""

    kind: NestedKind
    query: Query
    probe: tuple[Expr, ...] = ()
    negated: bool = False

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.probe


@_node
class Binary(Expr):
    """AND, OR, `=` and `<=>`: the operators whose sides the engine looks at. `==` is stored as `=`."""

    operator: str
    left: Expr
    right: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.left, self.right)


@_node
class Not(Expr):
    operand: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.operand,)


@_node
class Paren(Expr):
    """`(inner)`."""

    inner: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.inner,)


@_node
class Row(Expr):
    """`(a, b)`."""

    items: tuple[Expr, ...]

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.items


@_node
class Opaque(Expr):
    """Any other expression: its text, and the parts of it that may hold columns."""

    parts: tuple[Expr, ...] = ()

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.parts


# ---- queries


@_node
class Item:
    """One item of a SELECT list; several names for a generator with several columns."""

    value: Expr
    names: tuple[str, ...] = ()


@_node
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


@_node
class Cte:
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


@_node
class GroupItem:
    """One element of GROUP BY. PLAIN has one set with one expression; the others hold their sets or elements."""

    kind: GroupKind
    sets: tuple[tuple[Expr, ...], ...] = ()
    nested: tuple[GroupItem, ...] = ()


@_node
class Group:
    """GROUP BY. `everything` is GROUP BY ALL; `suffix` is the old `a, b WITH ROLLUP` and `a, b GROUPING SETS (...)`."""

    items: tuple[GroupItem, ...]
    everything: bool = False
    suffix: GroupItem | None = None


@_node
class Select(Body):
    items: tuple[Item, ...]
    distinct: bool = False
    source: FromItem | None = None
    where: Expr | None = None
    group: Group | None = None
    having: Expr | None = None
    qualify: Expr | None = None
    windows: tuple[tuple[str, WindowSpec], ...] = ()


@_node
class SetBody(Body):
    operator: str
    all: bool
    by_name: bool
    left: Body
    right: Body


@_node
class TableBody(Body):
    """`TABLE t`."""

    table: Table


@_node
class ValuesBody(Body):
    values: InlineTable


@_node
class QueryBody(Body):
    """A query in parentheses."""

    query: Query


@_node
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


@_node
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


# ---- FROM


class FromItem(Node):
    """Something that has rows."""


@_node
class PipeInput(FromItem):
    """The rows before a pipe step."""


@_node
class Table(FromItem):
    parts: tuple[str, ...]
    alias: str | None = None
    columns: tuple[str, ...] = ()
    sampled: bool = False
    versioned: bool = False
    name_end: int = 0


@_node
class Derived(FromItem):
    query: Query
    alias: str | None = None
    columns: tuple[str, ...] = ()
    sampled: bool = False
    lateral: bool = False


@_node
class Renamed(FromItem):
    """`(a JOIN b ...) AS t`."""

    child: FromItem
    alias: str | None = None
    columns: tuple[str, ...] = ()
    sampled: bool = False


@_node
class InlineTable(FromItem):
    """VALUES; `rows_end` is the token after the last row."""

    rows: tuple[tuple[Expr, ...], ...]
    rows_end: int
    alias: str | None = None
    columns: tuple[str, ...] = ()


@_node
class TableCall(FromItem):
    call: Call
    alias: str | None = None
    columns: tuple[str, ...] = ()
    lateral: bool = False


@_node
class JoinItem(FromItem):
    """`kind` is inner, cross, left, right, full, semi or anti."""

    kind: str
    left: FromItem
    right: FromItem
    natural: bool = False
    using: tuple[str, ...] = ()
    on: Expr | None = None


@_node
class LateralView(FromItem):
    child: FromItem | None
    call: Call
    outer: bool
    alias: str | None
    columns: tuple[str, ...] = ()


@_node
class Pivot(FromItem):
    """`clause` is the token PIVOT stands at."""

    child: FromItem
    clause: int
    aggregates: tuple[Item, ...]
    columns: tuple[Expr, ...]
    values: tuple[Item, ...]


@_node
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
