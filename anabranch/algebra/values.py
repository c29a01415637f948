"""Values in plain Python: how Spark tells them apart, compares them and sorts them.

NULL is None, an array or struct is a tuple, DECIMAL is `Decimal`, DOUBLE is `Double`. Three relations matter: identity
(is it the same row?), equality (`=` and GROUP BY: 0.0 equals -0.0, NaN equals NaN) and order (NaN is the largest).
"""

from __future__ import annotations

import math
from typing import Any

Value = Any
Row = tuple[Value, ...]


class EvaluationError(Exception):
    """The query itself raises on these rows, as Spark would."""


class Double(float):
    """A DOUBLE whose `==` and hash mean identity: 0.0 and -0.0 are two values, every NaN is one."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, float):
            return float.__eq__(self, other) is True
        if math.isnan(self) or math.isnan(other):
            return math.isnan(self) and math.isnan(other)
        return float.__eq__(self, other) and math.copysign(1, self) == math.copysign(1, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return 0 if math.isnan(self) else float.__hash__(self)


def as_value(value: Value) -> Value:
    """The value as rows hold it: floats are `Double`, sequences are tuples."""
    if type(value) is float:
        return Double(value)
    if isinstance(value, list | tuple):
        return tuple(as_value(each) for each in value)
    return value


def group_key(value: Value) -> Value:
    """Two values are equal to GROUP BY exactly when their group keys are identical. The key is what GROUP BY shows."""
    if type(value) is Double:
        return Double(0.0) if float.__eq__(value, 0.0) else value
    if type(value) is tuple:
        return tuple(group_key(each) for each in value)
    return value


def order_key(value: Value) -> tuple[Any, ...]:
    """A key that sorts as Spark sorts ascending with NULL first: NULL, then values, then NaN."""
    if value is None:
        return (0,)
    if type(value) is Double:
        return (2,) if math.isnan(value) else (1, float(value))
    if type(value) is tuple:
        return (1, tuple(order_key(each) for each in value))
    return (1, value)


def sort_key(value: Value, descending: bool, nulls_first: bool) -> tuple[Any, ...]:
    """A key that sorts as `ORDER BY value ASC|DESC NULLS FIRST|LAST`."""
    if value is None:
        return (0,) if nulls_first else (2,)
    return (1, _Reversed(order_key(value)) if descending else order_key(value))


class _Reversed:
    """Sorts the other way round."""

    __slots__ = ("key",)

    def __init__(self, key: tuple[Any, ...]) -> None:
        self.key = key

    def __lt__(self, other: _Reversed) -> bool:
        return other.key < self.key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def equal(left: Value, right: Value) -> bool | None:
    """`left = right`, NULL if either is."""
    if left is None or right is None:
        return None
    if type(left) in _PLAIN and type(right) in _PLAIN:
        return bool(left == right)
    return order_key(left) == order_key(right)


def less(left: Value, right: Value) -> bool | None:
    """`left < right`, NULL if either is."""
    if left is None or right is None:
        return None
    if type(left) in _PLAIN and type(right) in _PLAIN:
        return bool(left < right)
    return order_key(left) < order_key(right)


def same(left: Value, right: Value) -> bool:
    """`left <=> right`: equal, or both NULL."""
    if left is None or right is None:
        return left is right
    return bool(equal(left, right))


_PLAIN = frozenset({int, str, bool})
