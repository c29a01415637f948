"""Byte identity of values, as an expression that Spark can group, join, compare and sort by.

    identity(x) <=> identity(y)  if and only if x and y are the same value, byte for byte

Spark's own comparison equates -0.0 with 0.0, equates 'a' with 'A' under some collations and refuses maps. So floats are
compared by their text (-0.0 has its own, NaN has one), strings as UTF8_BINARY, maps as their sorted entries, and nested
values by the identity of what they contain. A VARIANT, whose bytes nobody can get at, is compared by its type and its
text: mixed arrays such as [1, "a"] and [1.0, "a"] are one value. All other types compare exactly as they are.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.sql import functions
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructType,
    VariantType,
)

from anabranch.spark.quote import quoted
from anabranch.spark.types import parse_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BINARY = "UTF8_BINARY"


def needs_identity(data_type: DataType | str) -> bool:
    """Whether Spark's own comparison of this type is not byte identity (or does not exist)."""
    match _resolve(data_type):
        case FloatType() | DoubleType() | MapType() | CalendarIntervalType() | VariantType():
            return True
        case StringType() as text:
            return bool(text.collation != _BINARY)
        case ArrayType() as array:
            return needs_identity(array.elementType)
        case StructType() as struct:
            return any(needs_identity(field.dataType) for field in struct.fields)
    return False


def identity(sql: str, data_type: DataType | str) -> str:
    """The SQL expression whose <=>, GROUP BY and order are byte identity of the value of `sql`.

    >>> identity("`x`", "double")
    'CAST(`x` AS STRING)'
    """
    resolved = _resolve(data_type)
    return _identity(sql, resolved, 0) if needs_identity(resolved) else sql


@lru_cache(maxsize=4096)
def _identity(sql: str, data_type: DataType, depth: int) -> str:
    if not needs_identity(data_type):
        return sql
    item = f"__ab_{depth}"
    match data_type:
        case ArrayType():
            return f"transform({sql}, {item} -> {_identity(item, data_type.elementType, depth + 1)})"
        case MapType():
            key = _identity(f"{item}.key", data_type.keyType, depth + 1)
            value = _identity(f"{item}.value", data_type.valueType, depth + 1)
            entry = f"named_struct('key', {key}, 'value', {value})"
            return f"sort_array(transform(map_entries({sql}), {item} -> {entry}))"
        case StructType():
            return _identity_of_struct(sql, data_type, depth)
        case StringType():
            return f"({sql} COLLATE {_BINARY})"
        case VariantType():
            return f"named_struct('type', schema_of_variant({sql}), 'text', to_json({sql}))"
    return f"CAST({sql} AS STRING)"


def _identity_of_struct(sql: str, data_type: StructType, depth: int) -> str:
    """A NULL struct is not a struct of NULLs."""
    fields = ", ".join(
        f"'{position}', {_identity(f'{sql}.{quoted(field.name)}', field.dataType, depth + 1)}"
        for position, field in enumerate(data_type.fields)
    )
    return f"IF({sql} IS NULL, NULL, named_struct({fields}))"


def consolidate(frame: DataFrame, weight: str) -> DataFrame:
    """Sum the weights of byte-identical rows and drop the zeros; values stay as they are.

    SELECT x, SUM(w) AS w FROM frame GROUP BY identity(x) HAVING SUM(w) <> 0
    """
    fields = [field for field in frame.schema.fields if field.name != weight]
    keys = []
    outputs = []
    for position, field in enumerate(fields):
        name = quoted(field.name)
        if needs_identity(field.dataType):
            keys.append(functions.expr(identity(name, field.dataType)).alias(f"__ab_identity_{position}"))
            outputs.append(functions.expr(f"any_value({name})").alias(f"__ab_value_{position}"))
        else:
            keys.append(functions.expr(name).alias(f"__ab_value_{position}"))
    total = functions.expr(f"sum({quoted(weight)})").alias(weight)
    summed = frame.groupBy(*keys).agg(*outputs, total).where(f"{quoted(weight)} <> 0")
    values = [functions.expr(f"`__ab_value_{position}`").alias(field.name) for position, field in enumerate(fields)]
    return summed.select(*values, functions.expr(quoted(weight)).alias(weight))


def _resolve(data_type: DataType | str) -> DataType:
    return parse_type(data_type) if isinstance(data_type, str) else data_type
