"""Types of Spark and types of DuckLake, each as text.

A table's columns keep the Spark type they were created with, so only types that come back as they were are accepted;
the rest is refused with the reason. Outside lakes may hold types that Spark cannot read: those columns keep their
DuckLake name as type, and reading them is refused by name.
"""

from __future__ import annotations

import re

from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    CharType,
    DataType,
    DayTimeIntervalType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimeType,
    VarcharType,
    VariantType,
    YearMonthIntervalType,
)

from anabranch.algebra.relation import Column
from anabranch.errors import QueryError
from anabranch.spark.types import parse_type
from anabranch.store.connection import identifier
from anabranch.store.protocol import ROWID, WEIGHT

_TO_DUCKDB = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
}
_FROM_DUCKLAKE = {
    "boolean": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
    "uint64": "decimal(20,0)",
    "float32": "float",
    "float64": "double",
    "varchar": "string",
    "json": "string",
    "blob": "binary",
    "date": "date",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
}
_RESERVED = {"rowid", "_metadata", ROWID, WEIGHT, "_ducklake_internal_row_id", "_ducklake_internal_snapshot_id"}
_REFUSED: tuple[tuple[type[DataType], str, str], ...] = (
    (VariantType, "VARIANT is stored in a form that does not come back as it was", "Store the text, or a struct."),
    (NullType, "VOID holds no value that could be stored", "Cast the column to a type, as in CAST(NULL AS STRING)."),
    (DayTimeIntervalType, "day-time intervals cannot be stored", "Store the number of seconds as BIGINT."),
    (YearMonthIntervalType, "year-month intervals cannot be stored", "Store the number of months as INT."),
    (CalendarIntervalType, "intervals cannot be stored", "Store months, days and microseconds as numbers."),
    (CharType, "the length of CHAR would be forgotten", "Use STRING."),
    (VarcharType, "the length of VARCHAR would be forgotten", "Use STRING."),
    (TimeType, "TIME does not come back as it was", "Store the number of microseconds as BIGINT, or a STRING."),
)


def duckdb_type(data_type: DataType | str) -> str:
    """The DuckDB type of a Spark type that was accepted.

    >>> duckdb_type("map<string,array<decimal(12,2)>>")
    'MAP(VARCHAR, DECIMAL(12,2)[])'
    """
    resolved = parse_type(data_type) if isinstance(data_type, str) else data_type
    match resolved:
        case ArrayType():
            return f"{duckdb_type(resolved.elementType)}[]"
        case MapType():
            return f"MAP({duckdb_type(resolved.keyType)}, {duckdb_type(resolved.valueType)})"
        case StructType():
            fields = (f"{identifier(field.name)} {duckdb_type(field.dataType)}" for field in resolved.fields)
            return f"STRUCT({', '.join(fields)})"
    text = resolved.simpleString()
    return text.upper() if text.startswith("decimal(") else _TO_DUCKDB[text]


def spark_type(ducklake_type: str) -> str | None:
    """The Spark type of a scalar DuckLake type; None where Spark cannot read it.

    >>> spark_type("decimal(12,2)"), spark_type("uuid")
    ('decimal(12,2)', None)
    """
    if decimal := re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", ducklake_type):
        return f"decimal({decimal[1]},{decimal[2]})"
    return _FROM_DUCKLAKE.get(ducklake_type)


def check_columns(columns: tuple[Column, ...]) -> None:
    """Refuse what a table cannot hold or give back."""
    if not columns:
        raise QueryError("NO_COLUMNS", "a table needs at least one column")
    _check_names([column.name for column in columns], "column")
    for column in columns:
        check_column(column)


def check_column(column: Column) -> None:
    """Refuse a column whose name or type the lake cannot hold."""
    if column.name.lower() in _RESERVED:
        raise QueryError("NAME_RESERVED", f"{column.name!r} is a name of the lake's own", hint="Use another name.")
    data_type = parse_type(column.type)
    _check_type(column.name, data_type)
    if data_type.simpleString() != column.type or parse_type(data_type.simpleString()) != data_type:
        raise QueryError(
            "TYPE_NOT_STORABLE",
            f"the type of column {column.name!r} does not come back as it was",
            detail=f"Given {column.type}, read back as {data_type.simpleString()}.",
            hint="Use plain names for struct fields.",
        )


def _check_names(names: list[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if not name or "\x00" in name:
            raise QueryError("NAME_NOT_STORABLE", f"{name!r} cannot be the name of a {what}")
        if name.lower() in seen:
            raise QueryError(
                "NAME_TWICE", f"there are two {what}s named {name!r}", hint="Names are compared without case."
            )
        seen.add(name.lower())


def _check_type(column: str, data_type: DataType) -> None:
    for refused, reason, hint in _REFUSED:
        if isinstance(data_type, refused):
            raise _not_storable(column, data_type, reason, hint)
    match data_type:
        case StringType() if data_type.collation != "UTF8_BINARY":
            raise _not_storable(column, data_type, "the collation would be forgotten", "Use STRING.")
        case ArrayType():
            _check_type(column, data_type.elementType)
        case MapType():
            _check_type(column, data_type.keyType)
            _check_type(column, data_type.valueType)
        case StructType():
            if not data_type.fields:
                raise _not_storable(column, data_type, "a struct needs at least one field", "Add a field.")
            _check_names([field.name for field in data_type.fields], "field")
            for field in data_type.fields:
                _check_type(column, field.dataType)


def _not_storable(column: str, data_type: DataType, reason: str, hint: str) -> QueryError:
    return QueryError(
        "TYPE_NOT_STORABLE",
        f"column {column!r} has the type {data_type.simpleString()}, which a lake cannot hold",
        detail=f"{reason[0].upper()}{reason[1:]}.",
        hint=hint,
    )
