"""Merges small files, rewrites files with many deletes, and flushes inlined rows, table by table.

Compaction may take long, so it does not keep writers out: it has a handle of its own that lets DuckLake commit it on
top of what others committed meanwhile. Where they deleted from the very files, DuckLake refuses, and the table is left
for the next time.
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections.abc import Callable

import duckdb

from anabranch.errors import StorageError
from anabranch.store.catalog import Catalog, Table
from anabranch.store.commit import is_contention
from anabranch.store.connection import LAKE, Connection, text
from anabranch.store.crashpoints import reach
from anabranch.store.protocol import Version

log = logging.getLogger(__name__)

DELETED_PART = 0.3
_RETRIES = 10
_ATTEMPTS = 5


def compact_tables(catalog: Catalog) -> None:
    """Compact every table of the newest snapshot that has something to compact; a table that fails stops no other."""
    tables = catalog.tables(Version(catalog.head())).values()
    failed: dict[str, str] = {}
    stuck: set[str] = set()
    with contextlib.closing(_Handle(catalog)) as handle:
        for step, statement in _STEPS.items():
            reach(f"compact.before_{step}")
            for table in tables:
                call = None if table.info.id in failed.keys() | stuck else statement(catalog, table)
                problem = None if call is None else handle.call(call)
                if problem is not None and step == "flush":
                    # DuckLake cannot move rows in the catalog that are older than a column; it reads them all the same.
                    log.warning("%s is not compacted, its rows in the catalog stay there: %s", table.info.name, problem)
                    stuck.add(table.info.id)
                elif problem is not None:
                    failed[table.info.id] = problem
    present = catalog.tables(Version(catalog.head()))
    left = {present[key].info.name: problem for key, problem in failed.items() if key in present}
    if left:
        detail = "; ".join(f"{name}: {problem}" for name, problem in left.items())
        raise StorageError("COMPACTION_FAILED", f"not compacted: {', '.join(left)}", detail=detail)


class _Handle:
    """A handle on the lake of its own. After an error it is replaced: DuckDB gives up a handle that failed inside."""

    def __init__(self, catalog: Catalog) -> None:
        self._location = catalog.connection.location
        self._connection: Connection | None = None

    def call(self, statement: str) -> str | None:
        """Try a few times, what others keep changing can wait; what went wrong, if twice it was something else."""
        problem: str | None = None
        for attempt in range(_ATTEMPTS):
            try:
                self._cursor().execute(statement).to_arrow_table()
                return None
            except duckdb.Error as error:
                self.close()
                if not is_contention(error):
                    if problem is not None:
                        return problem
                    problem = str(error).partition("Stack Trace")[0].strip()
            time.sleep(random.uniform(0, 0.05 * (attempt + 1)))
        return problem

    def close(self) -> None:
        """Let go of it; the next call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            self._connection = Connection(self._location, create=False, retries=_RETRIES)
        return self._connection.writer()


def _flush(catalog: Catalog, table: Table) -> str | None:
    state = catalog.file_state(table, catalog.head())
    if not (state.inlined_rows or state.inlined_deletes):
        return None
    named = f"schema_name => {text(table.info.schema)}, table_name => {text(table.info.name)}"
    return f"CALL ducklake_flush_inlined_data({text(LAKE)}, {named})"


def _merge(catalog: Catalog, table: Table) -> str | None:
    if _count(catalog, "ducklake_data_file", table) < 2:
        return None
    return f"CALL ducklake_merge_adjacent_files({_positional(table)})"


def _rewrite(catalog: Catalog, table: Table) -> str | None:
    if not _count(catalog, "ducklake_delete_file", table):
        return None
    return f"CALL ducklake_rewrite_data_files({_positional(table)}, delete_threshold => {DELETED_PART})"


_STEPS: dict[str, Callable[[Catalog, Table], str | None]] = {"flush": _flush, "merge": _merge, "rewrite": _rewrite}
"""For each step the statement that does it, where a table needs it."""


def _count(catalog: Catalog, kind: str, table: Table) -> int:
    condition = f"table_id = {table.number} AND end_snapshot IS NULL"
    return int(catalog.connection.catalog(f"SELECT count(*) AS files FROM {kind} WHERE {condition}")[0][0])


def _positional(table: Table) -> str:
    return f"{text(LAKE)}, {text(table.info.name)}, schema => {text(table.info.schema)}"
