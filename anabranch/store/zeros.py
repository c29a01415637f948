"""Zeros of both signs in one column, which DuckDB's Parquet writer takes for one value.

Where a column repeats itself, DuckDB writes a dictionary and looks values up in it by `=`. But -0.0 = 0.0, so that all
zeros of the file get the sign of the first one. To us a row with -0.0 and a row with 0.0 are two rows: whatever holds
both is written by Arrow or by Spark, whose dictionaries compare bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.store.catalog import Field
from anabranch.store.connection import identifier

_FRACTIONS = ("float", "double")
NEGATIVE_ZERO_TEXT = r"(^|[^0-9a-zA-Z.])-0(\.0)?($|[^0-9.])"
"""Finds a negative zero in the text of a value, nested ones included; may find one in a string, too."""


def holds_fractions(fields: tuple[Field, ...]) -> bool:
    """Whether a FLOAT or DOUBLE is among the fields, at any depth."""
    return any(field.type in _FRACTIONS or holds_fractions(field.children) for field in fields)


def mixes_zeros(rows: pa.Table) -> bool:
    """Whether a column, or a part of one, holds both -0.0 and 0.0."""
    columns = (each.combine_chunks() for each in rows.columns if _has_fractions(each.type))
    return any(_mixes(values) for column in columns for values in _fractions(column))


def write_exactly(rows: pa.Table, path: Path) -> None:
    """Write a file in which every value is as it was given.

    FLOAT and DOUBLE columns get no statistics: Arrow leaves NaN out of them, and who goes by them would not find it.
    """
    told = [each.name for each in rows.schema if not _has_fractions(each.type)]
    pq.write_table(rows, path, compression="zstd", write_statistics=told or False)


def negative_zero_sql(fields: tuple[Field, ...]) -> str | None:
    """A DuckDB condition: the row holds a -0.0. None where no field could."""
    found = [_negative_zero(identifier(field.name), field, 0) for field in fields if holds_fractions((field,))]
    return " OR ".join(found) or None


def _negative_zero(sql: str, field: Field, depth: int) -> str:
    if field.type in _FRACTIONS:
        return f"coalesce({sql} = 0 AND signbit({sql}), false)"
    if field.type.startswith("struct<"):
        inner = [each for each in field.children if holds_fractions((each,))]
        tests = [_negative_zero(f"{sql}.{identifier(each.name)}", each, depth) for each in inner]
        return f"({' OR '.join(tests)})"
    if field.type.startswith("map<"):
        lists = zip((f"map_keys({sql})", f"map_values({sql})"), field.children, strict=True)
        tests = [_among(values, each, depth) for values, each in lists if holds_fractions((each,))]
        return f"({' OR '.join(tests)})"
    return _among(sql, field.children[0], depth)


def _among(sql: str, element: Field, depth: int) -> str:
    """The condition for the elements of a list."""
    item = f"item_{depth}"
    test = _negative_zero(item, element, depth + 1)
    return f"coalesce(list_bool_or(list_transform({sql}, lambda {item}: {test})), false)"


def _has_fractions(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_fractions(kind.field(place).type) for place in range(kind.num_fields))
    return bool(pa.types.is_floating(kind))


def _fractions(values: pa.Array) -> Iterator[pa.Array]:
    """The values of each part that is stored as a column of its own."""
    kind = values.type
    if not _has_fractions(kind):
        return
    if pa.types.is_floating(kind):
        yield values
    elif pa.types.is_struct(kind):
        for child in values.flatten():
            yield from _fractions(child)
    elif pa.types.is_map(kind):
        yield from _fractions(values.keys)
        yield from _fractions(values.items)
    else:
        yield from _fractions(values.flatten())


def _mixes(values: pa.Array) -> bool:
    numbers = values.drop_null().to_numpy(zero_copy_only=False)
    signs = np.signbit(numbers[numbers == 0])
    return bool(signs.any()) and not bool(signs.all())
