"""What the engine asks of a lake. The engine above knows only this page; `ducklake.py` is one answer to it.

A lake has numbered snapshots that cover all its tables, exact changes between any two of them, and one atomic commit
over many tables. A commit is data: actions, plus requirements that are checked inside the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from anabranch.algebra.relation import ROWID as ROWID
from anabranch.algebra.relation import WEIGHT as WEIGHT
from anabranch.algebra.relation import Column
from anabranch.spark.staged import StagedFiles as StagedFiles

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

MAIN = "main"
STATE = "anabranch_state"


@dataclass(frozen=True, order=True, slots=True)
class Version:
    """A snapshot number."""

    number: int

    def __str__(self) -> str:
        return str(self.number)


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table at one snapshot. `id` stays the same through renames and is new after drop and create."""

    id: str
    schema: str
    name: str
    columns: tuple[Column, ...]
    field_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ViewInfo:
    """A view at one snapshot: a stream table's visible face, or one made by a user."""

    schema: str
    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """One commit of the lake."""

    version: Version
    committed_at: str
    author: str | None
    message: str | None


# ---- a commit, as data


@dataclass(frozen=True, slots=True)
class TableName:
    """A table by schema and name, for tables that the same commit creates."""

    schema: str
    name: str


TableKey = str | TableName
"""A table: its id, or its name where the commit itself creates it."""


@dataclass(frozen=True, slots=True)
class CreateTable:
    name: TableName
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class DropTable:
    table: str


@dataclass(frozen=True, slots=True)
class AddColumn:
    table: str
    column: Column


@dataclass(frozen=True, slots=True)
class DropColumn:
    table: str
    name: str


@dataclass(frozen=True, slots=True)
class RenameColumn:
    table: str
    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class CreateView:
    """A view over the columns of one table, `visible` naming a BOOLEAN column that hides rows where it is false."""

    name: TableName
    table: TableName
    columns: tuple[str, ...]
    visible: str | None = None


@dataclass(frozen=True, slots=True)
class DropView:
    name: TableName


@dataclass(frozen=True)
class Write:
    """Rows out and in. Every rowid must be there, once; `inserts` carries the table's columns by name.

    `since` is the snapshot the rowids were read at: the table must not have changed after it, nor been compacted,
    which may give rows new ids.
    """

    table: TableKey
    deletes: pa.Array | None = None
    inserts: tuple[pa.Table | StagedFiles, ...] = ()
    since: Version | None = None


Action = CreateTable | DropTable | AddColumn | DropColumn | RenameColumn | CreateView | DropView | Write


@dataclass(frozen=True, slots=True)
class TableUnchanged:
    """No snapshot after `since`, compaction aside, touched the table's rows or schema."""

    table: str
    since: Version


@dataclass(frozen=True, slots=True)
class DocumentIs:
    """The document holds exactly this text (None: it does not exist)."""

    key: str
    value: str | None


Requirement = TableUnchanged | DocumentIs

Document = str | Callable[[Version], str] | None
"""A document's text; a function of the snapshot that the commit makes, where it tells that number; None removes it."""


