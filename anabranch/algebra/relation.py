"""The language in the middle: relational operators as frozen values.

Every operator maps Z-sets (rows with integer weights) to a Z-set; `algebra/interpret.py` is their meaning. A plan is a
DAG, not a tree: equal operators are one object (they are interned), so equality and hashing are by identity, a shared
sub-plan is found by looking, and every walk is memoised.

Columns are named, and names are unique within an operator's output, whatever the case of their letters. Names starting
with `__ab_` are ours.

LINEAR operators are defined for all weights. The others (`NEEDS_BAG`) are defined on bags: after summing, no weight is
negative. For joins other than inner, the side that is tested for partners must be a bag, the preserved side need not.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

from anabranch.algebra.expression import Expression, column

RESERVED_PREFIX = "__ab_"
WEIGHT = "__ab_weight"
"""The column that says how often a row is there more (or, below zero, less)."""
ROWID = "__ab_rowid"
"""The column by which a stored row is deleted."""
WAS_THERE = "__ab_was_there"
IS_THERE = "__ab_is_there"
"""Columns of a scan of two versions of a table: whether the row is in the first, and in the second."""


@dataclass(frozen=True, slots=True)
class Column:
    """A named column; the type is Spark DDL text, such as `decimal(12,2)`."""

    name: str
    type: str

    @property
    def value(self) -> Expression:
        """The column as an expression."""
        return column(self.name, self.type)


class _Interned(type):
    """Makes equal operators one object: an operator's fields are compared once, when it is built."""

    if not TYPE_CHECKING:

        def __call__(cls, *arguments: Any, **named: Any) -> Any:
            built = super().__call__(*arguments, **named)
            key = (cls, *(getattr(built, field.name) for field in fields(built)))
            with _interned_lock:
                return _interned.setdefault(key, built)


_interned: weakref.WeakValueDictionary[tuple[Any, ...], Relation] = weakref.WeakValueDictionary()
_interned_lock = threading.Lock()


class Relation(metaclass=_Interned):
    """Base of all operators. `columns` is derived from the fields."""

    __slots__ = ()

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Any]]

        @property
        def columns(self) -> tuple[Column, ...]: ...

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.columns)

    @cached_property
    def children(self) -> tuple[Relation, ...]:
        """Direct inputs, in field order."""
        found: list[Relation] = []
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Relation):
                found.append(value)
            elif isinstance(value, tuple):
                found.extend(item for item in value if isinstance(item, Relation))
        return tuple(found)

    def column(self, name: str) -> Column:
        for each in self.columns:
            if each.name == name:
                return each
        raise KeyError(f"column {name!r} is not among {', '.join(self.names)}")


_Operator = TypeVar("_Operator", bound=Relation)


@dataclass_transform(frozen_default=True, eq_default=False)
def _operator(cls: type[_Operator]) -> type[_Operator]:
    return dataclass(frozen=True, eq=False, repr=False)(cls)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _check_reads(expressions: Iterable[Expression], *inputs: Relation) -> None:
    known = {name for relation in inputs for name in relation.names}
    for each in expressions:
        missing = each.columns - known
        _require(
            not missing, f"{each} reads {', '.join(sorted(missing))}; existing columns: {', '.join(sorted(known))}"
        )


def _check_unique(columns: Iterable[Column]) -> None:
    seen: set[str] = set()
    for each in columns:
        folded = each.name.lower()
        _require(folded not in seen, f"column {each.name!r} appears twice")
        seen.add(folded)


# ---- leaves


@_operator
class Scan(Relation):
    """A table of the lake (source or stream table) in a defining query; `table` is its identity, not its name."""

    table: str
    columns: tuple[Column, ...]


@_operator
class Before(Relation):
    """In a delta plan: the table as the node's frontier saw it."""

    table: str
    columns: tuple[Column, ...]


@_operator
class After(Relation):
    """In a delta plan: the table as this tick sees it."""

    table: str
    columns: tuple[Column, ...]


@_operator
class Change(Relation):
    """In a delta plan: after - before of the table, as a Z-set."""

    table: str
    columns: tuple[Column, ...]


