"""A lake, an outside client, and a model of both in plain Python: steps, and what must hold after each.

The model knows for every snapshot which rows the table has. Only in one point it follows the lake: files that DuckDB
itself writes may give all zeros the sign of the first one, and a merge does so in old snapshots as well.
"""

from __future__ import annotations

import contextlib
import random
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from anabranch.algebra.relation import Column
from anabranch.errors import StorageError
from anabranch.store.catalog import Catalog, Table
from anabranch.store.changes import Planner
from anabranch.store.commit import Committer
from anabranch.store.documents import DocumentReader
from anabranch.store.key_index import KeyIndexes
from anabranch.store.maintain import Maintainer
from anabranch.store.mend import note_columns, widen_ranges
from anabranch.store.open import Opened, open_lake
from anabranch.store.protocol import (
    MAIN,
    Action,
    AddColumn,
    Commit,
    CreateTable,
    DropColumn,
    RenameColumn,
    StagedFiles,
    TableAt,
    TableName,
    Version,
    Write,
)
from anabranch.store.versions import Versions
from anabranch.store.zeros import write_exactly

from .evaluate import evaluate, read_here, weighed
from .model import TYPES, VALUES, ModelColumn, ModelState, literal
from .tools import canonical, outsider

KNOWN_FAULTS = (
    # An insert that would be inlined, after an ALTER by a client that had inlining switched off.
    "columns but",
    # A handle that still looks for inlined rows that another one has flushed.
    "Failed to read inlined data",
    # A handle that remembers the columns of another snapshot.
    "not found in FROM clause",
    # Inlined doubles are text in an SQLite catalog, and a rewrite takes them for numbers.
    "isnan(VARCHAR)",
)
COMPACTIONS = ("merge", "rewrite", "flush")
WRITTEN_BY_DUCKDB = ("insert_theirs", "update_theirs", "several_theirs", *COMPACTIONS)


class TheirFaultError(Exception):
    """The outside client's statement failed because of a known fault of DuckLake; nothing was changed."""


