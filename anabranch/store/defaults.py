"""Defaults of columns added by an outside client, as Spark SQL.

The catalog keeps a default as DuckDB prints the value; only literals of plain types can be defaults.
"""

from __future__ import annotations

from functools import lru_cache

import duckdb

from anabranch.errors import StorageError
from anabranch.spark.quote import literal
from anabranch.store.catalog import Field
from anabranch.store.connection import text
from anabranch.store.types import duckdb_type


def default_literal(field: Field) -> str:
    """The column's value in rows that were written before it was there."""
    assert field.initial_default is not None
    return _literal(field.name, field.initial_default, field.type)


@lru_cache(maxsize=1024)
def _literal(name: str, value: str, kind: str) -> str:
    if kind == "string":
        return literal(value)
    if kind == "binary":
        return f"X'{_cast(name, value, kind, 'hex(x)')}'"
    if kind == "timestamp":
        return f"timestamp_micros({_cast(name, value, kind, 'epoch_us(x)')}L)"
    if kind == "timestamp_ntz":
        return f"CAST({literal(_cast(name, value, kind, 'x'))} AS TIMESTAMP_NTZ)"
    return f"CAST({literal(_cast(name, value, kind, 'x'))} AS {kind})"


def _cast(name: str, value: str, kind: str, expression: str) -> str:
    """DuckDB's reading of its own text, printed in a form that Spark reads the same way."""
    source = f"SELECT CAST({text(value)} AS {duckdb_type(kind)}) AS x"
    try:
        with duckdb.connect(config={"TimeZone": "UTC"}) as connection:
            found = connection.execute(f"SELECT CAST({expression} AS VARCHAR) FROM ({source})").fetchone()
    except duckdb.Error as error:
        raise StorageError(
            "DEFAULT_NOT_READABLE", f"the default of column {name!r} cannot be read", detail=str(error)
        ) from error
    assert found is not None
    return str(found[0])
