"""A lake on DuckLake: the answer to every question of `protocol.py`, each given by the module that knows."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import LongType

from anabranch.algebra.relation import Column
from anabranch.errors import NotFoundError
from anabranch.spark.identity import consolidate
from anabranch.spark.quote import quoted
from anabranch.spark.session import shares_disk
from anabranch.store.arrow import to_frame
from anabranch.store.catalog import Catalog, Table, snapshot_missing
from anabranch.store.changes import Plan, Planner
from anabranch.store.commit import Committer
from anabranch.store.documents import DocumentReader
from anabranch.store.few import are_few, few_changes, few_of_both, few_rows, is_medium
from anabranch.store.first_rows import count_rows, first_rows
from anabranch.store.key_index import KeyIndexes
from anabranch.store.key_index_build import lay_out_missed
from anabranch.store.layout import check_readable, layout_of, schema_of
from anabranch.store.local import both_locally
from anabranch.store.maintain import Maintainer
from anabranch.store.open import COMMIT_TIMEOUT_SECONDS, Opened, open_lake
from anabranch.store.pick import by_size, can_pick, matching, miss, pick
from anabranch.store.protocol import (
    ROWID,
    WEIGHT,
    Asked,
    Commit,
    SnapshotInfo,
    StagedFiles,
    TableAt,
    TableInfo,
    TableName,
    Version,
    ViewInfo,
)
from anabranch.store.raw import RawRows, raw_rows
from anabranch.store.read import configure, perform
from anabranch.store.scan import FileScan
from anabranch.store.stage import stage
from anabranch.store.system import read_history, read_last_history
from anabranch.store.versions import Versions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)


def open_store(path: str, spark: SparkSession, catalog: str | None = None, create: bool = True) -> DuckLakeStore:
    """Open the lake in a folder, or create it. `catalog` is `postgres:<connection string>`, or None for SQLite."""
    return DuckLakeStore(open_lake(path, catalog, create), lambda: spark)


class DuckLakeStore:
    """One lake, open. May be used from several threads. `session` gives the one to read rows in, once it is needed."""

    def __init__(self, opened: Opened, session: Callable[[], SparkSession]) -> None:
        self._session = session
        self._opened = opened
        self._catalog = Catalog(opened.connection, KeyIndexes(opened.index))
        self._planner = Planner(self._catalog)
        self._documents = DocumentReader(self._catalog, self._planner)
        self._versions = Versions(self._catalog, self._planner, self._documents)
        self._committer = Committer(
            self._catalog, self._documents, self._versions, opened.exclusive, COMMIT_TIMEOUT_SECONDS
        )
        self._maintainer = Maintainer(self._catalog, self._versions, self._committer, opened)

    def wait_for_commits(self, seconds: float) -> None:
        """How long a commit waits for its turn, and is tried again while other writers get in between."""
        self._committer.timeout = seconds

    def limit_indexes(self, most_bytes: int) -> None:
        """How much room key indexes may take; at 0 there are none."""
        self._catalog.indexes.limit(most_bytes)

    @cached_property
    def spark(self) -> SparkSession:
        """The session that reads run in."""
        session = self._session()
        configure(session)
        return session

    @property
    def staging(self) -> Path:
        """Where staged files are kept."""
        return self._opened.staging

    @property
    def is_local(self) -> bool:
        """Whether the catalog is a file, which one machine uses."""
        return self._opened.connection.location.is_sqlite

    def run_in_catalog(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement of ours in the catalog's own database, as a transaction of its own; no lake commit."""
        return self._opened.connection.run_in_catalog(statement)

    def head(self) -> Version:
        """The newest snapshot."""
        return Version(self._catalog.head())

    def snapshots(self) -> list[SnapshotInfo]:
        """All kept snapshots, oldest first."""
        self._catalog.head()
        return [entry.info() for entry in self._catalog.log.entries().values()]

    def tables(self, at: Version) -> dict[str, TableInfo]:
        """Tables by id at a snapshot, every schema, ours included."""
        return {key: table.info for key, table in self._catalog.tables(at).items()}

    def views(self, at: Version) -> list[ViewInfo]:
        """Views at a snapshot."""
        return self._catalog.views(at)

    def version_of(self, table: str, at: Version) -> Version:
        """The last snapshot up to `at` that changed the table's rows or schema. Compaction is not a change."""
        kept = self._kept(table, at)
        return self._versions.of(self._table(table, kept), kept)

    def row_count(self, table: str, at: Version) -> int:
        """Rows of the table, from metadata."""
        kept = self._kept(table, at)
        return self._planner.row_count(self._table(table, kept), kept.number)

    def change_size(self, table: str, since: Version, upto: Version) -> int:
        """An upper bound on the rows of the change, from metadata."""
        start, end = self._kept(table, since), self._kept(table, upto)
        return self._planner.change_size(self._table(table, end), start.number, end.number)

    def can_read(self, table: str, at: Version) -> bool:
        """Whether that snapshot of the table is still kept, or another with the same rows."""
        kept = self._find_kept(table, at)
        return kept is not None and self._catalog.table(table, kept) is not None

    def read(self, table: str, at: Version, rowid: bool = False) -> DataFrame:
        """The table's rows; with `rowid`, the column ROWID as well, which deletes name."""
        kept = self._kept(table, at)
        found = self._table(table, kept)
        check_readable(found)
        return self._frame(found, self._planner.rows(found, kept.number), rowid=rowid)

    def few_rows(self, table: str, at: Version, rowid: bool = False) -> pa.Table | None:
        """The same, read here without Spark; None where that would be more than a few rows."""
        kept = self._kept(table, at)
        found = self._table(table, kept)
        rows = few_rows(self._catalog, found, self._planner.rows(found, kept.number))
        return rows if rows is None or rowid else rows.drop_columns([ROWID])

    def few_changes(
        self, table: str, since: Version, upto: Version, columns: Collection[str] | None = None
    ) -> pa.Table | None:
        """`changes`, read here without Spark; None where that would take reading more than a few rows."""
        start, end = self._kept(table, since), self._kept(table, upto)
        found = self._table(table, end)
        plan = self._planner.change(found, start.number, end.number)
        return few_changes(self._catalog, found.with_columns(columns), plan)

    def can_read_both(self, table: str, since: Version, upto: Version) -> bool:
        """Whether the rows of both versions can be read by one scan."""
        return bool(self._scans_of_both(table, since, upto))

    def read_both(self, table: str, since: Version, upto: Version) -> DataFrame:
        """The rows of both versions by one scan, with WAS_THERE and IS_THERE."""
        found = self._table(table, self._kept(table, upto))
        return self._frame(found, Plan(self._scans_of_both(table, since, upto), []))

    def rows_per_key(self, table: str, at: Version, column: str) -> float | None:
        """About how many rows have the same value in a column; None if nobody can tell."""
        kept = self._kept(table, at)
        found = self._table(table, kept)
        spread = self._catalog.spread(found, column)
        return None if not spread else max(1.0, self._planner.row_count(found, kept.number) / spread)

    def is_medium(self, table: str, since: Version, upto: Version, columns: int) -> bool:
        """Whether so many columns of both versions are read here, not by Spark."""
        return is_medium(self._scans_of_both(table, since, upto), columns)

    def few_of_both(self, table: str, since: Version, upto: Version, columns: Collection[str]) -> pa.Table | None:
        """Both versions, these columns, ROWID, WAS_THERE and IS_THERE, read here; None where that is much to read."""
        scans = self._scans_of_both(table, since, upto)
        found = self._table(table, self._kept(table, upto))
        return few_of_both(self._catalog, found, scans, columns)

    def can_pick(self, table: str, since: Version, upto: Version, columns: Collection[str], key: str) -> bool:
        """Whether `pick` finds rows of both versions by a key: the table has large files, and all have an index."""
        large, small = by_size(self._scans_of_both(table, since, upto))
        narrow = self._table(table, self._kept(table, upto)).with_columns(columns)
        return bool(large) and are_few(small, len(columns)) and can_pick(self._catalog, narrow, large, [key])

    def pick(
        self,
        table: str,
        since: Version,
        upto: Version,
        columns: Collection[str],
        wanted: Collection[str],
        asked: Asked,
        limit: int,
    ) -> pa.Table | None:
        """Rows of both versions, at least those asked for: of `columns` those wanted, ROWID and both flags.

        None where an index of these columns is missing, which `lay_out_missed` then makes, where they are more than
        `limit`, or where the small files, which are read as a whole, come to much.
        """
        found = self._table(table, self._kept(table, upto)).with_columns(columns)
        large, small = by_size(self._scans_of_both(table, since, upto))
        if not large or not are_few(small, len(columns)):
            return None
        if not all(can_pick(self._catalog, found, large, keys) for keys in asked):
            for keys in asked:
                miss(self._catalog, found, large, keys)
            return None
        rows = pick(self._catalog, found, large, wanted, asked, limit)
        if rows is None:
            return None
        return pa.concat_tables([rows, matching(self._decoded(found, small), asked).select(rows.column_names)])

    def _decoded(self, table: Table, scans: list[FileScan]) -> pa.Table:
        """The rows of a table's small files, decoded once for all that is picked until the next commit."""
        names = [each.name for each in table.fields]
        key = ("decoded", table.fields, tuple(scans))
        return self._planner.once(key, lambda: both_locally(self._catalog, table, scans, names))

    def lay_out_missed(self) -> float:
        """Make the indexes that were missed since the last time, as far as there is room; seconds that took.

        Whatever goes wrong costs time and nothing else: what was to be found faster is in the lake already.
        """
        started = time.perf_counter()
        missed = self._catalog.indexes.take_missed()
        try:
            if not missed or not shares_disk(self.spark):
                return 0.0
            lay_out_missed(self.spark, self._catalog, missed)
        except Exception as error:
            log.warning("no key indexes are made of %d files for now: %s", len(missed), error)
            self._catalog.indexes.put_off(missed)
            return 0.0
        return time.perf_counter() - started

    def read_raw(self, table: str, since: Version, upto: Version) -> RawRows | None:
        """The files of both versions as they are, each row with its address; None where that cannot be done."""
        scans = self._scans_of_both(table, since, upto)
        found = self._table(table, self._kept(table, upto))
        if not scans:
            return None
        return raw_rows(self.spark, found, scans, lambda each: layout_of(self._catalog, found, each.file, each.hidden))

    def _scans_of_both(self, table: str, since: Version, upto: Version) -> list[FileScan]:
        """One scan of each file for two versions; none where that cannot be done."""
        start, end = self._kept(table, since), self._kept(table, upto)
        found = self._table(table, end)
        check_readable(found)
        if self._table(table, start).fields != found.fields:
            return []
        return self._planner.both(found, start.number, end.number) or []

    def changes(self, table: str, since: Version, upto: Version, columns: Collection[str] | None = None) -> DataFrame:
        """read(upto) - read(since) as a consolidated Z-set: the columns at `upto`, all or these, and WEIGHT."""
        start, end = self._kept(table, since), self._kept(table, upto)
        found = self._table(table, end)
        check_readable(found)
        plan = self._planner.change(found, start.number, end.number)
        return consolidate(self._frame(found.with_columns(columns), plan, weight=True), WEIGHT)

    def stage(self, rows: DataFrame, columns: tuple[Column, ...]) -> StagedFiles:
        """Let executors write the rows as Parquet files that a commit can register."""
        return stage(rows, columns, self._opened.staging)

    def documents(self, prefix: str = "", at: Version | None = None) -> dict[str, str]:
        """Documents whose key starts with `prefix`, at a snapshot; the newest if none is given."""
        found = self._documents.at(at or self.head())
        return {key: value for key, value in found.items() if key.startswith(prefix)}

    def history(self, limit: int | None = None, node: str | None = None, since: Version | None = None) -> pa.Table:
        """History rows, newest first: of all nodes or of one, by id; all, or those of snapshots after `since`."""
        return read_history(self._opened.connection, limit, node, since.number if since else None)

    def last_history(self) -> pa.Table:
        """The newest history row of each node."""
        return read_last_history(self._opened.connection)

    def first_rows(self, name: TableName, at: Version, limit: int) -> pa.Table:
        """A few rows of a table or view, whichever come first, read by DuckDB: no Spark job."""
        return first_rows(self._opened.connection, name, at, limit)

    def count_rows(self, name: TableName, at: Version) -> int:
        """The rows that a table or view shows, counted by DuckDB: for views that hide some."""
        return count_rows(self._opened.connection, name, at)

    def first_change_at(self, table: str, since: Version, upto: Version) -> str | None:
        """When the first commit after `since` that the log says changed the table was made; None if none did."""
        found = self._table(table, self._kept(table, upto))
        entry = self._catalog.log.first_change(found.number, since.number, upto.number)
        return None if entry is None else entry.committed_at

    def commit(self, commit: Commit) -> Version:
        """Check the requirements and apply everything as one snapshot, or raise and change nothing."""
        return self._committer.commit(commit)

    def compact(self) -> None:
        """Merge small files and rewrite those with many deletes."""
        self._maintainer.compact()

    def file_counts(self) -> dict[str, int]:
        """How many files each table has now, by id."""
        return self._maintainer.file_counts()

    def expire(self, older_than: float, keep: frozenset[Version | TableAt] = frozenset()) -> int:
        """Drop snapshots older than so many seconds, except those needed to read `keep`; returns how many."""
        return self._maintainer.expire(older_than, keep)

    def close(self) -> None:
        """Let go of the catalog."""
        self._catalog.indexes.close()
        self._opened.connection.close()

    def _table(self, key: str, at: Version) -> Table:
        tables = self._catalog.tables(at)
        if key not in tables:
            known = sorted(f"{each.info.schema}.{each.info.name}" for each in tables.values())
            raise NotFoundError(
                "TABLE_NOT_FOUND",
                f"there is no table with id {key} in snapshot {at}",
                detail=f"Tables: {', '.join(known)}.",
            )
        return tables[key]

    def _kept(self, key: str, at: Version) -> Version:
        found = self._find_kept(key, at)
        if found is None:
            raise snapshot_missing(at)
        return found

    def _find_kept(self, key: str, at: Version) -> Version | None:
        """The snapshot itself, or, if it has expired, the next one if the table did not change in between."""
        if self._catalog.log.get(at.number) is not None:
            return at
        later = min((number for number in self._catalog.log.entries() if number > at.number), default=None)
        if later is None or (table := self._catalog.table(key, Version(later))) is None:
            return None
        return Version(later) if self._versions.of(table, Version(later)) <= at else None

    def _frame(self, table: Table, plan: Plan, rowid: bool = False, weight: bool = False) -> DataFrame:
        layout = partial(layout_of, self._catalog, table)
        frames = perform(self.spark, table, plan.scans, layout, rowid, weight)
        schema = schema_of(table)
        if rowid:
            schema = schema.add(ROWID, LongType())
        for sign, rows in plan.inlined:
            frame = to_frame(self.spark, rows.select(schema.names), schema)
            frames.append(frame.selectExpr("*", f"{sign}L AS {quoted(WEIGHT)}") if weight else frame)
        if not frames:
            empty = schema.add(WEIGHT, LongType()) if weight else schema
            return self.spark.createDataFrame([], empty)
        return reduce(lambda left, right: left.unionAll(right), frames)
