"""Rows of plain Python values as an Arrow table, where that is beyond doubt; otherwise Spark decides what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa

from anabranch.algebra.relation import Column
from anabranch.store.arrow import arrow_schema

_VALUES: dict[str, type] = {
    "tinyint": int,
    "smallint": int,
    "int": int,
    "bigint": int,
    "double": float,
    "string": str,
    "boolean": bool,
    "date": date,
}


def arrow_rows(rows: Sequence[tuple[Any, ...]], columns: tuple[Column, ...]) -> pa.Table | None:
    """The rows, if every value is exactly of the kind that its column holds; None if not, or if one does not fit."""
    kinds = [Decimal if each.type.startswith("decimal(") else _VALUES.get(each.type) for each in columns]
    if not columns or None in kinds:
        return None
    if not all(value is None or type(value) is kind for row in rows for value, kind in zip(row, kinds, strict=True)):
        return None
    schema = arrow_schema(columns)
    try:
        arrays = [pa.array([row[place] for row in rows], each.type) for place, each in enumerate(schema)]
    except (pa.ArrowException, OverflowError, UnicodeError):
        return None
    return pa.Table.from_arrays(arrays, schema=schema)
