"""Several writes as one snapshot, seen by its own reads before anybody else sees them.

A transaction pins the newest snapshot when it begins. Its writes are kept as data and become one commit. Inserts alone
never conflict; deletes do, if somebody else changed the table in between.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from anabranch.algebra.relation import Column
from anabranch.errors import NotFoundError, QueryError, StateError
from anabranch.spark.types import columns_of
from anabranch.store.arrow import conform
from anabranch.store.materialize import Rows, discard, frame_of, materialize
from anabranch.store.pending import PendingTable, Place
from anabranch.store.protocol import (
    MAIN,
    ROWID,
    WEIGHT,
    Action,
    AddColumn,
    Commit,
    CreateTable,
    Document,
    DropColumn,
    DropTable,
    RenameColumn,
    Requirement,
    StagedFiles,
    Store,
    TableInfo,
    TableName,
    Version,
    Write,
)
from anabranch.store.read import only_rows, without_rows
from anabranch.store.scan import NONE, Positions
from anabranch.store.types import check_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class TransactionStore(Store, Protocol):
    """A lake that transactions can work with."""

    @property
    def spark(self) -> SparkSession:
        """The session that reads run in."""

    @property
    def staging(self) -> Path:
        """Where staged files are kept."""


class Transaction:
    """Writes that become one snapshot. Used by one thread; ends with `commit` or `rollback`."""

    def __init__(self, store: TransactionStore) -> None:
        self._store = store
        self._place = Place(store.spark, store.staging)
        self.pinned: Version = store.head()
        self._tables = dict(store.tables(self.pinned))
        self._pending: dict[str, PendingTable] = {}
        self._schema_actions: list[Action] = []
        self._kept: list[Rows] = []
        self._ended = False

    def tables(self) -> dict[str, TableInfo]:
        """Tables by id, as this transaction sees them."""
        return dict(self._tables)

    def table(self, key: str | TableName) -> TableInfo:
        """The table with this id or name; names without a schema are in the main one."""
        if isinstance(key, str) and key in self._tables:
            return self._tables[key]
        name = key if isinstance(key, TableName) else _name(key)
        for info in self._tables.values():
            if (info.schema.lower(), info.name.lower()) == (name.schema.lower(), name.name.lower()):
                return info
        known = sorted(info.name for info in self._tables.values() if info.schema == MAIN)
        raise NotFoundError(
            "TABLE_NOT_FOUND", f"there is no table {name.schema}.{name.name}", detail=f"Tables: {', '.join(known)}."
        )

    def has_table(self, name: str) -> bool:
        """Whether there is a table of that name; names without a schema are in the main one."""
        return self._exists(_name(name))

    def read(self, key: str | TableName, rowid: bool = False) -> DataFrame:
        """The table's rows, this transaction's own writes included."""
        info = self.table(key)
        pending = self._pending.get(info.id)
        if pending is None:
            return self._store.read(info.id, self.pinned, rowid)
        if pending.created:
            return pending.frame(None, rowid)
        committed = self._store.read(info.id, self.pinned, rowid or len(pending.deleted) > 0)
        if len(pending.deleted):
            committed = without_rows(self._place.spark, committed, ROWID, pending.deleted)
        return pending.frame(committed, rowid)

    @property
    def written(self) -> frozenset[str]:
        """Ids of the tables that were there before and whose rows this transaction changes."""
        return frozenset(
            key for key, each in self._pending.items() if not each.created and (len(each.deleted) or each.inserts)
        )

    @property
    def altered(self) -> frozenset[str]:
        """Ids of the tables whose columns it changes."""
        kinds = AddColumn | DropColumn | RenameColumn
        return frozenset(each.table for each in self._schema_actions if isinstance(each, kinds))

    def change(self, key: str) -> DataFrame:
        """What this transaction does to a table's rows: a Z-set with WEIGHT, not consolidated."""
        pending = self._pending[key]
        change = pending.frame(None, False).selectExpr("*", f"1L AS {WEIGHT}")
        if not len(pending.deleted):
            return change
        gone = only_rows(self._place.spark, self._store.read(key, self.pinned, True), ROWID, pending.deleted)
        return change.unionAll(gone.drop(ROWID).selectExpr("*", f"-1L AS {WEIGHT}"))

    def change_size(self, key: str) -> int:
        """How many rows `change` has."""
        pending = self._pending[key]
        inserted = sum(each.rows if isinstance(each, StagedFiles) else each.num_rows for each in pending.inserts)
        return len(pending.deleted) + int(inserted)

    def keep(self, frame: DataFrame) -> DataFrame:
        """The frame's rows, computed once: every use of the result sees the same ones."""
        columns = columns_of(frame.schema)
        rows = materialize(frame, columns, self._place.staging)
        self._kept.append(rows)
        return frame_of(self._place.spark, rows, columns)

    def write(
        self,
        key: str | TableName,
        deletes: DataFrame | pa.Array | pa.ChunkedArray | None = None,
        inserts: DataFrame | pa.Table | StagedFiles | None = None,
    ) -> None:
        """Rows out, by the ids that `read` gave, and rows in."""
        self._check_open()
        pending = self._writable(key)
        rows = self._rows(inserts, pending.info.columns)
        rowids = _rowids(deletes)
        if len(rowids):
            pending.delete(rowids)
        if rows is not None:
            pending.insert(rows)

    def create_table(self, name: str | TableName, columns: tuple[Column, ...]) -> TableInfo:
        """Make a table."""
        self._check_open()
        place = name if isinstance(name, TableName) else _name(name)
        check_columns(columns)
        if self._exists(place):
            raise StateError("TABLE_EXISTS", f"table {place.schema}.{place.name} exists already")
        info = TableInfo(f"new-{uuid.uuid4()}", place.schema, place.name, columns, (0,) * len(columns))
        self._tables[info.id] = info
        self._pending[info.id] = PendingTable(self._place, info, (None,) * len(columns), created=True)
        return info

    def drop_table(self, key: str | TableName) -> None:
        """Remove a table and its rows."""
        self._check_open()
        info = self.table(key)
        pending = self._pending.pop(info.id, None)
        if pending is not None:
            self._kept += [*pending.inserts, *pending.replaced]
        if pending is None or not pending.created:
            self._schema_actions = [each for each in self._schema_actions if getattr(each, "table", None) != info.id]
            self._schema_actions.append(DropTable(info.id))
        del self._tables[info.id]

    def add_column(self, key: str | TableName, column: Column) -> None:
        """Add a column at the end; it is NULL in the rows that are there."""
        info = self.table(key)
        check_columns((*info.columns, column))
        names = tuple(each.name for each in info.columns)
        self._alter(info, (*info.columns, column), (*names, None), AddColumn(info.id, column))

    def drop_column(self, key: str | TableName, name: str) -> None:
        """Remove a column."""
        info = self.table(key)
        dropped = _column(info, name)
        columns = tuple(each for each in info.columns if each is not dropped)
        if not columns:
            raise StateError("LAST_COLUMN", f"{name!r} is the only column of {info.name}")
        self._alter(info, columns, tuple(each.name for each in columns), DropColumn(info.id, dropped.name))

    def rename_column(self, key: str | TableName, name: str, new_name: str) -> None:
        """Give a column another name."""
        info = self.table(key)
        renamed = _column(info, name)
        columns = tuple(Column(new_name, each.type) if each is renamed else each for each in info.columns)
        check_columns(columns)
        shown = tuple(each.name for each in info.columns)
        self._alter(info, columns, shown, RenameColumn(info.id, renamed.name, new_name))

    def commit(
        self,
        requirements: tuple[Requirement, ...] = (),
        documents: Mapping[str, Document] | None = None,
        history: tuple[Mapping[str, Any], ...] = (),
        message: str = "",
        actions: tuple[Action, ...] = (),
    ) -> Version:
        """Make it all one snapshot, together with what else the caller wants in it."""
        self._check_open()
        own = (*self._schema_actions, *self._creations(), *self._writes())
        version = self._store.commit(Commit((*own, *actions), requirements, dict(documents or {}), history, message))
        self._end()
        return version

    def rollback(self) -> None:
        """Forget it all. Doing it after the end is fine."""
        if not self._ended:
            for pending in self._pending.values():
                self._kept += pending.inserts
            self._end()

    def _creations(self) -> list[Action]:
        return [
            CreateTable(TableName(each.info.schema, each.info.name), each.info.columns)
            for each in self._pending.values()
            if each.created
        ]

    def _writes(self) -> list[Action]:
        writes: list[Action] = []
        for key, each in self._pending.items():
            if not len(each.deleted) and not each.inserts:
                continue
            table = TableName(each.info.schema, each.info.name) if each.created else key
            deletes = pa.array(each.deleted, pa.int64()) if len(each.deleted) else None
            writes.append(Write(table, deletes, each.inserts, None if each.created else self.pinned))
        return writes

    def _alter(
        self, info: TableInfo, columns: tuple[Column, ...], shown: tuple[str | None, ...], action: Action
    ) -> None:
        self._check_open()
        pending = self._writable(info.id)
        pending.alter(columns, shown)
        self._tables[info.id] = pending.info
        if not pending.created:
            self._schema_actions.append(action)

    def _writable(self, key: str | TableName) -> PendingTable:
        info = self.table(key)
        if info.id not in self._pending:
            names = tuple(column.name for column in info.columns)
            self._pending[info.id] = PendingTable(self._place, info, names, created=False)
        return self._pending[info.id]

    def _rows(self, inserts: DataFrame | pa.Table | StagedFiles | None, columns: tuple[Column, ...]) -> Rows | None:
        if inserts is None or isinstance(inserts, StagedFiles):
            return inserts
        if isinstance(inserts, pa.Table):
            return conform(inserts, columns)
        return materialize(inserts, columns, self._place.staging)

    def _exists(self, name: TableName) -> bool:
        wanted = (name.schema.lower(), name.name.lower())
        return any((info.schema.lower(), info.name.lower()) == wanted for info in self._tables.values())

    def _check_open(self) -> None:
        if self._ended:
            raise StateError("TRANSACTION_ENDED", "the transaction has ended", hint="Begin another one.")

    def _end(self) -> None:
        self._ended = True
        for rows in self._kept:
            discard(rows)
        for pending in self._pending.values():
            for rows in pending.replaced:
                discard(rows)


def _name(text: str) -> TableName:
    schema, separator, name = text.partition(".")
    return TableName(schema, name) if separator else TableName(MAIN, text)


def _rowids(deletes: DataFrame | pa.Array | pa.ChunkedArray | None) -> Positions:
    if deletes is None:
        return NONE
    given = deletes if isinstance(deletes, pa.Array | pa.ChunkedArray) else _collected(deletes)
    if given.null_count:
        raise StateError("ROW_NOT_THERE", "a row to be deleted has no id")
    return np.asarray(given.cast(pa.int64()), dtype=np.int64)


def _collected(deletes: DataFrame) -> pa.ChunkedArray:
    return deletes.select(ROWID).toArrow().column(ROWID)


def _column(info: TableInfo, name: str) -> Column:
    for column in info.columns:
        if column.name.lower() == name.lower():
            return column
    raise QueryError(
        "COLUMN_NOT_FOUND",
        f"table {info.name} has no column {name!r}",
        detail=f"Columns: {', '.join(each.name for each in info.columns)}.",
    )
