"""What DuckLake's own tables say about the lake at one snapshot: tables, columns, views, files, deletes.

A row of the catalog is valid at snapshot s when begin_snapshot <= s and (end_snapshot is NULL or end_snapshot > s).
"""

from __future__ import annotations

import hashlib
import threading
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.algebra.relation import Column
from anabranch.errors import StorageError
from anabranch.store.connection import Connection
from anabranch.store.protocol import TableInfo, Version, ViewInfo
from anabranch.store.snapshots import SnapshotLog
from anabranch.store.types import spark_type

if TYPE_CHECKING:
    from anabranch.store.key_index import KeyIndexes

_KEPT_SCHEMAS = 64


_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_IDENTITY = "f.data_file_id, f.path, f.record_count, f.file_size_bytes, f.footer_size, f.begin_snapshot"


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a part of one. `type` is Spark's, or DuckLake's own where Spark cannot read it."""

    id: int
    name: str
    type: str
    readable: bool
    initial_default: str | None
    begin: int
    children: tuple[Field, ...]

    @property
    def has_inner_default(self) -> bool:
        return any(child.initial_default is not None or child.has_inner_default for child in self.children)


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the catalog knows it: `number` is its id in files and log entries, `info.id` outlives renames."""

    number: int
    created: int
    path: Path
    fields: tuple[Field, ...]
    info: TableInfo

    def with_columns(self, names: Collection[str] | None) -> Table:
        """The same table as who reads only these columns needs it; None: all."""
        if names is None:
            return self
        return replace(self, fields=tuple(each for each in self.fields if each.name in names))


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of a table. `partial_max`: it holds rows of several snapshots, up to this one.

    `identity` tells it from every other file, also of a lake that was here before: ids and names may come again.
    """

    id: int
    identity: str
    path: str
    rows: int
    row_id_start: int | None
    begin: int
    mapping: int | None
    partial_max: int | None


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """Positions deleted from one data file."""

    data_file: int
    path: str
    format: str
    count: int


@dataclass(frozen=True, slots=True)
class FileState:
    """Everything the catalog says about a table's rows at one snapshot."""

    at: int
    files: dict[int, DataFile]
    delete_files: dict[int, tuple[DeleteFile, ...]]
    inlined_deletes: dict[int, tuple[int, ...]]
    inlined_rows: dict[str, int]


