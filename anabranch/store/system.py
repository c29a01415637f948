"""Tables of our own inside the lake: documents (definitions, frontiers, settings) and history.

They live in the schema `anabranch` and change in the same commit as the rows they speak of. Their rows are few and
small, so for these tables alone DuckLake keeps them in the catalog instead of writing a file for each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import duckdb
import pyarrow as pa

from anabranch.store.connection import LAKE, Connection, text

SCHEMA = "anabranch"
DOCUMENTS = f"{LAKE}.{SCHEMA}.documents"
HISTORY = f"{LAKE}.{SCHEMA}.history"
_INLINED_ROWS = 10_000

HISTORY_COLUMNS = {
    "tick_id": "VARCHAR",
    "node_id": "VARCHAR",
    "node_name": "VARCHAR",
    "started_at": "VARCHAR",
    "action": "VARCHAR",
    "reason": "VARCHAR",
    "rows_inserted": "BIGINT",
    "rows_deleted": "BIGINT",
    "seconds": "DOUBLE",
    "fused": "BOOLEAN",
    "snapshot": "BIGINT",
    "details": "VARCHAR",
}
_ARROW = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_()}
_SELECT = f"SELECT {', '.join(HISTORY_COLUMNS)} FROM {HISTORY}"
_HISTORY_SCHEMA = pa.schema([(name, _ARROW[kind]) for name, kind in HISTORY_COLUMNS.items()])


def create_system_tables(cursor: duckdb.DuckDBPyConnection, schemas: Iterable[str]) -> None:
    """One transaction; the caller holds the lock and has seen that they are not there."""
    columns = ", ".join(f"{name} {kind}" for name, kind in HISTORY_COLUMNS.items())
    for schema in (SCHEMA, *schemas):
        cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {LAKE}.{schema}")
    cursor.execute(f"CREATE TABLE {DOCUMENTS} (key VARCHAR, value VARCHAR)")
    cursor.execute(f"CREATE TABLE {HISTORY} ({columns})")


def switch_inlining_off(cursor: duckdb.DuckDBPyConnection) -> None:
    """For the whole lake, which binds outside clients too.

    Where the lake has views, setting an option for all of it crashes DuckDB 1.5.5; for each schema it does not.
    """
    views = cursor.execute(f"SELECT 1 FROM duckdb_views() WHERE database_name = {text(LAKE)}").fetchall()
    if not views:
        cursor.execute(f"CALL {LAKE}.set_option('data_inlining_row_limit', 0)")
        return
    schemas = cursor.execute(f"SELECT schema_name FROM duckdb_schemas() WHERE database_name = {text(LAKE)}").fetchall()
    for (schema,) in schemas:
        cursor.execute(f"CALL {LAKE}.set_option('data_inlining_row_limit', 0, schema => {text(schema)})")


def switch_own_inlining_on(cursor: duckdb.DuckDBPyConnection) -> None:
    """For our own tables."""
    for table in ("documents", "history"):
        cursor.execute(
            f"CALL {LAKE}.set_option('data_inlining_row_limit', {_INLINED_ROWS}, schema => '{SCHEMA}',"
            f" table_name => '{table}')"
        )


def write_documents(
    cursor: duckdb.DuckDBPyConnection, present: Mapping[str, str], wanted: Mapping[str, str | None]
) -> dict[str, str]:
    """Put and remove documents; all documents after it."""
    after = {key: value for key, value in {**present, **wanted}.items() if value is not None}
    changed = [key for key in wanted if present.get(key) != after.get(key)]
    old = [key for key in changed if key in present]
    new = [key for key in changed if key in after]
    if old:
        cursor.execute(f"DELETE FROM {DOCUMENTS} WHERE key IN ({', '.join(text(key) for key in old)})")
    if new:
        rows = ", ".join(f"({text(key)}, {text(after[key])})" for key in new)
        cursor.execute(f"INSERT INTO {DOCUMENTS} VALUES {rows}")
    return after


def write_history(cursor: duckdb.DuckDBPyConnection, entries: Iterable[Mapping[str, Any]], snapshot: int) -> None:
    """Append entries; keys that are not columns go into `details`."""
    rows = pa.Table.from_pylist([_history_row(entry, snapshot) for entry in entries], schema=_HISTORY_SCHEMA)
    cursor.register("__ab_history", rows)
    try:
        cursor.execute(f"INSERT INTO {HISTORY} SELECT * FROM __ab_history")
    finally:
        cursor.unregister("__ab_history")


def read_history(
    connection: Connection, limit: int | None, node: str | None = None, since: int | None = None
) -> pa.Table:
    """Entries, newest first: of all nodes or of one, by id; all, or those of snapshots after `since`."""
    suffix = f" LIMIT {limit}" if limit is not None else ""
    conditions = [
        *([f"node_id = {text(node)}"] if node is not None else []),
        *([f"snapshot > {since}"] if since is not None else []),
    ]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return connection.arrow_anew(f"{_SELECT}{where} ORDER BY snapshot DESC, rowid DESC{suffix}")


def read_last_history(connection: Connection) -> pa.Table:
    """The newest entry of each node."""
    newest = "row_number() OVER (PARTITION BY node_id ORDER BY snapshot DESC, rowid DESC) = 1"
    return connection.arrow_anew(f"{_SELECT} QUALIFY {newest}")


def _history_row(entry: Mapping[str, Any], snapshot: int) -> dict[str, Any]:
    row = {name: entry.get(name) for name in HISTORY_COLUMNS}
    others = {key: value for key, value in entry.items() if key not in HISTORY_COLUMNS}
    details = row["details"]
    if others:
        known = json.loads(details) if isinstance(details, str) else dict(details or {})
        row["details"] = json.dumps({**known, **others}, default=str, sort_keys=True)
    elif details is not None and not isinstance(details, str):
        row["details"] = json.dumps(details, default=str, sort_keys=True)
    row["snapshot"] = snapshot if row["snapshot"] is None else row["snapshot"]
    return row
