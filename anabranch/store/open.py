"""Finds or creates a lake: its folder, its catalog, its tables of our own, and the lock of its writers.

<path>/catalog.sqlite    the catalog, unless it is in PostgreSQL
<path>/data/             Parquet files
<path>/staging/          files on their way into the lake
<path>/index/            key indexes of large files, made anew where they are missing
<path>/lock              held around BEGIN .. COMMIT
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb

from anabranch.errors import SettingError, StorageError
from anabranch.store.connection import LAKE, Connection, Location, extension_path, rollback, text
from anabranch.store.lock import advisory_lock, file_lock
from anabranch.store.moves import GRACE_SECONDS, clean_staging
from anabranch.store.protocol import STATE
from anabranch.store.system import SCHEMA, create_system_tables, switch_inlining_off, switch_own_inlining_on

COMMIT_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class Opened:
    """An attached lake, and how its writers take turns: `exclusive(seconds)` waits so long at most."""

    connection: Connection
    exclusive: Callable[[float], AbstractContextManager[None]]
    folder: Path

    @property
    def staging(self) -> Path:
        return self.folder / "staging"

    @property
    def index(self) -> Path:
        return self.folder / "index"


def open_lake(path: str, catalog: str | None, create: bool) -> Opened:
    """Attach the lake; make what is missing, if allowed."""
    folder = Path(path).absolute()
    _check_path(folder)
    location = _locate(folder, catalog, create)
    if not create and location.is_sqlite and not Path(location.catalog.removeprefix("sqlite:")).is_file():
        raise _not_found(folder)
    if create or not location.is_sqlite:
        (folder / "staging").mkdir(parents=True, exist_ok=True)
    with file_lock(folder / "lock", COMMIT_TIMEOUT_SECONDS):
        connection = Connection(location, create)
        try:
            exclusive = _exclusive(connection, folder)
            with exclusive(COMMIT_TIMEOUT_SECONDS) if not location.is_sqlite else contextlib.nullcontext():
                _adopt(connection)
        except BaseException:
            connection.close()
            raise
    (folder / "staging").mkdir(parents=True, exist_ok=True)
    clean_staging(folder / "staging", GRACE_SECONDS)
    return Opened(connection, exclusive, folder)


def _check_path(folder: Path) -> None:
    if found := [character for character in "*?[" if character in str(folder)]:
        raise SettingError(
            "PATH_NOT_USABLE",
            f"the folder {folder} cannot hold a lake",
            detail=f"DuckDB takes {' '.join(found)} in a path for a pattern.",
            hint="Use another name.",
        )


def _locate(folder: Path, catalog: str | None, create: bool) -> Location:
    data = folder / "data"
    if catalog is None:
        return Location(f"sqlite:{folder / 'catalog.sqlite'}", data)
    kind, separator, rest = catalog.partition(":")
    if not separator or kind not in ("sqlite", "postgres"):
        raise SettingError(
            "CATALOG_NOT_KNOWN",
            f"{catalog!r} does not name a catalog",
            hint="Use postgres:<connection string>, sqlite:<file>, or none for a file in the lake's folder.",
        )
    if kind == "sqlite":
        rest = str(Path(rest).absolute())
    # A lake made by others keeps its data where its catalog says, unless there is a data folder here.
    return Location(f"{kind}:{rest}", data if data.is_dir() or _is_new(kind, rest, create) else None)


def _is_new(kind: str, place: str, create: bool) -> bool:
    if not create:
        return False
    if kind == "sqlite":
        return not Path(place).is_file()
    return not _postgres_has_lake(place)


def _postgres_has_lake(place: str) -> bool:
    with duckdb.connect() as probe:
        try:
            probe.execute(f"LOAD {text(str(extension_path('postgres_scanner')))}")
            probe.execute(f"ATTACH {text(place)} AS probe (TYPE postgres, READ_ONLY)")
            query = "SELECT 1 FROM pg_tables WHERE tablename = 'ducklake_metadata' AND schemaname = current_schema()"
            return bool(probe.execute(f"SELECT * FROM postgres_query('probe', {text(query)})").fetchall())
        except duckdb.Error as error:
            raise StorageError(
                "CATALOG_UNREACHABLE", "the PostgreSQL catalog cannot be reached", detail=str(error)
            ) from error


def _exclusive(connection: Connection, folder: Path) -> Callable[[float], AbstractContextManager[None]]:
    if connection.location.is_sqlite:
        return partial(file_lock, folder / "lock")
    return partial(advisory_lock, connection)


def _adopt(connection: Connection) -> None:
    """Give the lake our tables, if it has none; rows that others left in its catalog go into files."""
    found = connection.catalog(f"SELECT 1 FROM ducklake_schema WHERE schema_name = '{SCHEMA}' AND end_snapshot IS NULL")
    if found:
        return
    cursor = connection.writer()
    try:
        switch_inlining_off(cursor)
        cursor.execute(f"CALL ducklake_flush_inlined_data({text(LAKE)})")
        cursor.execute("BEGIN")
        create_system_tables(cursor, (STATE,))
        cursor.execute("COMMIT")
        switch_own_inlining_on(cursor)
    except duckdb.Error as error:
        rollback(cursor)
        raise StorageError("LAKE_NOT_OPENED", "the lake cannot be set up", detail=str(error)) from error


def _not_found(folder: Path) -> StorageError:
    beside = sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
    detail = f"The folder holds: {', '.join(beside) or 'nothing'}." if folder.is_dir() else "There is no such folder."
    return StorageError(
        "LAKE_NOT_FOUND", f"there is no lake at {folder}", detail=detail, hint="Check the path, or let it be created."
    )
