"""Evaluate expression text in plain Python, for the reference interpreter.

The text is parsed once per *template*: its holes are numbered, so `a = b` and `c = d` share one compiled function of
two values. Binding a template to an input is looking up the holes' positions in the row.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Decimal
from functools import cache, lru_cache

import sqlglot
from sqlglot import exp

from anabranch.algebra.aggregates import compile_aggregate
from anabranch.algebra.expression import Expression, Ref
from anabranch.algebra.scalars import HOLE_PREFIX, Function, arguments_of, compile_scalar
from anabranch.algebra.values import Row, Value
from anabranch.algebra.windows import WindowFunction, compile_window

OuterRow = Mapping[str, Value]
Scalar = Callable[[Row, OuterRow], Value]
AggregateOf = Callable[[list[tuple[Row, int]], OuterRow], Value]
WindowOf = Callable[[list[Row], OuterRow], list[Value]]
RowsOf = Callable[[Row, OuterRow], list[Row]]


@lru_cache(maxsize=20_000)
def scalar(expression: Expression, names: tuple[str, ...]) -> Scalar:
    """The expression as a function of an input row with these columns, and of the enclosing query's row."""
    function, fill = _scalar(_template(expression)), _filler(expression, names)
    return lambda row, outer: function(fill(row, outer))


@lru_cache(maxsize=20_000)
def aggregate(expression: Expression, names: tuple[str, ...]) -> AggregateOf:
    """The aggregate as a function of a group: rows with their weights."""
    function, fill = _aggregate(_template(expression)), _filler(expression, names)
    fitted = _fitted(expression.type)
    return lambda group, outer: fitted(function([(fill(row, outer), weight) for row, weight in group]))


@lru_cache(maxsize=20_000)
def window(expression: Expression, names: tuple[str, ...]) -> WindowOf:
    """The window call as a function of all rows (duplicates repeated): one value per row."""
    function, fill = _window(_template(expression), len(_holes(expression))), _filler(expression, names)
    return lambda rows, outer: function([fill(row, outer) for row in rows])


@lru_cache(maxsize=20_000)
def generator(expression: Expression, names: tuple[str, ...]) -> RowsOf:
    """The generator (`explode(xs)`, `range(3)`) as a function of an input row: the rows it makes."""
    function, fill = _generator(_template(expression)), _filler(expression, names)
    return lambda row, outer: function(fill(row, outer))


def _fitted(type: str) -> Callable[[Value], Value]:
    """A decimal result has the scale of its type: AVG is rounded, half up."""
    found = re.fullmatch(r"decimal\(\d+,(\d+)\)", type)
    if found is None:
        return lambda value: value
    unit = Decimal(1).scaleb(-int(found[1]))
    return lambda value: None if value is None else Decimal(value).quantize(unit, ROUND_HALF_UP)


def all_true(predicates: tuple[Expression, ...], names: tuple[str, ...]) -> Callable[[Row, OuterRow], bool]:
    """Whether every predicate is true of a row; they are tested in order and testing stops at the first that is not."""
    tests = [scalar(each, names) for each in predicates]
    return lambda row, outer: all(test(row, outer) is True for test in tests)


def _holes(expression: Expression) -> list[Ref]:
    return [part for part in expression.parts if not isinstance(part, str)]  # type: ignore[misc]


def _template(expression: Expression) -> str:
    count = iter(range(len(expression.parts)))
    return expression.text(lambda hole: f"{HOLE_PREFIX}{next(count)}")


def _filler(expression: Expression, names: tuple[str, ...]) -> Callable[[Row, OuterRow], Row]:
    """From an input row to the values of the holes, in the order of the template."""
    holes = _holes(expression)
    if not all(isinstance(hole, Ref) for hole in holes):
        return _outer_filler(expression, names)
    positions = [names.index(hole.name) for hole in holes]
    if len(positions) == 1:
        only = positions[0]
        return lambda row, outer: (row[only],)
    if not positions:
        return lambda row, outer: ()
    get = operator.itemgetter(*positions)
    return lambda row, outer: get(row)


def _outer_filler(expression: Expression, names: tuple[str, ...]) -> Callable[[Row, OuterRow], Row]:
    holes = _holes(expression)
    found = [(names.index(hole.name) if isinstance(hole, Ref) else None, hole.name) for hole in holes]
    return lambda row, outer: tuple(outer[name] if place is None else row[place] for place, name in found)


def _parse(template: str) -> exp.Expr:
    return sqlglot.parse_one(template, dialect="spark")


@cache
def _scalar(template: str) -> Function:
    return compile_scalar(_parse(template))


@cache
def _aggregate(template: str) -> Callable[[list[tuple[Row, int]]], Value]:
    return compile_aggregate(_parse(template))


@cache
def _window(template: str, holes: int) -> WindowFunction:
    return compile_window(_parse(template), holes)


@cache
def _generator(template: str) -> Callable[[Row], list[Row]]:
    node = _parse(template)
    name = str(node.name).lower() if isinstance(node, exp.Anonymous) else type(node).__name__.lower().lstrip("_")
    arguments = [compile_scalar(each) for each in arguments_of(node)]
    rows_of = _GENERATORS[name]
    return lambda holes: rows_of(*(argument(holes) for argument in arguments))


def _stack(count: int, *values: Value) -> list[Row]:
    width = -(-len(values) // count)
    padded = values + (None,) * (width * count - len(values))
    return [padded[start : start + width] for start in range(0, len(padded), width)]


_GENERATORS: dict[str, Callable[..., list[Row]]] = {
    "explode": lambda values: [(each,) for each in values or ()],
    "explodeouter": lambda values: [(each,) for each in values or (None,)],
    "posexplode": lambda values: list(enumerate(values or ())),
    "inline": lambda values: list(values or ()),
    "stack": _stack,
    "range": lambda *bounds: [(each,) for each in range(*bounds)],
}
