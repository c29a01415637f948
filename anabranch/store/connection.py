"""One DuckDB instance attached to one lake.

DuckDB is the commit service: it reads and writes the catalog. Its extensions come as Python packages with the binary
inside, so nothing is downloaded. The catalog is opened through DuckDB only: a second copy of SQLite in this process
would drop the first one's POSIX locks when it closes the file.
"""

from __future__ import annotations

import contextlib
import importlib.util
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from anabranch.errors import StorageError

LAKE = "lake"
METADATA = f"__ducklake_metadata_{LAKE}"
_EXTENSIONS = ("ducklake", "sqlite_scanner", "postgres_scanner")
_BUSY_MILLISECONDS = 10_000


@dataclass(frozen=True, slots=True)
class Location:
    """Where the catalog is, in DuckDB's words (`sqlite:/a/catalog.sqlite`, `postgres:dbname=x`), and the data."""

    catalog: str
    data: Path | None

    @property
    def is_sqlite(self) -> bool:
        return self.catalog.startswith("sqlite:")


def identifier(name: str) -> str:
    """The name as DuckDB reads it, whatever it contains."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """The value as a DuckDB string literal."""
    return "'" + value.replace("'", "''") + "'"


class Connection:
    """A lake attached under the name `lake`; every thread has a cursor of its own."""

    def __init__(self, location: Location, create: bool, retries: int = 0) -> None:
        self.location = location
        self._retries = retries
        self._lock = threading.Lock()
        self._databases = [_open(location, create, retries)]
        self._local = threading.local()
        self._closed = False

    def renew(self) -> None:
        """Attach the lake anew, for all threads.

        DuckLake remembers where a table's inlined rows are; when another client flushes them, it keeps looking there.
        The old handles stay open for whoever is using them.
        """
        fresh = _open(self.location, create=False, retries=self._retries)
        with self._lock:
            self._databases.append(fresh)
            self._local = threading.local()

    def reader(self) -> duckdb.DuckDBPyConnection:
        """This thread's own handle for reading."""
        return self._cursor("reader")

    def writer(self) -> duckdb.DuckDBPyConnection:
        """This thread's own handle for commits; what is read meanwhile goes through the other one."""
        return self._cursor("writer")

    def separate(self) -> duckdb.DuckDBPyConnection:
        """A handle for one use, which the caller closes."""
        return self._databases[-1].cursor()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of one query, in a transaction of its own unless one is open."""
        return [tuple(row) for row in self._run(sql).fetchall()]

    def arrow(self, sql: str) -> pa.Table:
        """The rows of one query as an Arrow table."""
        return self._run(sql).to_arrow_table()

    def arrow_anew(self, sql: str) -> pa.Table:
        """The same, and once more on a fresh handle if this one remembers tables as they no longer are."""
        try:
            return self.arrow(sql)
        except duckdb.Error as error:
            if not is_stale(error):
                raise
        self.renew()
        return self.arrow(sql)

    def catalog(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query that the catalog's own database runs, as it is now. SQLite gives all values as text."""
        query = "sqlite_query" if self.location.is_sqlite else "postgres_query"
        return self.rows(f"SELECT * FROM {query}({text(METADATA)}, {text(sql)})")

    def run_in_catalog(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement in PostgreSQL, in a transaction of its own; the rows of a query, none otherwise."""
        function = "postgres_query" if statement.lstrip()[:6].upper() == "SELECT" else "postgres_execute"
        call = f"{function}({text(METADATA)}, {text(statement)})"
        cursor = self.separate()
        try:
            if function == "postgres_execute":
                cursor.execute(f"CALL {call}")
                return []
            return [tuple(row) for row in cursor.execute(f"SELECT * FROM {call}").fetchall()]
        finally:
            cursor.close()

    @contextlib.contextmanager
    def consistent(self) -> Iterator[None]:
        """Several reads of the catalog that see one state of it; may be nested."""
        depth = getattr(self._local, "depth", 0)
        if depth == 0:
            self.reader().execute("BEGIN")
        self._local.depth = depth + 1
        try:
            yield
        finally:
            self._local.depth = depth
            if depth == 0:
                rollback(self.reader())

    def close(self) -> None:
        """Let go of the catalog. Doing it twice is fine."""
        if not self._closed:
            self._closed = True
            for database in self._databases:
                database.close()

    def _cursor(self, role: str) -> duckdb.DuckDBPyConnection:
        if self._closed:
            raise StorageError("LAKE_CLOSED", "the lake is closed", hint="Open it again with connect(...).")
        cursor = getattr(self._local, role, None)
        if cursor is None:
            cursor = self.separate()
            setattr(self._local, role, cursor)
        return cursor

    def _run(self, sql: str) -> duckdb.DuckDBPyConnection:
        try:
            return self.reader().execute(sql)
        except duckdb.Error:
            # A failed statement leaves its transaction open and aborted, also outside of BEGIN.
            if getattr(self._local, "depth", 0) == 0:
                rollback(self.reader())
            raise


def rollback(cursor: duckdb.DuckDBPyConnection) -> None:
    """End the open transaction, if there is one."""
    with contextlib.suppress(duckdb.Error):
        cursor.execute("ROLLBACK")


def extension_path(name: str) -> Path:
    """The binary inside the wheel `duckdb_extension_<name>`."""
    found = importlib.util.find_spec(f"duckdb_extension_{name}")
    places = list(found.submodule_search_locations or ()) if found else []
    for place in places:
        for binary in sorted(Path(place).rglob(f"{name}.duckdb_extension")):
            return binary
    raise StorageError(
        "EXTENSION_MISSING",
        f"the DuckDB extension {name} is not installed",
        hint=f"pip install duckdb-extension-{name.replace('_', '-')}=={duckdb.__version__}",
    )


def _open(location: Location, create: bool, retries: int) -> duckdb.DuckDBPyConnection:
    database = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
    try:
        _prepare(database, retries)
        _attach(database, location, create)
    except BaseException:
        database.close()
        raise
    return database


def is_stale(error: duckdb.Error) -> bool:
    """Whether the handle remembers a table as it no longer is, or its inlined rows where they are not; renew helps."""
    if isinstance(error, duckdb.BinderException | duckdb.CatalogException):
        return True
    # What DuckLake meets when it commits comes inside another error.
    return any(each in str(error) for each in ("Catalog Error:", "Binder Error:"))


def _prepare(database: duckdb.DuckDBPyConnection, retries: int) -> None:
    for name in _EXTENSIONS:
        database.execute(f"LOAD {text(str(extension_path(name)))}")
    database.execute("SET GLOBAL TimeZone = 'UTC'")
    # Without retries inside DuckLake a commit succeeds only directly on top of the snapshot it began with: what was
    # checked at the start of the transaction still holds at its end. commit.py tries the whole transaction again.
    # Compaction relies on nothing that others could change, and may let DuckLake commit it on top of theirs.
    database.execute(f"SET GLOBAL ducklake_max_retry_count = {retries}")


def _attach(database: duckdb.DuckDBPyConnection, location: Location, create: bool) -> None:
    options = []
    if location.is_sqlite:
        options += ["META_JOURNAL_MODE 'WAL'", f"META_BUSY_TIMEOUT {_BUSY_MILLISECONDS}"]
    if location.data is not None:
        options += [f"DATA_PATH {text(str(location.data) + '/')}", "OVERRIDE_DATA_PATH true"]
    if not create:
        options.append("CREATE_IF_NOT_EXISTS false")
    suffix = f" ({', '.join(options)})" if options else ""
    try:
        database.execute(f"ATTACH {text('ducklake:' + location.catalog)} AS {LAKE}{suffix}")
    except duckdb.Error as error:
        raise _attach_error(str(error), location) from error


def _attach_error(message: str, location: Location) -> StorageError:
    lowered = message.lower()
    if "version" in lowered and ("newer" in lowered or "mismatch" in lowered or "not supported" in lowered):
        return StorageError(
            "CATALOG_VERSION",
            "the lake's catalog has a version of DuckLake that this installation does not know",
            detail=message,
            hint="Install the versions of duckdb and duckdb-extension-ducklake that wrote it, or newer ones.",
        )
    if "does not exist" in lowered:
        return StorageError(
            "LAKE_NOT_FOUND",
            f"there is no lake at {location.catalog}",
            detail=message,
            hint="Check the path, or let it be created.",
        )
    return StorageError("LAKE_NOT_OPENED", f"the lake at {location.catalog} cannot be opened", detail=message)
