"""What tests of the store share: tables made in one line, contents as Counters, and an outside client."""

from __future__ import annotations

import math
import struct
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from anabranch.algebra.relation import Column
from anabranch.store.connection import extension_path
from anabranch.store.ducklake import DuckLakeStore
from anabranch.store.protocol import MAIN, ROWID, WEIGHT, Commit, CreateTable, TableName, Version, Write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def columns(text: str) -> tuple[Column, ...]:
    """`a bigint; m map<string,int>` as columns."""
    return tuple(Column(*each.strip().split(" ", 1)) for each in text.split(";"))


def create(store: DuckLakeStore, name: str, text: str, schema: str = MAIN) -> str:
    """Make a table; its id."""
    version = store.commit(Commit((CreateTable(TableName(schema, name), columns(text)),)))
    return table_id(store, name, version)


def table_id(store: DuckLakeStore, name: str, at: Version | None = None) -> str:
    """The id of the table with this name."""
    (found,) = (key for key, info in store.tables(at or store.head()).items() if info.name == name)
    return found


def insert(store: DuckLakeStore, table: str, **values: list[Any]) -> Version:
    """Add rows, given column by column."""
    return store.commit(Commit((Write(table, inserts=(pa.table(values),)),)))


def rows(store: DuckLakeStore, table: str, at: Version | None = None) -> Counter[tuple[Any, ...]]:
    """The table's contents."""
    return counted(store.read(table, at or store.head()))


def change(store: DuckLakeStore, table: str, since: Version, upto: Version) -> dict[tuple[Any, ...], int]:
    """The change as row to weight; fails if it is not consolidated."""
    result: dict[tuple[Any, ...], int] = {}
    for row in store.changes(table, since, upto).collect():
        values = row.asDict()
        weight = values.pop(WEIGHT)
        key = canonical(tuple(values.values()))
        assert weight != 0
        assert key not in result
        result[key] = weight
    return result


def rowids(store: DuckLakeStore, table: str, condition: str, at: Version | None = None) -> pa.Array:
    """The ids of rows that meet a condition."""
    found = store.read(table, at or store.head(), rowid=True).where(condition).select(ROWID).toArrow()
    return found.column(ROWID).combine_chunks()


def counted(frame: DataFrame) -> Counter[tuple[Any, ...]]:
    """The frame's rows and how often each is there, by byte identity."""
    return Counter(canonical(tuple(row)) for row in frame.collect())


def canonical(value: Any) -> Any:
    """A hashable stand-in that tells -0.0 from 0.0 and takes every NaN for the same."""
    if isinstance(value, float):
        return ("nan",) if math.isnan(value) else struct.pack(">d", value)
    if isinstance(value, dict):
        return frozenset((canonical(key), canonical(each)) for key, each in value.items())
    if isinstance(value, list | tuple):
        return tuple(canonical(each) for each in value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return bytes(value) if isinstance(value, bytearray) else value


def difference(after: Counter[Any], before: Counter[Any]) -> dict[Any, int]:
    """after - before as a Z-set."""
    return {key: after[key] - before[key] for key in after.keys() | before.keys() if after[key] != before[key]}


def outsider(
    folder: str | Path, alias: str = "theirs", catalog: str | None = None, data: Path | None = None
) -> duckdb.DuckDBPyConnection:
    """A plain DuckDB client with the ducklake extension."""
    connection = duckdb.connect()
    for name in ("ducklake", "sqlite_scanner", "postgres_scanner"):
        connection.execute(f"LOAD '{extension_path(name)}'")
    place = catalog or f"sqlite:{folder}/catalog.sqlite"
    options = f" (DATA_PATH '{data}')" if data else ""
    connection.execute(f"ATTACH 'ducklake:{place}' AS {alias}{options}")
    connection.execute(f"USE {alias}")
    return connection
