"""Aggregate functions in plain Python: from a parsed call to a function of a group of weighted rows.

A group is a list of (hole values, weight), every weight positive. DISTINCT counts equal arguments once, FILTER drops
rows first, and an aggregate may stand inside a scalar expression, as in `SUM(x) / COUNT(x)`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal

from sqlglot import exp

from anabranch.algebra.scalars import Function, arguments_of, compile_scalar
from anabranch.algebra.values import Double, Row, Value, group_key, order_key

Group = list[tuple[Row, int]]
Items = list[tuple[Row, int]]


def compile_aggregate(node: exp.Expr) -> Callable[[Group], Value]:
    """The expression, aggregates and all, as a function of a group."""
    return compile_scalar(node, _aggregate_call)  # type: ignore[return-value]


def _aggregate_call(node: exp.Expr) -> Function | None:
    """Inside an aggregate expression the `holes` handed around are a whole group; an aggregate call reads its rows."""
    if isinstance(node, exp.Filter):
        kept = compile_scalar(node.expression.this)
        return _on_rows(node.this, lambda holes: kept(holes) is True)
    if isinstance(node, exp.IgnoreNulls):
        value = compile_scalar(node.this.this)
        return _on_rows(node.this, lambda holes: value(holes) is not None)
    name = str(node.name).lower() if isinstance(node, exp.Anonymous) else type(node).__name__.lower()
    function = _AGGREGATES.get(name)
    return None if function is None else _compile_call(node, function)


def _on_rows(node: exp.Expr, wanted: Callable[[Row], bool]) -> Function:
    """The aggregate call on the rows that are wanted."""
    call = compile_aggregate(node)
    return lambda group: call([(holes, weight) for holes, weight in group if wanted(holes)])


def _compile_call(node: exp.Expr, function: Callable[[Items], Value]) -> Function:
    given = [each for each in arguments_of(node) if not isinstance(each, exp.Star)]
    distinct = bool(given) and isinstance(given[0], exp.Distinct)
    arguments = [compile_scalar(each) for each in (given[0].expressions if distinct else given)]

    def call(group: Group) -> Value:
        items = [(tuple(argument(holes) for argument in arguments), weight) for holes, weight in group]
        return function(_distinct(items) if distinct else items)

    return call  # type: ignore[return-value]


def _distinct(items: Items) -> Items:
    return [(values, 1) for values in dict.fromkeys(group_key(values) for values, _ in items)]


def _present(items: Items) -> Items:
    return [(values, weight) for values, weight in items if None not in values]


def _copies(items: Items) -> Iterator[Value]:
    for (value,), weight in _present(items):
        for _ in range(weight):
            yield value


def _count(items: Items) -> Value:
    return sum(weight for _, weight in _present(items))


def _sum(items: Items) -> Value:
    present = _present(items)
    if not present:
        return None
    if isinstance(present[0][0][0], float):
        return Double(math.fsum(_copies(items)))
    return sum(value * weight for (value,), weight in present)


def _average(items: Items) -> Value:
    total = _sum(items)
    if total is None or isinstance(total, Decimal):
        return total if total is None else total / _count(items)
    return Double(total / _count(items))


def _least(items: Items) -> Value:
    return min((value for (value,), _ in _present(items)), key=order_key, default=None)


def _greatest(items: Items) -> Value:
    return max((value for (value,), _ in _present(items)), key=order_key, default=None)


def _least_row(items: Items) -> Value:
    """`first` and `any_value` of the settled query: the least value, NULL included."""
    return min((value for (value,), _ in items), key=order_key, default=None)


def _greatest_row(items: Items) -> Value:
    return max((value for (value,), _ in items), key=order_key, default=None)


def _list(items: Items) -> Value:
    """`collect_list` of the settled query: sorted."""
    return tuple(sorted(_copies(items), key=order_key))


def _set(items: Items) -> Value:
    return tuple(sorted({group_key(value) for value in _copies(items)}, key=order_key))


def _by(choose: Callable[..., Value]) -> Callable[[Items], Value]:
    def pick(items: Items) -> Value:
        ranked = [(value, rank) for (value, rank), _ in items if rank is not None]
        if not ranked:
            return None
        best = order_key(choose((rank for _, rank in ranked), key=order_key))
        return min((value for value, rank in ranked if order_key(rank) == best), key=order_key)

    return pick


def _mode(items: Items) -> Value:
    counts = Counter(_copies(items))
    if not counts:
        return None
    most = max(counts.values())
    return min((value for value, count in counts.items() if count == most), key=order_key)


def _variance(correction: int) -> Callable[[Items], float | None]:
    def spread(items: Items) -> float | None:
        values = [float(value) for value in _copies(items)]
        if not values:
            return None
        if len(values) == correction:
            return Double("nan") if correction == 0 else None
        mean = math.fsum(values) / len(values)
        return Double(math.fsum((value - mean) ** 2 for value in values) / (len(values) - correction))

    return spread


def _deviation(correction: int) -> Callable[[Items], Value]:
    spread = _variance(correction)
    return lambda items: None if (found := spread(items)) is None else Double(math.sqrt(found))


def _count_true(items: Items) -> Value:
    return sum(weight for (value,), weight in items if value is True)


_AGGREGATES: dict[str, Callable[[Items], Value]] = {
    "count": _count,
    "countif": _count_true,
    "sum": _sum,
    "avg": _average,
    "min": _least,
    "max": _greatest,
    "logicalor": _greatest,
    "some": _greatest,
    "any": _greatest,
    "logicaland": _least,
    "every": _least,
    "anyvalue": _least_row,
    "first": _least_row,
    "firstvalue": _least_row,
    "last": _greatest_row,
    "lastvalue": _greatest_row,
    "argmax": _by(max),
    "argmin": _by(min),
    "arrayagg": _list,
    "arrayuniqueagg": _set,
    "mode": _mode,
    "approxdistinct": lambda items: len(_distinct(_present(items))),
    "variance": _variance(1),
    "variancepop": _variance(0),
    "stddev": _deviation(1),
    "stddevsamp": _deviation(1),
    "stddevpop": _deviation(0),
}