@dataclass(frozen=True)
class Commit:
    """All or nothing: actions in order, documents put (None removes), history rows appended.

    `compacts`: every table has the same rows afterwards, so that the commit is a change to nobody.
    """

    actions: tuple[Action, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    documents: Mapping[str, Document] = field(default_factory=dict)
    history: tuple[Mapping[str, Any], ...] = ()
    message: str = ""
    compacts: bool = False


@dataclass(frozen=True, slots=True)
class TableAt:
    """One table as it was at a snapshot; any kept snapshot in which it is the same will do."""

    table: str
    version: Version


Asked = Sequence[Mapping[str, "tuple[pa.Array, bool]"]]
"""Rows asked for: those that in every column of one of these have a value that is given, or NULL if that is given and
may meet NULL."""


class Raw(Protocol):
    """All rows of some files, with FILE, POSITION and STORED_ROWID, those that are not there any more included."""

    @property
    def frames(self) -> list[Callable[[], DataFrame]]:
        """How to read them; files that are unlike are read apart."""
        ...

    def told(self, rows: pa.Table) -> pa.Table:
        """Those of the picked rows that are there, with WAS_THERE, IS_THERE and, if STORED_ROWID is there, ROWID."""
        ...


class Store(Protocol):
    """A versioned lake. Reads are lazy DataFrames; metadata calls start no Spark job and cost milliseconds."""

    def head(self) -> Version:
        """The newest snapshot."""

    def snapshots(self) -> list[SnapshotInfo]:
        """All kept snapshots, oldest first."""

    def tables(self, at: Version) -> dict[str, TableInfo]:
        """Tables by id at a snapshot, every schema, ours included."""

    def views(self, at: Version) -> list[ViewInfo]:
        """Views at a snapshot."""

    def version_of(self, table: str, at: Version) -> Version:
        """The last snapshot up to `at` that changed the table's rows or schema. Compaction is not a change."""

    def row_count(self, table: str, at: Version) -> int:
        """Rows of the table, from metadata."""

    def change_size(self, table: str, since: Version, upto: Version) -> int:
        """An upper bound on the rows of the change, from metadata."""

    def can_read(self, table: str, at: Version) -> bool:
        """Whether that snapshot of the table is still kept."""

    def read(self, table: str, at: Version, rowid: bool = False) -> DataFrame:
        """The table's rows; with `rowid`, the column ROWID as well, which deletes name."""

    def few_rows(self, table: str, at: Version, rowid: bool = False) -> pa.Table | None:
        """The same, read here without Spark; None where that would be more than a few rows."""
        ...

    def few_changes(
        self, table: str, since: Version, upto: Version, columns: Collection[str] | None = None
    ) -> pa.Table | None:
        """`changes`, read here without Spark; None where that would take reading more than a few rows."""
        ...

    def can_read_both(self, table: str, since: Version, upto: Version) -> bool:
        """Whether the rows of both versions can be read by one scan."""
        ...

    def read_both(self, table: str, since: Version, upto: Version) -> DataFrame:
        """The rows of both versions by one scan, with WAS_THERE and IS_THERE."""

    def rows_per_key(self, table: str, at: Version, column: str) -> float | None:
        """About how many rows have the same value in a column; None if nobody can tell."""
        ...

    def is_medium(self, table: str, since: Version, upto: Version, columns: int) -> bool:
        """Whether so many columns of both versions are read here, not by Spark."""
        ...

    def few_of_both(self, table: str, since: Version, upto: Version, columns: Collection[str]) -> pa.Table | None:
        """Both versions, these columns, ROWID, WAS_THERE and IS_THERE, read here; None where that is much to read."""
        ...

    def can_pick(self, table: str, since: Version, upto: Version, columns: Collection[str], key: str) -> bool:
        """Whether few rows of both versions are found by a key without reading the others."""
        ...

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

        None where they cannot be found without reading the others, or where they are more than `limit`.
        """
        ...

    def lay_out_missed(self) -> float:
        """Make what would have spared reading large files since the last time; seconds that took. Never fails."""
        ...

    def read_raw(self, table: str, since: Version, upto: Version) -> Raw | None:
        """The files of both versions as they are, each row with its address; None where that cannot be done."""

    def changes(self, table: str, since: Version, upto: Version, columns: Collection[str] | None = None) -> DataFrame:
        """read(upto) - read(since) as a consolidated Z-set: the columns at `upto`, all or these, and WEIGHT."""

    def stage(self, rows: DataFrame, columns: tuple[Column, ...]) -> StagedFiles:
        """Let executors write the rows as Parquet files that a commit can register."""

    def documents(self, prefix: str = "", at: Version | None = None) -> dict[str, str]:
        """Documents whose key starts with `prefix`, at a snapshot; the newest if none is given."""

    def history(self, limit: int | None = None) -> pa.Table:
        """History rows, newest first."""

    def commit(self, commit: Commit) -> Version:
        """Check the requirements and apply everything as one snapshot, or raise and change nothing."""

    def compact(self) -> None:
        """Merge small files and rewrite those with many deletes."""

    def expire(self, older_than: float, keep: frozenset[Version | TableAt] = frozenset()) -> int:
        """Drop snapshots older than so many seconds, except those needed to read `keep`; returns how many."""

    def close(self) -> None:
        """Let go of the catalog."""
