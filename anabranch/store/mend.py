"""Mends what DuckLake leaves wrong in its catalog, so that neither we nor others read rows as they are not.

- A rewrite takes a column's range anew from the files. Where one of them has only NULLs it finds no range, the next
  insert then counts as the first one ever, and clients that go by the range do not see the rows outside of it.
- It is noted since when a table has the columns it has, but not when it starts to put rows into the catalog later on.
  Clients that did not see it happen take them for rows of the table's first columns.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterable, Iterator

import duckdb

from anabranch.store.catalog import Field, Table
from anabranch.store.connection import METADATA, Connection, text
from anabranch.store.types import duckdb_type

_ATTEMPTS = 50


def note_columns(connection: Connection, table: Table) -> bool:
    """Note for all rows in the catalog with which columns they were written; False if there is no doubt."""
    held = connection.catalog(
        f"SELECT schema_version FROM ducklake_inlined_data_tables WHERE table_id = {table.number}"
    )
    noted = connection.catalog(f"SELECT schema_version FROM ducklake_schema_versions WHERE table_id = {table.number}")
    unknown = sorted({int(version) for (version,) in held} - {int(version) for (version,) in noted})
    if not unknown or len(noted) == 1:
        return False
    for version in unknown:
        _patiently(connection, _note(table, version))
    connection.renew()
    return True


def _patiently(connection: Connection, statement: str) -> None:
    """Others hold the catalog for moments."""
    for attempt in range(_ATTEMPTS):
        try:
            with contextlib.closing(connection.separate()) as cursor:
                cursor.execute(statement)
            return
        except duckdb.Error:
            if attempt == _ATTEMPTS - 1:
                raise
            time.sleep(random.uniform(0, 0.2))


def _note(table: Table, version: int) -> str:
    """They are the columns of the last version before it: putting rows into the catalog changes none."""
    versions = f"{METADATA}.ducklake_schema_versions"
    return (
        f"INSERT INTO {versions} (begin_snapshot, schema_version, table_id) "
        f"SELECT max(begin_snapshot), {version}, {table.number} FROM {versions} "
        f"WHERE table_id = {table.number} AND schema_version <= {version} "
        f"HAVING max(schema_version) < {version}"
    )


def widen_ranges(cursor: duckdb.DuckDBPyConnection, table: Table) -> None:
    """Make the range of every column include those of all files that the table has now."""
    known = cursor.execute(_all_ranges(table)).fetchall()
    by_column: dict[int, set[tuple[str, str]]] = {}
    for column, least, most, _ in known:
        if least is not None and most is not None:
            by_column.setdefault(column, set()).add((least, most))
    fields = {each.id: each for each in _inner(table.fields) if each.readable}
    for column, least, most, is_tables in known:
        field = fields.get(column)
        if is_tables and field is not None and by_column.get(column, {(least, most)}) != {(least, most)}:
            wanted = _hull(cursor, duckdb_type(field.type), by_column[column])
            if wanted not in (None, (least, most)):
                cursor.execute(_set_range(table, column, (least, most), wanted))


def _all_ranges(table: Table) -> str:
    """By column the different ranges of the files, and that of the table."""
    return (
        f"SELECT DISTINCT column_id, min_value, max_value, false FROM {METADATA}.ducklake_file_column_stats "
        f"JOIN {METADATA}.ducklake_data_file USING (data_file_id, table_id) "
        f"WHERE table_id = {table.number} AND end_snapshot IS NULL "
        f"UNION ALL SELECT column_id, min_value, max_value, true FROM {METADATA}.ducklake_table_column_stats "
        f"WHERE table_id = {table.number}"
    )


def _inner(fields: Iterable[Field]) -> Iterator[Field]:
    """The columns that have values of their own, parts of nested ones included."""
    for field in fields:
        yield from _inner(field.children) if field.children else (field,)


def _hull(cursor: duckdb.DuckDBPyConnection, kind: str, ranges: set[tuple[str, str]]) -> tuple[str, str] | None:
    """The least and the greatest of all, in the words they were given in; None if one cannot be understood."""
    typed = f"TRY_CAST(least AS {kind}) AS low, TRY_CAST(most AS {kind}) AS high"
    values = ", ".join(f"({text(least)}, {text(most)})" for least, most in sorted(ranges))
    found = cursor.execute(
        f"SELECT arg_min(least, low), arg_max(most, high), bool_and(low IS NOT NULL AND high IS NOT NULL) "
        f"FROM (SELECT *, {typed} FROM (VALUES {values}) AS ranges(least, most))"
    ).fetchone()
    return (found[0], found[1]) if found is not None and found[2] else None


def _set_range(table: Table, column: int, seen: tuple[str | None, str | None], wanted: tuple[str, str]) -> str:
    """Unless somebody else has set it meanwhile."""
    least, most = ("NULL" if each is None else text(each) for each in seen)
    return (
        f"UPDATE {METADATA}.ducklake_table_column_stats "
        f"SET min_value = {text(wanted[0])}, max_value = {text(wanted[1])} "
        f"WHERE table_id = {table.number} AND column_id = {column} "
        f"AND min_value IS NOT DISTINCT FROM {least} AND max_value IS NOT DISTINCT FROM {most}"
    )
