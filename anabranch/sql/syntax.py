"""The shape of an expression as Spark's grammar reads it."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from anabranch.sql.node import Node, SyntaxNode, node

if TYPE_CHECKING:
    from anabranch.sql.query_syntax import Query


class Expr(Node):
    """A scalar expression."""

    @property
    def children(self) -> tuple[Expr, ...]:
        return ()


@node
class Name(Expr):
    """A column reference `a.b.c`, not yet resolved."""

    parts: tuple[str, ...]


@node
class Star(Expr):
    """`*`, `t.*`, `* EXCEPT (a, b.c)`."""

    qualifier: tuple[str, ...] = ()
    excluded: tuple[tuple[str, ...], ...] = ()


@node
class Literal(Expr):
    """A literal; `value` is an int for an integer literal, a str for a string, else None."""

    value: int | str | None = None


@node
class SortItem(SyntaxNode):
    value: Expr
    descending: bool
    nulls_first: bool


@node
class Frame(SyntaxNode):
    """ROWS or RANGE; the bounds are expressions or words, kept as token ranges."""

    rows: bool
    start: int
    end: int
    values: tuple[Expr, ...] = ()


@node
class WindowSpec(SyntaxNode):
    """An OVER clause: a name alone, or partition, order and frame."""

    name: str | None = None
    partition: tuple[Expr, ...] = ()
    order: tuple[SortItem, ...] = ()
    frame: Frame | None = None


@node
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


@node
class Lambda(Expr):
    """`(x, y) -> body`; the parameters are no columns."""

    parameters: tuple[str, ...]
    body: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.body,)


@node
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


@node
class Nested(Expr):
    """A subquery in an expression. For IN, `probe` is what is looked up and `negated` says NOT IN."""

    kind: NestedKind
    query: Query
    probe: tuple[Expr, ...] = ()
    negated: bool = False

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.probe


@node
class Conjunction(Expr):
    """`a AND b AND c`, as many as there are."""

    operands: tuple[Expr, ...]

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.operands


@node
class Disjunction(Expr):
    """`a OR b OR c`."""

    operands: tuple[Expr, ...]

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.operands


@node
class Equal(Expr):
    """`left = right`, also written `==`; or `left <=> right`, also written IS NOT DISTINCT FROM."""

    left: Expr
    right: Expr
    null_safe: bool

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.left, self.right)


@node
class Not(Expr):
    operand: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.operand,)


@node
class Paren(Expr):
    """`(inner)`."""

    inner: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.inner,)


@node
class Row(Expr):
    """`(a, b)`."""

    items: tuple[Expr, ...]

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.items


@node
class Opaque(Expr):
    """Any other expression: its text, and the parts of it that may hold columns."""

    parts: tuple[Expr, ...] = ()

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.parts
