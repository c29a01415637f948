"""Merges small files, rewrites files with many deletes, and flushes inlined rows, table by table.

Compaction may take long, so it does not keep writers out: it has a handle of its own that lets DuckLake commit it on
top of what others committed meanwhile. Where they deleted from the very files, DuckLake refuses, and the table is left
for the next time. A table with negative zeros is compacted by ourselves, because DuckDB would not keep them.
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
import uuid
from collections.abc import Callable, Iterator

import duckdb

from anabranch.errors import AnabranchError, StorageError
from anabranch.store.catalog import Catalog, Table
from anabranch.store.commit import AUTHOR, Committer, is_contention
from anabranch.store.compact_exactly import compact_exactly
from anabranch.store.connection import LAKE, METADATA, Connection, identifier, text
from anabranch.store.crashpoints import reach
from anabranch.store.mend import note_columns, widen_ranges
from anabranch.store.protocol import Version
from anabranch.store.snapshots import COMPACTION
from anabranch.store.zeros import NEGATIVE_ZERO_TEXT, negative_zero_sql

log = logging.getLogger(__name__)

DELETED_PART = 0.3
_RETRIES = 10
_ATTEMPTS = 5


class _NegativeZeroError(Exception):
    """DuckDB would write the table's rows with other signs."""


def compact_tables(catalog: Catalog, committer: Committer) -> None:
    """Compact every table of the newest snapshot that has something to compact; a table that fails stops no other."""
    tables = catalog.tables(Version(catalog.head())).values()
    failed: dict[str, str] = {}
    stuck: set[str] = set()
    ours: dict[str, str] = {}
    with contextlib.closing(_Handle(catalog, committer)) as handle:
        for step, statement in _STEPS.items():
            reach(f"compact.before_{step}")
            for table in tables:
                done_with = failed.keys() | stuck | ours.keys()
                call = None if table.info.id in done_with else statement(catalog, table)
                try:
                    problem = None if call is None else handle.call(table, call)
                except _NegativeZeroError:
                    ours[table.info.id] = table.info.name
                    continue
                if problem is not None and step == "flush":
                    # DuckLake cannot move rows in the catalog that are older than a column; it reads them all the same.
                    log.warning("%s is not compacted, its rows in the catalog stay there: %s", table.info.name, problem)
                    stuck.add(table.info.id)
                elif problem is not None:
                    failed[table.info.id] = problem
        for table in tables:
            handle.mend(table)
    reach("compact.before_exact")
    for key, name in ours.items():
        try:
            compact_exactly(catalog, committer, key, DELETED_PART)
        except AnabranchError as error:
            log.warning("%s is left for the next compaction: %s", name, error)
    present = catalog.tables(Version(catalog.head()))
    left = {present[key].info.name: problem for key, problem in failed.items() if key in present}
    if left:
        detail = "; ".join(f"{name}: {problem}" for name, problem in left.items())
        raise StorageError("COMPACTION_FAILED", f"not compacted: {', '.join(left)}", detail=detail)


class _Handle:
    """A handle on the lake of its own. After an error it is replaced: DuckDB gives up a handle that failed inside."""

    def __init__(self, catalog: Catalog, committer: Committer) -> None:
        self._committer = committer
        self._location = catalog.connection.location
        self._connection: Connection | None = None

    def call(self, table: Table, statement: str) -> str | None:
        """Try a few times, what others keep changing can wait; what went wrong, if twice it was something else."""
        problem: str | None = None
        for attempt in range(_ATTEMPTS):
            try:
                with self._committer.quiet_for_compaction():
                    self._perform(table, statement)
                return None
            except _NegativeZeroError:
                self.close()
                raise
            except duckdb.Error as error:
                self.close()
                if not is_contention(error):
                    if problem is not None:
                        return problem
                    problem = str(error).partition("Stack Trace")[0].strip()
            time.sleep(random.uniform(0, 0.05 * (attempt + 1)))
        return problem

    def mend(self, table: Table) -> None:
        """Statistics that a rewrite has lost; if somebody else is at them, the next compaction does it."""
        try:
            widen_ranges(self._cursor(), table)
        except duckdb.Error as error:
            log.info("the statistics of %s are left for the next compaction: %s", table.info.name, error)
            self.close()

    def close(self) -> None:
        """Let go of it; the next call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _perform(self, table: Table, statement: str) -> None:
        """In one transaction with the look for negative zeros, so that it works on the very rows that were seen."""
        cursor = self._cursor()
        cursor.execute("BEGIN")
        if any(cursor.execute(sql).fetchall() for sql in self._looks(table)):
            raise _NegativeZeroError
        extra = f"extra_info => {text(COMPACTION + uuid.uuid4().hex)}"
        cursor.execute(f"CALL {LAKE}.set_commit_message({text(AUTHOR)}, {text(f'compact {table.info.name}')}, {extra})")
        cursor.execute(statement).to_arrow_table()
        cursor.execute("COMMIT")

    def _looks(self, table: Table) -> Iterator[str]:
        """Queries that find a negative zero: in the table, and among the rows in the catalog, deleted ones included."""
        condition = negative_zero_sql(table.fields)
        if condition is None:
            return
        place = f"{LAKE}.{identifier(table.info.schema)}.{identifier(table.info.name)}"
        yield f"SELECT 1 FROM {place} WHERE {condition} LIMIT 1"
        holders = f"SELECT table_name FROM {METADATA}.ducklake_inlined_data_tables WHERE table_id = {table.number}"
        for (name,) in self._cursor().execute(holders).fetchall():
            found = f"regexp_matches(CAST(held AS VARCHAR), {text(NEGATIVE_ZERO_TEXT)})"
            yield f"SELECT 1 FROM {METADATA}.{identifier(name)} AS held WHERE {found} LIMIT 1"

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            self._connection = Connection(self._location, create=False, retries=_RETRIES)
        return self._connection.writer()


def _flush(catalog: Catalog, table: Table) -> str | None:
    state = catalog.file_state(table, catalog.head())
    if not (state.inlined_rows or state.inlined_deletes):
        return None
    note_columns(catalog.connection, table)
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