@_operator
class Stored(Relation):
    """In a delta plan: the rows a part has stored before this tick, hidden columns included."""

    part: str
    columns: tuple[Column, ...]


@_operator
class Empty(Relation):
    """No rows."""

    columns: tuple[Column, ...]


@_operator
class Values(Relation):
    """Rows written in the query (`VALUES`, `SELECT 1`); expressions read no columns."""

    rows: tuple[tuple[Expression, ...], ...]
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        _require(all(len(row) == len(self.columns) for row in self.rows), "a row of VALUES has another width")
        _check_reads(each for row in self.rows for each in row)


@_operator
class TableFunction(Relation):
    """A table-valued function of constants, such as `range(10)`."""

    call: Expression
    columns: tuple[Column, ...]


@_operator
class Recursion(Relation):
    """Inside the step of a Fixpoint: the rows found in the round before."""

    name: str
    columns: tuple[Column, ...]


# ---- linear


@_operator
class Filter(Relation):
    """Keep the rows for which every predicate is true."""

    child: Relation
    predicates: tuple[Expression, ...]

    def __post_init__(self) -> None:
        _check_reads(self.predicates, self.child)

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


@_operator
class Project(Relation):
    """One output row per input row, same weight."""

    child: Relation
    outputs: tuple[Output, ...]

    def __post_init__(self) -> None:
        _check_reads((each.value for each in self.outputs), self.child)
        _check_unique(self.columns)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(each.column for each in self.outputs)


@_operator
class UnionAll(Relation):
    """The sum of Z-sets, columns by position; names and types are the first one's."""

    inputs: tuple[Relation, ...]

    def __post_init__(self) -> None:
        _require(len(self.inputs) > 0, "a union needs an input")
        width = len(self.inputs[0].columns)
        _require(all(len(each.columns) == width for each in self.inputs), "inputs of a union differ in width")

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.inputs[0].columns


@_operator
class Negate(Relation):
    """Every weight times -1."""

    child: Relation

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns


@_operator
class Expand(Relation):
    """Every input row becomes one row per projection (grouping sets, unpivot)."""

    child: Relation
    projections: tuple[tuple[Expression, ...], ...]
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        _require(all(len(row) == len(self.columns) for row in self.projections), "a projection has another width")
        _check_reads((each for row in self.projections for each in row), self.child)
        _check_unique(self.columns)


@_operator
class Generate(Relation):
    """Each input row joined with the rows a generator (`explode(xs)`) makes of it; `outer` keeps rows without any."""

    child: Relation
    generator: Expression
    outer: bool
    generated: tuple[Column, ...]

    def __post_init__(self) -> None:
        _check_reads((self.generator,), self.child)
        _check_unique(self.columns)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns + self.generated


# ---- joins


class JoinKind(Enum):
    INNER = "inner"
    LEFT = "left"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"


@_operator
class Join(Relation):
    """Rows of both sides for which all of `on` is true; weights multiply. A right join is a left join turned round.

    SEMI and ANTI keep the left row, with its weight, where a partner exists or none does.
    """

    left: Relation
    right: Relation
    kind: JoinKind
    on: tuple[Expression, ...]

    def __post_init__(self) -> None:
        _check_reads(self.on, self.left, self.right)
        _check_unique(self.left.columns + self.right.columns)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        if self.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return self.left.columns
        return self.left.columns + self.right.columns


# ---- not linear: defined on bags


@_operator
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


