"""Rows that Spark wants, as JSON, against rows that the lake holds, as Arrow: both as plain values, then as bags."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

AS_JSON = (
    "to_json(struct(*), map('ignoreNullFields', 'false', 'timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", "
    "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\"))"
)
TOLERANCE = 1e-9
Bag = Counter[str]
"""Rows by their text: -0.0 is not 0.0, 1 is not 1.0."""


def wanted_bag(rows: Iterable[str], schema: pa.Schema) -> Bag:
    """Rows from JSON. What JSON does not tell apart, decimals from doubles, the schema does."""
    bag: Bag = Counter()
    for text in rows:
        row = json.loads(text, parse_float=Decimal)
        if list(row) != schema.names:
            raise AssertionError(f"the query has the columns {list(row)}, the table {schema.names}")
        bag[repr([_as_typed(row[each.name], each.type) for each in schema])] += 1
    return bag


def stored_bag(rows: pa.Table) -> Bag:
    return Counter(repr([_plain(value) for value in row.values()]) for row in rows.to_pylist())


def _as_typed(value: Any, type: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_floating(type):
        return float(value)
    if pa.types.is_decimal(type):
        return Decimal(value)
    if pa.types.is_list(type):
        return [_as_typed(each, type.value_type) for each in value]
    return value


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case date():
            return value.isoformat()
        case list():
            return [_plain(each) for each in value]
    return value


def unlike(wanted: Bag, stored: Bag) -> tuple[list[str], list[str]]:
    """What is missing and what is too much; floating-point numbers may differ in the last digits."""
    missing, unexpected = list((wanted - stored).elements()), list((stored - wanted).elements())
    for row in list(missing):
        twin = next((each for each in unexpected if alike(_values(row), _values(each))), None)
        if twin is not None:
            missing.remove(row)
            unexpected.remove(twin)
    return missing, unexpected


def _values(row: str) -> Any:
    return eval(row, {"Decimal": Decimal, "nan": math.nan, "inf": math.inf})


def alike(one: Any, other: Any) -> bool:
    match one, other:
        case float(), float():
            return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        case list(), list():
            return len(one) == len(other) and all(alike(a, b) for a, b in zip(one, other, strict=True))
    return type(one) is type(other) and bool(one == other)
