"""Many chains of filters and projections over the same rows, worked out by one wide projection.

    chain1(R), chain2(R), ...   from   SELECT columns, p1 AS flag1, CASE WHEN flag1 THEN e1 END AS value1, ... FROM R

A chain's rows are then those in which its flag is true. Values are computed only where the flag is: the chain would not
evaluate them elsewhere, and they may raise. Spark plans two projections instead of two operators for each chain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from anabranch.algebra.expression import Expression, expression
from anabranch.algebra.relation import RESERVED_PREFIX, Column, Filter, Output, Project, Relation

FLAG = f"{RESERVED_PREFIX}wide_flag_"
VALUE = f"{RESERVED_PREFIX}wide_value_"
_WINDOW = re.compile(r"\bwindow\s*\(", re.IGNORECASE)
LONGEST = 300
"""A chain whose expressions become longer than so many pieces, written over the rows themselves, is left as it is."""


@dataclass(frozen=True)
class Chain:
    """Filters and projections as one condition and one list of values, both over the columns of `base`."""

    base: Relation
    predicates: tuple[Expression, ...]
    values: tuple[Expression, ...]

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the base that are read."""
        return frozenset().union(*(each.columns for each in (*self.predicates, *self.values)))


def base_of(relation: Relation) -> Relation:
    """What is below the filters and projections."""
    while isinstance(relation, Filter | Project):
        relation = relation.child
    return relation


def chain_of(relation: Relation) -> Chain | None:
    """The chain that a relation is; None if it cannot be written as one, or only at length."""
    if not isinstance(relation, Filter | Project):
        return Chain(relation, (), tuple(each.value for each in relation.columns))
    below = chain_of(relation.child)
    if below is None:
        return None
    known = dict(zip(relation.child.names, below.values, strict=True))
    if isinstance(relation, Filter):
        predicates = tuple(each.substitute(known) for each in relation.predicates)
        chain = Chain(below.base, below.predicates + predicates, below.values)
    else:
        chain = Chain(below.base, below.predicates, tuple(each.value.substitute(known) for each in relation.outputs))
    return chain if _is_plain((*chain.predicates, *chain.values)) else None


@dataclass
class Wide:
    """The wide projection under construction: what it computes, each thing once."""

    rows: Relation
    _flags: dict[tuple[Expression, ...], str] = field(default_factory=dict)
    _values: dict[tuple[str, Expression], str] = field(default_factory=dict)
    _passed: dict[str, None] = field(default_factory=dict)

    def flag(self, chain: Chain) -> str | None:
        """The column that is true in the chain's rows; None if all rows are its own."""
        return self._flags.setdefault(chain.predicates, f"{FLAG}{len(self._flags)}") if chain.predicates else None

    def columns(self, chain: Chain) -> tuple[str, ...]:
        """The columns that hold the chain's values."""
        return tuple(self._column(each, self.flag(chain)) for each in chain.values)

    def relation(self) -> Relation:
        """The rows with everything that was asked for."""
        return self.over(self.rows)

    def over(self, rows: Relation, others: Iterable[str] = ()) -> Relation:
        """The same of other rows that have these columns, and more columns of them, unchanged."""
        kept = tuple(_passed_on(rows.column(name)) for name in dict.fromkeys((*self._passed, *others)))
        flags = tuple(Output(name, _all_true(each)) for each, name in self._flags.items())
        if not self._values:
            return Project(rows, (*kept, *flags))
        read = frozenset().union(*(value.columns for _, value in self._values)) - {each.name for each in kept}
        below = Project(rows, (*kept, *(_passed_on(rows.column(name)) for name in sorted(read)), *flags))
        values = (Output(name, _where(flag, value)) for (flag, value), name in self._values.items())
        return Project(below, (*kept, *(_passed_on(each.column) for each in flags), *values))

    def _column(self, value: Expression, flag: str | None) -> str:
        if value.is_column:
            (name,) = value.columns
            self._passed[name] = None
            return name
        return self._values.setdefault((flag or "", value), f"{VALUE}{len(self._values)}")


def _passed_on(column: Column) -> Output:
    return Output(column.name, column.value)


def _all_true(predicates: tuple[Expression, ...]) -> Expression:
    tests = " AND ".join("{}" for _ in predicates)
    return expression(f"coalesce({tests}, false)", "boolean", *predicates)


def _where(flag: str, value: Expression) -> Expression:
    if not flag:
        return value
    return expression("CASE WHEN {} THEN {} END", value.type, Column(flag, "boolean").value, value)


def _is_plain(expressions: tuple[Expression, ...]) -> bool:
    return sum(len(each.parts) for each in expressions) <= LONGEST and all(map(_is_row_by_row, expressions))


def _is_row_by_row(value: Expression) -> bool:
    """Whether it can stand beside others: a SELECT with `window(time, ...)` loses its rows without a time."""
    return value.deterministic and not any(_WINDOW.search(part) for part in value.parts if isinstance(part, str))
