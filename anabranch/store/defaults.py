"""Defaults of columns added by an outside client.

The catalog keeps a default as DuckDB prints the value; only literals of plain types can be defaults.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import duckdb
import pyarrow as pa

from anabranch.errors import StorageError
from anabranch.spark.quote import literal
from anabranch.store.catalog import Field
from anabranch.store.connection import text
from anabranch.store.project import field_type
from anabranch.store.types import duckdb_type


def default_literal(field: Field) -> str:
    """The default as Spark SQL."""
    value = _value(field.name, str(field.initial_default), field.type)
    match field.type:
        case "string":
            return literal(value.as_py())
        case "binary":
            return f"X'{value.as_py().hex()}'"
        case "timestamp":
            return f"timestamp_micros({value.value}L)"
        case "timestamp_ntz":
            return f"CAST({literal(str(value.cast(pa.string())))} AS TIMESTAMP_NTZ)"
    return f"CAST({literal(str(value.as_py()))} AS {field.type})"


def default_array(field: Field, count: int) -> pa.Array:
    """The default, or NULL, as often as asked."""
    if field.initial_default is None:
        return pa.nulls(count, field_type(field))
    value = _value(field.name, field.initial_default, field.type)
    return pa.repeat(value.cast(field_type(field)), count)


@lru_cache(maxsize=1024)
def _value(name: str, default: str, kind: str) -> Any:
    """DuckDB's reading of its own text."""
    try:
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            found = connection.execute(f"SELECT CAST({text(default)} AS {duckdb_type(kind)}) AS x").to_arrow_table()
    except duckdb.Error as error:
        raise StorageError(
            "DEFAULT_NOT_READABLE", f"the default of column {name!r} cannot be read", detail=str(error)
        ) from error
    return found.column("x")[0]