class Catalog:
    """Reads the catalog; tables are remembered per schema version, which never changes once it is there."""

    def __init__(self, connection: Connection, indexes: KeyIndexes) -> None:
        self.connection = connection
        self.indexes = indexes
        self.log = SnapshotLog(connection)
        self._lock = threading.Lock()
        self._tables: dict[int, dict[str, Table]] = {}
        self._mappings: dict[int, dict[int, Any]] = {}
        (stored,) = connection.catalog("SELECT value FROM ducklake_metadata WHERE key = 'data_path'")
        self.stored_data = str(stored[0])
        self.data = connection.location.data or Path(self.stored_data)

    def head(self) -> int:
        """The newest snapshot."""
        return self.log.refresh()

    def tables(self, at: Version) -> dict[str, Table]:
        """Tables by id."""
        version = self._schema_version(at)
        with self._lock:
            found = self._tables.get(version)
        if found is None:
            found = self._load_tables(at.number)
            with self._lock:
                self._tables[version] = found
                while len(self._tables) > _KEPT_SCHEMAS:
                    del self._tables[min(self._tables)]
        return found

    def table(self, key: str, at: Version) -> Table | None:
        """The table with this id."""
        return self.tables(at).get(key)

    def views(self, at: Version) -> list[ViewInfo]:
        """Views of every schema."""
        self._schema_version(at)
        rows = self.connection.catalog(
            f"SELECT s.schema_name, v.view_name, v.sql FROM ducklake_view v JOIN ducklake_schema s"
            f" ON s.schema_id = v.schema_id AND {_valid('s', at.number)} WHERE {_valid('v', at.number)} ORDER BY 1, 2"
        )
        return [ViewInfo(schema, name, sql) for schema, name, sql in rows]

    def file_state(self, table: Table, at: int) -> FileState:
        """Files, deletes and inlined rows. Call it inside `connection.consistent()` together with what must agree."""
        return FileState(
            at,
            self._data_files(table, at),
            self._delete_files(table, at),
            self._inlined_deletes(table, at),
            self._inlined_rows(table, at),
        )

    def name_mapping(self, mapping: int) -> dict[int, tuple[int | None, str, bool]]:
        """For files that were added as they are: field id to (parent's field id, name in the file, is partition)."""
        with self._lock:
            found = self._mappings.get(mapping)
        if found is None:
            rows = self.connection.catalog(
                "SELECT column_id, parent_column, target_field_id, source_name, CAST(is_partition AS INTEGER)"
                f" FROM ducklake_name_mapping WHERE mapping_id = {mapping}"
            )
            fields = {int(column): int(target) for column, _, target, _, _ in rows}
            found = {
                int(target): (None if parent is None else fields[int(parent)], name, bool(int(partition or 0)))
                for _, parent, target, name, partition in rows
            }
            with self._lock:
                self._mappings[mapping] = found
        return found

    def resolve(self, path: str, relative: bool, base: Path) -> str:
        """The path of a file now; absolute paths below a data folder that has moved move along."""
        if relative:
            return str(base / path)
        if path.startswith(self.stored_data) and str(self.data) != self.stored_data.rstrip("/"):
            return str(self.data / path[len(self.stored_data) :].lstrip("/"))
        return path

    def _schema_version(self, at: Version) -> int:
        entry = self.log.get(at.number)
        if entry is None:
            raise snapshot_missing(at)
        return entry.schema_version

    def _load_tables(self, at: int) -> dict[str, Table]:
        with self.connection.consistent():
            rows = self.connection.catalog(
                "SELECT t.table_id, t.table_uuid, s.schema_name, t.table_name, t.path,"
                " CAST(t.path_is_relative AS INTEGER) AS relative, s.path AS schema_path,"
                " CAST(s.path_is_relative AS INTEGER) AS schema_relative,"
                " (SELECT min(f.begin_snapshot) FROM ducklake_table f WHERE f.table_id = t.table_id) AS created"
                f" FROM ducklake_table t JOIN ducklake_schema s ON s.schema_id = t.schema_id AND {_valid('s', at)}"
                f" WHERE {_valid('t', at)} ORDER BY t.table_id"
            )
            columns = self.connection.catalog(
                "SELECT c.table_id, c.column_id, c.parent_column, c.column_name, c.column_type, c.initial_default,"
                f" c.begin_snapshot FROM ducklake_column c WHERE {_valid('c', at)}"
                " ORDER BY c.table_id, c.column_order, c.column_id"
            )
        by_table: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        for row in columns:
            by_table[int(row[0])].append(row)
        found = {}
        for number, key, schema, name, path, relative, schema_path, schema_relative, created in rows:
            base = Path(self.resolve(schema_path, bool(int(schema_relative)), self.data))
            place = Path(self.resolve(path, bool(int(relative)), base))
            fields = _fields(by_table[int(number)])
            info = TableInfo(
                str(key),
                schema,
                name,
                tuple(Column(field.name, field.type) for field in fields),
                tuple(field.id for field in fields),
            )
            found[info.id] = Table(int(number), int(created), place, fields, info)
        return found

    def _data_files(self, table: Table, at: int) -> dict[int, DataFile]:
        rows = self.connection.catalog(
            f"SELECT {_IDENTITY}, CAST(f.path_is_relative AS INTEGER), f.file_format,"
            " f.row_id_start, f.encryption_key, f.mapping_id, f.partial_max"
            f" FROM ducklake_data_file f WHERE f.table_id = {table.number} AND {_valid('f', at)}"
            " ORDER BY f.data_file_id"
        )
        files = {}
        for *known, relative, form, start, encryption, mapping, partial in rows:
            key, path, count, _, _, begin = known
            if form.lower() != "parquet" or encryption is not None:
                what = "an encrypted file" if encryption is not None else f"a file of format {form}"
                raise StorageError(
                    "FILE_NOT_READABLE",
                    f"table {table.info.schema}.{table.info.name} has {what}",
                    detail=f"The file is {path}.",
                    hint="Anabranch reads unencrypted Parquet files.",
                )
            place = self.resolve(path, bool(int(relative)), table.path)
            files[int(key)] = DataFile(
                int(key),
                _identity(table.info.id, known),
                place,
                int(count),
                _integer(start),
                int(begin),
                _integer(mapping),
                _integer(partial),
            )
        return files

    def file_identities(self) -> set[str]:
        """Of all data files that any snapshot has."""
        rows = self.connection.catalog(
            f"SELECT DISTINCT t.table_uuid, {_IDENTITY} FROM ducklake_data_file f"
            " JOIN ducklake_table t ON t.table_id = f.table_id"
        )
        return {_identity(table, known) for table, *known in rows}

    def _delete_files(self, table: Table, at: int) -> dict[int, tuple[DeleteFile, ...]]:
        """By data file. There may be several: a flush of old inlined deletes adds one beside the one that is there."""
        rows = self.connection.catalog(
            "SELECT d.data_file_id, d.path, CAST(d.path_is_relative AS INTEGER), d.format, d.delete_count"
            f" FROM ducklake_delete_file d WHERE d.table_id = {table.number} AND {_valid('d', at)}"
        )
        found: dict[int, tuple[DeleteFile, ...]] = {}
        for key, path, relative, form, count in rows:
            place = self.resolve(path, bool(int(relative)), table.path)
            found[int(key)] = (*found.get(int(key), ()), DeleteFile(int(key), place, form.lower(), int(count)))
        return found

    def _inlined_deletes(self, table: Table, at: int) -> dict[int, tuple[int, ...]]:
        name = f"ducklake_inlined_delete_{table.number}"
        if not self._exists(name):
            return {}
        found: dict[int, list[int]] = defaultdict(list)
        for key, position in self.connection.catalog(
            f"SELECT file_id, row_id FROM {name} WHERE begin_snapshot <= {at} ORDER BY file_id, row_id"
        ):
            found[int(key)].append(int(position))
        return {key: tuple(positions) for key, positions in found.items()}

    def _inlined_rows(self, table: Table, at: int) -> dict[str, int]:
        """How many rows each inlined table holds at the snapshot; the empty ones are left out."""
        names = [
            row[0]
            for row in self.connection.catalog(
                f"SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = {table.number}"
            )
        ]
        if not names:
            return {}
        rows = self.connection.catalog(
            " UNION ALL ".join(
                f"SELECT '{name}' AS holder, count(*) AS held FROM {name} i WHERE {_valid('i', at)}" for name in names
            )
        )
        return {name: int(count) for name, count in rows if int(count)}

    def spread(self, table: Table, column: str) -> int | None:
        """At most so many different values an integer column has, as far as its range tells; None if it does not."""
        field = next(each for each in table.fields if each.name == column)
        rows = self.connection.catalog(
            "SELECT min_value, max_value FROM ducklake_table_column_stats"
            f" WHERE table_id = {table.number} AND column_id = {field.id}"
        )
        if field.type not in _INTEGERS or not rows or None in rows[0]:
            return None
        least, most = map(int, rows[0])
        return most - least + 1

    def has_inlined_deletes(self, table: Table) -> bool:
        """Whether deletes of this table were ever kept in the catalog."""
        return self._exists(f"ducklake_inlined_delete_{table.number}")

    def _exists(self, name: str) -> bool:
        if self.connection.location.is_sqlite:
            return bool(self.connection.catalog(f"SELECT 1 FROM sqlite_master WHERE name = '{name}'"))
        return bool(
            self.connection.catalog(
                f"SELECT 1 FROM pg_tables WHERE tablename = '{name}' AND schemaname = current_schema()"
            )
        )