class LakeMachine:
    """One table, two writers, every snapshot remembered."""

    def __init__(self, folder: Path, seed: int, catalog: str | None = None) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.given_catalog = catalog
        self.opened: Opened = open_lake(str(folder), catalog, True)
        self.catalog = Catalog(self.opened.connection, KeyIndexes(self.opened.index))
        self.planner = Planner(self.catalog)
        self.documents = DocumentReader(self.catalog, self.planner)
        self.versions = Versions(self.catalog, self.planner, self.documents)
        self.committer = Committer(self.catalog, self.documents, self.versions, self.opened.exclusive, 30.0)
        self.maintainer = Maintainer(self.catalog, self.versions, self.committer, self.opened, grace_seconds=0.0)
        self.theirs = outsider(folder, catalog=catalog)
        self.next_key = 2
        self.state = ModelState((ModelColumn(0, "a", "bigint"), ModelColumn(1, "b", "string")), ())
        made = self.committer.commit(Commit((CreateTable(TableName(MAIN, "t"), self.state.lake_columns),)))
        self.table_id = next(key for key, each in self.catalog.tables(made).items() if each.info.name == "t")
        self.created = made.number
        self.model: dict[int, ModelState] = {made.number: self.state}
        self.log: list[str] = []
        self.transaction: Callable[[], None] = self.insert_ours

    def close(self) -> None:
        self.theirs.close()
        self.opened.connection.close()

    # Steps. Each leaves `self.state` as the table must be at the new head.

    def insert_ours(self) -> None:
        rows = self.state.new_rows(self.random, self.random.randint(1, 6))
        self._commit(Write(self.table_id, inserts=(self.state.arrow(rows),)))
        self.state = self.state.with_rows(rows)

    def insert_file(self) -> None:
        """A staged file, as executors write it: no field ids, no statistics of a column that may hold NaN."""
        rows = self.state.new_rows(self.random, self.random.randint(1, 6))
        place = self.opened.staging / uuid.uuid4().hex / f"staged-{uuid.uuid4().hex}.parquet"
        place.parent.mkdir(parents=True)
        write_exactly(self.state.arrow(rows), place)
        self._commit(Write(self.table_id, inserts=(StagedFiles((str(place),), len(rows)),)))
        self.state = self.state.with_rows(rows)

    def insert_theirs(self) -> None:
        rows = self.state.new_rows(self.random, self.random.randint(1, 6))
        self._execute(self.state.insert_sql(rows))
        self.state = self.state.with_rows(rows)

    def delete_ours(self) -> None:
        """Some rows by id, as a statement of ours would find them."""
        head = self.catalog.head()
        present = self.evaluated(head)
        chosen = [each for each in present if self.random.random() < 0.4]
        if not chosen:
            return
        ids = pa.array([number for _, number, _ in chosen], pa.int64())
        self._commit(Write(self.table_id, deletes=ids, since=Version(head)))
        self.state = self.state.without(Counter(values for _, _, values in chosen))

    def delete_theirs(self) -> None:
        condition, matches = self.state.condition(self.random)
        self._execute(f"DELETE FROM t WHERE {condition}")
        self.state = replace(self.state, rows=tuple(row for row in self.state.rows if not matches(row)))

    def update_theirs(self) -> None:
        condition, matches = self.state.condition(self.random)
        column = self.random.choice(self.state.columns)
        value = self.random.choice(VALUES[column.type])
        self._execute(f'UPDATE t SET "{column.name}" = {literal(value)} WHERE {condition}')
        self.state = self.state.updated(matches, column.key, value)

    def several_theirs(self) -> None:
        """Delete, insert and update in one transaction."""
        self._execute("BEGIN")
        for step in self.random.sample([self.insert_theirs, self.delete_theirs, self.update_theirs], 2):
            step()
        self._execute("COMMIT")

    def add_column(self) -> None:
        kind = self.random.choice(list(TYPES))
        column = ModelColumn(self.next_key, self._free_name(), kind)
        self.next_key += 1
        if self.random.random() < 0.5:
            self._commit(AddColumn(self.table_id, Column(column.name, kind)))
        else:
            column = replace(column, default=self.random.choice([1, None]) if kind == "bigint" else None)
            suffix = f" DEFAULT {column.default}" if column.default is not None else ""
            self._execute(f'ALTER TABLE t ADD COLUMN "{column.name}" {TYPES[kind]}{suffix}')
        filled = tuple((*row, (column.key, column.default)) for row in self.state.rows)
        self.state = ModelState((*self.state.columns, column), filled)

    def drop_column(self) -> None:
        if len(self.state.columns) < 3:
            return
        column = self.random.choice(self.state.columns)
        if self.random.random() < 0.5:
            self._commit(DropColumn(self.table_id, column.name))
        else:
            self._execute(f'ALTER TABLE t DROP COLUMN "{column.name}"')
        self.state = replace(self.state, columns=tuple(each for each in self.state.columns if each is not column))

    def rename_column(self) -> None:
        column = self.random.choice(self.state.columns)
        name = self._free_name()
        if self.random.random() < 0.5:
            self._commit(RenameColumn(self.table_id, column.name, name))
        else:
            self._execute(f'ALTER TABLE t RENAME COLUMN "{column.name}" TO "{name}"')
        self.state = replace(
            self.state,
            columns=tuple(replace(each, name=name) if each is column else each for each in self.state.columns),
        )

    def merge(self) -> None:
        self._maintain("CALL ducklake_merge_adjacent_files('{lake}')")

    def rewrite(self) -> None:
        threshold = self.random.choice([0.0, 0.3])
        self._maintain(f"CALL ducklake_rewrite_data_files('{{lake}}', delete_threshold => {threshold})")
        widen_ranges(self.opened.connection.writer(), self._table(self.catalog.head()))

    def flush(self) -> None:
        note_columns(self.opened.connection, self._table(self.catalog.head()))
        self._maintain("CALL ducklake_flush_inlined_data('{lake}')")

    def compact(self) -> None:
        self.maintainer.compact()

    def toggle_inlining(self) -> None:
        limit = self.random.choice([0, 3, 10])
        self._execute(f"CALL theirs.set_option('data_inlining_row_limit', {limit})")

    def expire(self) -> None:
        kept = sorted(number for number in self.catalog.log.entries() if number >= self.created)
        if len(kept) < 6:
            return
        if self.random.random() < 0.5:
            spared = frozenset({Version(number) for number in self.random.sample(kept, 3)})
            named = TableAt(self.table_id, Version(self._version(self.random.choice(kept))))
            expected = self.model.get(named.version.number)
            self.maintainer.expire(0.0, spared | {named})
            self._check_still_there(named, expected, spared)
        else:
            doomed = self.random.sample(kept[:-1], len(kept) // 3)
            self._execute(f"CALL ducklake_expire_snapshots('theirs', versions => {doomed})")

    def clean(self) -> None:
        if self.random.random() < 0.5:
            self.maintainer.clean()
        else:
            self._execute("CALL ducklake_cleanup_old_files('theirs', cleanup_all => true)")

    # Checks.

    def step(self, name: str) -> None:
        """One step, recorded, and what it made checked."""
        before = self.catalog.head()
        version = self._version(before)
        self.log.append(name)
        unchanged = self.state
        try:
            getattr(self, name)()
        except TheirFaultError:
            self.state = unchanged
            self.log[-1] += " (refused by DuckLake)"
        head = self.catalog.head()
        for number in range(before + 1, head + 1):
            self.model[number] = self.state
        kept = set(self.catalog.log.entries())
        self.model = {number: state for number, state in self.model.items() if number in kept}
        if name in WRITTEN_BY_DUCKDB:
            self._take_signs([number for number in self.model if number > before or name in COMPACTIONS])
        same = self.state is unchanged or self.state.shown(self.state.columns) == unchanged.shown(unchanged.columns)
        if same and name in (*COMPACTIONS, "compact"):
            assert self._version(head) == version, (name, version, self._version(head))

    def _take_signs(self, numbers: list[int]) -> None:
        """Zeros as the lake shows them in these snapshots; that the outside client sees the same is checked after."""
        for number in numbers:
            found = (values for _, _, values in self.evaluated(number))
            self.model[number] = self.model[number].with_signs(found)
        self.state = self.model[max(self.model)]

    def check(self, pairs: int, snapshots: int | None = None) -> None:
        """Every kept snapshot, or the newest and some others, and some pairs of them."""
        numbers = sorted(self.model)
        versions = {number: self._version(number) for number in numbers}
        some = numbers if snapshots is None else [numbers[-1], *self.random.choices(numbers, k=snapshots - 1)]
        for number in some:
            self.check_rows(number)
        for _ in range(pairs):
            since, upto = self.random.choice(numbers), self.random.choice(numbers)
            self.check_change(since, upto)
            if versions[since] == versions[upto]:
                assert self.model[since].columns == self.model[upto].columns
                assert self.model[since].shown(self.model[upto].columns) == self.model[upto].shown(
                    self.model[upto].columns
                )

    def check_rows(self, number: int) -> None:
        state = self.model[number]
        found = self.evaluated(number)
        assert weighed(found) == dict(state.shown(state.columns)), f"snapshot {number}"
        ids = [row for _, row, _ in found]
        assert len(set(ids)) == len(ids), f"row ids of snapshot {number}"
        assert self.planner.row_count(self._table(number), number) == len(state.rows)
        if not self._has_fault(number):
            expected = {row: values for _, row, values in found}
            assert self._their_rows(number) == expected, f"row ids of snapshot {number}"

    def check_change(self, since: int, upto: int) -> None:
        table = self._table(upto)
        found = weighed(evaluate(self.catalog, table, self.planner.change(table, since, upto)))
        columns = self.model[upto].columns
        after, before = self.model[upto].shown(columns), self.model[since].shown(columns)
        expected = {key: after[key] - before[key] for key in after.keys() | before.keys() if after[key] != before[key]}
        assert found == expected, f"change from {since} to {upto}"
        assert read_here(self.catalog, table, self.planner.change(table, since, upto)) in (None, expected)
        assert self.planner.change_size(table, since, upto) >= sum(abs(weight) for weight in expected.values())

    def _check_still_there(self, named: TableAt, expected: ModelState | None, spared: frozenset[Version]) -> None:
        self.catalog.head()
        kept = self.catalog.log.entries()
        assert all(each.number in kept for each in spared)
        if expected is not None:
            same = [number for number in kept if number in self.model and self._version(number) == named.version.number]
            assert same, "a table's version that was to be kept is gone"

    # Helpers.

    def _has_fault(self, number: int) -> bool:
        """DuckLake returns rows twice where a flush of old inlined deletes gave a file two delete files."""
        state = self.catalog.file_state(self._table(number), number)
        return any(len(each) > 1 for each in state.delete_files.values())

    def _their_rows(self, number: int) -> dict[int, tuple[Any, ...]]:
        names = ", ".join(f'"{each.name}"' for each in self.model[number].columns)
        sql = f"SELECT rowid, {names} FROM t AT (VERSION => {number})"
        with contextlib.suppress(TheirFaultError):
            self._execute(sql)
            return {row[0]: canonical(tuple(row[1:])) for row in self.theirs.fetchall()}
        self._execute(sql)
        return {row[0]: canonical(tuple(row[1:])) for row in self.theirs.fetchall()}

    def evaluated(self, number: int) -> list[tuple[int, int, tuple[Any, ...]]]:
        table = self._table(number)
        return evaluate(self.catalog, table, self.planner.rows(table, number))

    def _table(self, number: int) -> Table:
        found = self.catalog.table(self.table_id, Version(number))
        assert found is not None
        return found

    def _version(self, number: int) -> int:
        return self.versions.of(self._table(number), Version(number)).number

    def _commit(self, action: Action) -> None:
        self._ours(lambda: self.committer.commit(Commit((action,))))

    def _ours(self, work: Callable[[], object]) -> None:
        try:
            work()
        except StorageError as error:
            if any(known in error.detail for known in KNOWN_FAULTS):
                raise TheirFaultError from error
            raise

    def _execute(self, sql: str) -> None:
        try:
            self.theirs.execute(sql)
        except duckdb.Error as error:
            with contextlib.suppress(duckdb.Error):
                self.theirs.execute("ROLLBACK")
            if any(known in str(error) for known in KNOWN_FAULTS):
                self.theirs.close()
                self.theirs = outsider(self.folder, catalog=self.given_catalog)
                raise TheirFaultError from error
            raise

    def _maintain(self, sql: str) -> None:
        if self.random.random() < 0.5:
            self._ours(lambda: self.committer.call(sql.format(lake="lake")))
        else:
            self._execute(sql.format(lake="theirs"))

    def _free_name(self) -> str:
        """One of few, so that names come back; another one where all of them are taken."""
        taken = {each.name for each in self.state.columns}
        free = [name for name in ("a", "b", "c", "d e", "A1") if name not in taken]
        return self.random.choice(free or [next(name for name in map("more {}".format, count()) if name not in taken)])