@_operator
class Aggregate(Relation):
    """One row per group of equal keys (as GROUP BY compares); without keys exactly one row, even for no input."""

    child: Relation
    keys: tuple[str, ...]
    aggregations: tuple[Aggregation, ...]

    def __post_init__(self) -> None:
        _check_reads((each.call for each in self.aggregations), self.child)
        _require(set(self.keys) <= set(self.child.names), f"keys {self.keys} are not all columns of the input")
        _check_unique(self.columns)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(self.child.column(key) for key in self.keys) + tuple(each.column for each in self.aggregations)


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key of an order."""

    name: str
    descending: bool = False
    nulls_first: bool = True


@_operator
class Window(Relation):
    """Adds a column per call; a call is the whole text, OVER clause included. All calls share the partition columns."""

    child: Relation
    partition: tuple[str, ...]
    calls: tuple[Output, ...]

    def __post_init__(self) -> None:
        _check_reads((each.value for each in self.calls), self.child)
        _require(set(self.partition) <= set(self.child.names), "partition columns are not all columns of the input")
        _check_unique(self.columns)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns + tuple(each.column for each in self.calls)


@_operator
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
        _require(named <= set(self.child.names), "sort keys are not all columns of the input")

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns


@_operator
class Fixpoint(Relation):
    """`WITH RECURSIVE`: the anchor's rows, plus the step on the rows of the round before, until a round finds none."""

    name: str
    anchor: Relation
    step: Relation

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.anchor.columns


# ---- only before lowering


class SetKind(Enum):
    INTERSECT = "intersect"
    EXCEPT = "except"


@_operator
class SetOperation(Relation):
    """INTERSECT and EXCEPT, with or without ALL, columns by position; NULL equals NULL."""

    kind: SetKind
    all: bool
    left: Relation
    right: Relation

    def __post_init__(self) -> None:
        _require(len(self.left.columns) == len(self.right.columns), "inputs of a set operation differ in width")

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.left.columns


class ApplyKind(Enum):
    SCALAR = "scalar"
    EXISTS = "exists"
    IN = "in"


@_operator
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
        _check_reads(self.probe, self.child)
        _check_unique(self.columns)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return (*self.child.columns, self.output)


@_operator
class LateralJoin(Relation):
    """Join each row of `left` (INNER or LEFT) with the rows of `right` evaluated for it, its `Outer` holes bound."""

    left: Relation
    right: Relation
    kind: JoinKind
    on: tuple[Expression, ...]

    def __post_init__(self) -> None:
        _require(self.kind in (JoinKind.INNER, JoinKind.LEFT), "a lateral join is inner or left")
        _check_reads(self.on, self.left, self.right)
        _check_unique(self.columns)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.left.columns + self.right.columns


# ---- only in delta plans: from weights to rows and back


@_operator
class Consolidate(Relation):
    """Sum the weights of identical rows (byte identity) and drop the zeros: the normal form of a Z-set."""

    child: Relation

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns


@_operator
class Support(Relation):
    """The rows that occur at all, with either sign, once each: the keys a change touches.

    Defined on the terms as they stand: a row whose weights cancel may or may not occur, and nobody may depend on it.
    """

    child: Relation

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns


@_operator
class Weigh(Relation):
    """Turn the weight into a BIGINT column, every row then counting once. Only sums of it mean anything above."""

    child: Relation
    weight: str

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return (*self.child.columns, Column(self.weight, "bigint"))


LEAVES = (Scan, Before, After, Change, Stored, Empty, Values, TableFunction, Recursion)
LINEAR = (Filter, Project, UnionAll, Negate, Expand, Generate)
NEEDS_BAG = (Distinct, Aggregate, Window, TopK, Fixpoint, SetOperation, Apply, LateralJoin)
SURFACE = (SetOperation, Apply, LateralJoin)
DELTA_ONLY = (Before, After, Change, Stored, Consolidate, Support, Weigh)
KERNEL = (
    Scan,
    Empty,
    Values,
    TableFunction,
    Recursion,
    Filter,
    Project,
    UnionAll,
    Negate,
    Expand,
    Generate,
    Join,
    Distinct,
    Aggregate,
    Window,
    TopK,
    Fixpoint,
)


def iterate(root: Relation) -> Iterator[Relation]:
    """Every operator of the plan once, inputs before their readers."""
    seen: set[Relation] = set()
    stack: list[tuple[Relation, bool]] = [(root, False)]
    while stack:
        relation, expanded = stack.pop()
        if expanded:
            yield relation
        elif relation not in seen:
            seen.add(relation)
            stack.append((relation, True))
            stack.extend((child, False) for child in reversed(relation.children))