def snapshot_missing(at: Version) -> StorageError:
    return StorageError(
        "SNAPSHOT_NOT_KEPT",
        f"snapshot {at} is not in the lake",
        detail="It has expired, or it never was.",
        hint="List the kept snapshots with snapshots().",
    )


def _identity(table: Any, known: Sequence[Any]) -> str:
    """The file's id, and a digest of all that the catalog knows of it for good."""
    told = "\n".join(map(str, (table, *known)))
    return f"{known[0]}-{hashlib.blake2b(told.encode(), digest_size=12).hexdigest()}"


def _valid(alias: str, at: int) -> str:
    return f"({alias}.begin_snapshot <= {at} AND ({alias}.end_snapshot IS NULL OR {alias}.end_snapshot > {at}))"


def _integer(value: Any) -> int | None:
    return None if value is None else int(value)


def _fields(rows: list[tuple[Any, ...]]) -> tuple[Field, ...]:
    children: dict[int | None, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        children[_integer(row[2])].append(row)

    def build(row: tuple[Any, ...]) -> Field:
        _, key, _, name, kind, default, begin = row
        inner = tuple(build(child) for child in children[int(key)])
        known = _nested_type(kind, inner)
        readable = known is not None and all(child.readable for child in inner)
        return Field(int(key), name, known or kind, readable, default, int(begin), inner)

    return tuple(build(row) for row in children[None])


def _nested_type(kind: str, inner: tuple[Field, ...]) -> str | None:
    match kind:
        case "list":
            return f"array<{inner[0].type}>"
        case "map":
            return f"map<{inner[0].type},{inner[1].type}>"
        case "struct":
            return f"struct<{','.join(f'{child.name}:{child.type}' for child in inner)}>"
    return spark_type(kind)
