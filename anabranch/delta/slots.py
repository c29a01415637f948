"""What a mergeable aggregate keeps per group: counts, sums, extremes, each in a hidden column.

    COUNT(*)             rows
    COUNT(x)             present(x)
    SUM(x), AVG(x)       sum(x), present(x)
    MIN(x), MAX(x)       extreme(x); also what is known to have left, for a group that lost its extreme

A slot says how it starts (from all rows), what one weighted row adds, and how old and added are combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from anabranch.algebra.expression import Expression, expression
from anabranch.algebra.relation import RESERVED_PREFIX, Aggregate, Aggregation, Column, Distinct, Relation
from anabranch.delta.numbers import (
    final_average,
    final_sum,
    is_mergeable_average,
    is_mergeable_sum,
    sum_type,
    summand,
    weighted,
)
from anabranch.delta.parts import HIDDEN

COUNT = f"{RESERVED_PREFIX}count"
LEAST = ("min", "every", "bool_and")
GREATEST = ("max", "any", "some", "bool_or")
AVERAGE = ("avg", "mean")


class Kind(Enum):
    ROWS = "count"
    PRESENT = "present"
    SUM = "sum"
    LEAST = "least"
    GREATEST = "greatest"


@dataclass(frozen=True)
class Slot:
    """One hidden column of a group's state: of which values, and of which rows."""

    name: str
    kind: Kind
    values: tuple[Expression, ...] = ()
    filter: Expression | None = None

    @property
    def type(self) -> str:
        match self.kind:
            case Kind.ROWS | Kind.PRESENT:
                return "bigint"
            case Kind.SUM:
                return sum_type(self.values[0].type)
        return self.values[0].type

    @property
    def column(self) -> Column:
        return Column(self.name, self.type)

    @property
    def is_extreme(self) -> bool:
        return self.kind in (Kind.LEAST, Kind.GREATEST)

    @property
    def left(self) -> Column:
        """For an extreme: the most extreme value among the rows that went."""
        return Column(f"{self.name}_left", self.type)

    @property
    def function(self) -> str:
        return {Kind.LEAST: "MIN", Kind.GREATEST: "MAX"}.get(self.kind, "SUM")

    def start(self) -> Aggregation:
        """The slot of a group, from all its rows."""
        match self.kind:
            case Kind.ROWS:
                return aggregation(self.name, "COUNT", (), self.type)
            case Kind.PRESENT:
                return aggregation(self.name, "COUNT", self.values, self.type, self.filter)
            case Kind.SUM:
                made = aggregation(self.name, "SUM", (summand(self.values[0]),), self.type, self.filter)
                cast = expression(f"CAST(coalesce({{}}, 0) AS {self.type})", self.type, made.call)
                return Aggregation(made.name, made.function, made.arguments, cast, filter=made.filter)
        return aggregation(self.name, self.function, self.values, self.type, self.filter)

    def addition(self, weight: Expression) -> Expression:
        """What a row of the change adds to the slot; for an extreme, the value of a row that came."""
        if self.kind is Kind.ROWS:
            return weight
        tests = [] if self.filter is None else [self.filter]
        if self.kind is Kind.PRESENT:
            tests += [expression("{} IS NOT NULL", "boolean", value) for value in self.values]
            return _where(tests, weight, "0")
        if self.kind is Kind.SUM:
            added = weighted(self.values[0], weight)
            return expression("coalesce({}, 0)", added.type, _where(tests, added, "NULL"))
        return _where([expression("{} > 0", "boolean", weight), *tests], self.values[0], "NULL")

    def departure(self, weight: Expression) -> Expression:
        """For an extreme: the value of a row that went."""
        tests = [] if self.filter is None else [self.filter]
        return _where([expression("{} < 0", "boolean", weight), *tests], self.values[0], "NULL")

    def is_broken(self) -> Expression:
        """For an extreme: whether a row that went may have been the one that held it."""
        compare = "<=" if self.kind is Kind.LEAST else ">="
        left, kept = self.left.value, self.column.value
        return expression(
            f"{{}} IS NOT NULL AND ({{}} IS NULL OR {{}} {compare} {{}})", "boolean", left, kept, left, kept
        )


def slots_of(core: Relation) -> tuple[Slot, ...] | None:
    """The state that lets the operator be merged; None where some aggregate cannot be."""
    if isinstance(core, Distinct):
        return (Slot(COUNT, Kind.ROWS),)
    if not isinstance(core, Aggregate):
        return None
    found: dict[tuple[Kind, tuple[Expression, ...], Expression | None], Slot] = {}
    for each in core.aggregations:
        needs = _needs(each)
        if needs is None:
            return None
        for need in needs:
            name = COUNT if need[0] is Kind.ROWS else f"{HIDDEN}{need[0].value}_{len(found) + 1}"
            found.setdefault(need, Slot(name, *need))
    found.setdefault(_ROWS, Slot(COUNT, Kind.ROWS))
    return tuple(found.values())


def final_value(aggregation: Aggregation, slots: Sequence[Slot]) -> Expression:
    """The aggregate's value, from the state of its group."""
    needs = _needs(aggregation) or []
    state = [next(slot for slot in slots if (slot.kind, slot.values, slot.filter) == need) for need in needs]
    values = [slot.column.value for slot in state]
    type = aggregation.call.type
    match aggregation.function.lower():
        case "sum":
            return final_sum(values[0], values[1], type)
        case name if name in AVERAGE:
            return final_average(values[0], values[1], aggregation.arguments[0].type, type)
    return values[0]


_Need = tuple[Kind, tuple[Expression, ...], Expression | None]
_ROWS: _Need = (Kind.ROWS, (), None)


def _needs(aggregation: Aggregation) -> list[_Need] | None:
    """The slots an aggregate is made of; None where it cannot be merged."""
    arguments, where = aggregation.arguments, aggregation.filter
    function = aggregation.function.lower()
    if not aggregation.call.deterministic:
        return None
    if function in LEAST or function in GREATEST:
        return [(Kind.LEAST if function in LEAST else Kind.GREATEST, arguments, where)]
    if aggregation.distinct:
        return None
    if function == "count":
        return [_ROWS if not arguments and where is None else (Kind.PRESENT, arguments, where)]
    if function == "count_if":
        return [(Kind.PRESENT, (_true_or_null(arguments[0]),), where)]
    type = aggregation.call.type
    mergeable = (function == "sum" and is_mergeable_sum(arguments[0].type, type)) or (
        function in AVERAGE and is_mergeable_average(arguments[0].type, type)
    )
    return [(Kind.SUM, arguments, where), (Kind.PRESENT, arguments, where)] if mergeable else None


def aggregation(
    name: str, function: str, arguments: tuple[Expression, ...], type: str, where: Expression | None = None
) -> Aggregation:
    """`function(arguments) FILTER (WHERE where)`, `function(*)` without arguments."""
    listed = ", ".join("{}" for _ in arguments) or "*"
    condition = "" if where is None else " FILTER (WHERE {})"
    given = arguments if where is None else (*arguments, where)
    return Aggregation(
        name, function.lower(), arguments, expression(f"{function}({listed}){condition}", type, *given), filter=where
    )


def _where(tests: Sequence[Expression], value: Expression, otherwise: str) -> Expression:
    if not tests:
        return value
    listed = " AND ".join("{}" for _ in tests)
    return expression(f"CASE WHEN {listed} THEN {{}} ELSE {otherwise} END", value.type, *tests, value)


def _true_or_null(condition: Expression) -> Expression:
    return expression("CASE WHEN {} THEN 1 END", "int", condition)
