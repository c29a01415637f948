"""What tests of the public object share: contents as Counters, snapshots counted, an outside client."""

from __future__ import annotations

import math
import struct
from collections import Counter
from typing import TYPE_CHECKING, Any

import duckdb

from anabranch import AnabranchError, Lake
from anabranch.store.connection import extension_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Rows = Counter[tuple[Any, ...]]


def rows(lake: Lake, name: str, snapshot: int | None = None) -> Rows:
    """A table's contents."""
    return counted(lake.table(name, snapshot))


def queried(lake: Lake, query: str) -> Rows:
    """A query's rows."""
    return counted(lake.sql(query))


def bag(*given: tuple[Any, ...]) -> Rows:
    """Rows as written in a test, duplicates counted."""
    return Counter(canonical(row) for row in given)


def counted(frame: DataFrame) -> Rows:
    """The frame's rows and how often each is there, by byte identity."""
    return Counter(canonical(tuple(row)) for row in frame.collect())


def canonical(value: Any) -> Any:
    """A hashable stand-in that tells -0.0 from 0.0 and takes every NaN for the same."""
    match value:
        case float():
            return ("nan",) if math.isnan(value) else struct.pack(">d", value)
        case dict():
            return frozenset((canonical(key), canonical(each)) for key, each in value.items())
        case list() | tuple():
            return tuple(canonical(each) for each in value)
        case bytearray():
            return bytes(value)
    return value


def code_of(lake: Lake, statement: str) -> str | None:
    """The code with which a statement is refused; None if it is not."""
    try:
        lake.sql(statement)
    except AnabranchError as error:
        return error.code
    return None


def head(lake: Lake) -> int:
    """The newest snapshot's number."""
    return lake._engine.store.head().number


def outsider(lake: Lake, catalog: str | None = None) -> duckdb.DuckDBPyConnection:
    """A plain DuckDB client of the same lake."""
    connection = duckdb.connect()
    for name in ("ducklake", "sqlite_scanner", "postgres_scanner"):
        connection.execute(f"LOAD '{extension_path(name)}'")
    place = catalog or f"sqlite:{lake._engine.path}/catalog.sqlite"
    connection.execute(f"ATTACH 'ducklake:{place}' AS theirs")
    connection.execute("USE theirs")
    return connection


def seen_by(client: duckdb.DuckDBPyConnection, query: str) -> Rows:
    """What a DuckDB client reads."""
    return Counter(canonical(row) for row in client.execute(query).fetchall())
