"""Performs the actions of a commit inside an open transaction of DuckLake."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.algebra.relation import Column
from anabranch.errors import ConflictError, NotFoundError, QueryError, StateError
from anabranch.store.arrow import conform
from anabranch.store.catalog import Table
from anabranch.store.connection import LAKE, identifier, text
from anabranch.store.moves import Move, plan_moves
from anabranch.store.protocol import (
    Action,
    AddColumn,
    CreateTable,
    CreateView,
    DropColumn,
    DropTable,
    DropView,
    RenameColumn,
    StagedFiles,
    TableKey,
    TableName,
    Write,
)
from anabranch.store.types import check_column, check_columns, duckdb_type
from anabranch.store.zeros import mixes_zeros, write_exactly

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+")
_ROWS = "__ab_rows"


@dataclass(slots=True)
class _Target:
    """A table as the transaction sees it after the actions so far."""

    name: TableName
    columns: tuple[Column, ...]
    folder: Path
    own_rowid: bool

    @property
    def sql(self) -> str:
        return f"{LAKE}.{identifier(self.name.schema)}.{identifier(self.name.name)}"


class Applier:
    """Actions in order, on the tables of the snapshot that the transaction began with.

    `written` are files that nobody knows if the transaction fails.
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection, tables: dict[str, Table], data: Path) -> None:
        self._cursor = cursor
        self._data = data
        self.written: list[Path] = []
        self._by_id = {key: _target(table) for key, table in tables.items()}
        self._by_name = {_folded(target.name): target for target in self._by_id.values()}

    def apply(self, action: Action) -> None:
        """Perform one action."""
        match action:
            case CreateTable():
                self._create_table(action)
            case DropTable():
                target = self._find(action.table)
                self._cursor.execute(f"DROP TABLE {target.sql}")
                del self._by_id[action.table], self._by_name[_folded(target.name)]
            case AddColumn():
                self._add_column(action)
            case DropColumn():
                self._drop_column(action)
            case RenameColumn():
                self._rename_column(action)
            case CreateView():
                self._create_view(action)
            case DropView():
                self._cursor.execute(f"DROP VIEW {_place(action.name)}")
            case Write():
                self._write(action)

    def moves(self, actions: tuple[Action, ...]) -> list[Move]:
        """Where the staged files of the actions belong."""
        created = {_folded(each.name): each.name for each in actions if isinstance(each, CreateTable)}
        moves = []
        for action in actions:
            if isinstance(action, Write):
                for rows in action.inserts:
                    if isinstance(rows, StagedFiles):
                        moves += plan_moves(rows.paths, self._folder(action.table, created))
        return moves

    def _folder(self, key: TableKey, created: dict[tuple[str, str], TableName]) -> Path:
        if isinstance(key, TableName) and _folded(key) in created:
            return new_table_folder(self._data, created[_folded(key)])
        return self._find(key).folder

    def _create_table(self, action: CreateTable) -> None:
        check_columns(action.columns)
        if _folded(action.name) in self._by_name:
            raise StateError("TABLE_EXISTS", f"table {action.name.schema}.{action.name.name} exists already")
        columns = ", ".join(f"{identifier(each.name)} {duckdb_type(each.type)}" for each in action.columns)
        self._cursor.execute(f"CREATE TABLE {_place(action.name)} ({columns})")
        folder = new_table_folder(self._data, action.name)
        self._by_name[_folded(action.name)] = _Target(action.name, action.columns, folder, False)

    def _add_column(self, action: AddColumn) -> None:
        target = self._find(action.table)
        check_column(action.column)
        check_columns((*target.columns, action.column))
        kind = duckdb_type(action.column.type)
        self._cursor.execute(f"ALTER TABLE {target.sql} ADD COLUMN {identifier(action.column.name)} {kind}")
        target.columns = (*target.columns, action.column)

    def _drop_column(self, action: DropColumn) -> None:
        target = self._find(action.table)
        column = _column(target, action.name)
        if len(target.columns) == 1:
            raise StateError("LAST_COLUMN", f"{action.name!r} is the only column of {target.name.name}")
        self._cursor.execute(f"ALTER TABLE {target.sql} DROP COLUMN {identifier(column.name)}")
        target.columns = tuple(each for each in target.columns if each is not column)

    def _rename_column(self, action: RenameColumn) -> None:
        target = self._find(action.table)
        column = _column(target, action.name)
        renamed = Column(action.new_name, column.type)
        columns = tuple(renamed if each is column else each for each in target.columns)
        check_column(renamed)
        check_columns(columns)
        names = f"{identifier(column.name)} TO {identifier(action.new_name)}"
        self._cursor.execute(f"ALTER TABLE {target.sql} RENAME COLUMN {names}")
        target.columns = columns

    def _create_view(self, action: CreateView) -> None:
        columns = ", ".join(identifier(name) for name in action.columns)
        table = f"{identifier(action.table.schema)}.{identifier(action.table.name)}"
        condition = f" WHERE {identifier(action.visible)}" if action.visible else ""
        # Without the lake's name, so that it works for clients that attach it under another one.
        self._cursor.execute(
            f"CREATE OR REPLACE VIEW {_place(action.name)} AS SELECT {columns} FROM {table}{condition}"
        )

    def _write(self, action: Write) -> None:
        target = self._find(action.table)
        if action.deletes is not None and len(action.deletes):
            self._delete(target, action.deletes)
        for rows in action.inserts:
            if isinstance(rows, StagedFiles):
                self._register(target, rows)
            elif rows.num_rows:
                self._insert(target, rows)

    def _delete(self, target: _Target, rowids: pa.Array) -> None:
        if target.own_rowid:
            raise StateError(
                "ROWID_SHADOWED",
                f"rows of {target.name.name} cannot be deleted: it has a column named rowid",
                hint="Rename the column.",
            )
        if len(pc.unique(rowids)) != len(rowids) or rowids.null_count:
            raise ConflictError("ROW_NOT_THERE", f"a row of {target.name.name} is to be deleted twice")
        self._cursor.register(_ROWS, pa.table({"r": rowids.cast(pa.int64())}))
        try:
            sql = f"DELETE FROM {target.sql} WHERE rowid IN (SELECT r FROM {_ROWS})"
            (deleted,) = self._cursor.execute(sql).fetchall()[0]
        finally:
            self._cursor.unregister(_ROWS)
        if deleted != len(rowids):
            raise ConflictError(
                "ROW_NOT_THERE",
                f"rows to be deleted from {target.name.name} are not there",
                detail=f"Expected {len(rowids)}, found {deleted}.",
            )

    def _insert(self, target: _Target, rows: pa.Table) -> None:
        conformed = conform(rows, target.columns)
        if mixes_zeros(conformed):
            self._insert_file(target, conformed)
            return
        columns = ", ".join(identifier(each.name) for each in target.columns)
        self._cursor.register(_ROWS, conformed)
        try:
            sql = f"INSERT INTO {target.sql} ({columns}) SELECT {columns} FROM {_ROWS}"
            (inserted,) = self._cursor.execute(sql).fetchall()[0]
        finally:
            self._cursor.unregister(_ROWS)
        if inserted != rows.num_rows:
            raise ConflictError("ROWS_LOST", f"{rows.num_rows} rows were to be inserted, {inserted} were")

    def _insert_file(self, target: _Target, rows: pa.Table) -> None:
        """Rows that DuckDB would not write as they are."""
        path = target.folder / f"exact-{uuid.uuid4().hex}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        self.written.append(path)
        write_exactly(rows, path)
        self._add_files(target, [path])

    def _register(self, target: _Target, files: StagedFiles) -> None:
        if files.paths:
            self._add_files(target, [move.stored for move in plan_moves(files.paths, target.folder)])

    def _add_files(self, target: _Target, paths: list[Path]) -> None:
        listed = ", ".join(text(str(path)) for path in paths)
        self._cursor.execute(
            f"CALL ducklake_add_data_files({text(LAKE)}, {text(target.name.name)}, [{listed}],"
            f" schema => {text(target.name.schema)})"
        )

    def _find(self, key: TableKey) -> _Target:
        found = self._by_name.get(_folded(key)) if isinstance(key, TableName) else self._by_id.get(key)
        if found is None:
            known = sorted(f"{each.name.schema}.{each.name.name}" for each in self._by_id.values())
            name = f"{key.schema}.{key.name}" if isinstance(key, TableName) else f"with id {key}"
            raise NotFoundError("TABLE_NOT_FOUND", f"there is no table {name}", detail=f"Tables: {', '.join(known)}.")
        return found


def new_table_folder(data: Path, name: TableName) -> Path:
    """Where DuckLake puts the files of a table it creates, so that paths in the catalog stay relative."""
    return data / name.schema / name.name if _PLAIN_NAME.fullmatch(name.name) else data / name.schema / "staged"


def _target(table: Table) -> _Target:
    name = TableName(table.info.schema, table.info.name)
    own_rowid = any(each.name.lower() == "rowid" for each in table.info.columns)
    return _Target(name, table.info.columns, table.path, own_rowid)


def _column(target: _Target, name: str) -> Column:
    for column in target.columns:
        if column.name.lower() == name.lower():
            return column
    raise QueryError(
        "COLUMN_NOT_FOUND",
        f"table {target.name.name} has no column {name!r}",
        detail=f"Columns: {', '.join(each.name for each in target.columns)}.",
    )


def _place(name: TableName) -> str:
    return f"{LAKE}.{identifier(name.schema)}.{identifier(name.name)}"


def _folded(name: TableName) -> tuple[str, str]:
    return name.schema.lower(), name.name.lower()
