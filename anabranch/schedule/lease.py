"""One scheduler per lake: a lease that the holder keeps alive and that another takes over when the holder dies.

A lease is no lake commit and guards no data: two refreshers at once are kept apart by the requirements of a commit. The
lease only saves them from doing the work twice.

`FileLease` is for a lake in a local folder. The holder keeps a lock on a file; the operating system lets go of it the
moment the process dies, however it dies, so take-over is immediate and a slow holder never loses it.
`PostgresLease` is for lakes shared by machines. A row names the holder and is renewed by heartbeats; when none came for
`seconds_to_live`, by the server's clock, the next one who asks takes it over.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Protocol
from uuid import uuid4


@dataclass(frozen=True)
class Holder:
    """Who holds a lease, for people: `status` shows it."""

    token: str
    host: str
    process: int
    heartbeat_at: str


class Lease(Protocol):
    """At most one holder at a time."""

    @property
    def heartbeat_seconds(self) -> float:
        """How often the holder calls `renew`."""

    def acquire(self) -> bool:
        """Take the lease if it is free; True if it is ours now."""

    def renew(self) -> bool:
        """Say that we live. False if the lease was lost."""

    def release(self) -> None:
        """Give the lease back, if it is ours."""

    def holder(self) -> Holder | None:
        """Who holds it now."""


class FileLease:
    """A lease by a lock on `<path>`; `<path>.json` says who holds it."""

    def __init__(self, path: Path | str, heartbeat_seconds: float = 5.0) -> None:
        self._path = Path(path)
        self._told = self._path.with_name(self._path.name + ".json")
        self._heartbeat_seconds = heartbeat_seconds
        self._token = uuid4().hex
        self._file: IO[bytes] | None = None

    @property
    def heartbeat_seconds(self) -> float:
        return self._heartbeat_seconds

    def acquire(self) -> bool:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = self._path.open("ab")
            if not _lock(file):
                file.close()
                return False
            self._file = file
        return self.renew()

    def renew(self) -> bool:
        if self._file is None:
            return False
        self._write(_ourselves(self._token))
        return True

    def release(self) -> None:
        if self._file is not None:
            self._told.unlink(missing_ok=True)
            self._file.close()
            self._file = None

    def holder(self) -> Holder | None:
        if self._file is None and not self._is_locked():
            return None
        try:
            return Holder(**json.loads(self._told.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def _is_locked(self) -> bool:
        try:
            with self._path.open("ab") as file:
                return not _lock(file)
        except FileNotFoundError:
            return False

    def _write(self, holder: Holder) -> None:
        """A reader sees the old text or the new one, never half of it."""
        partial = self._told.with_name(f"{self._told.name}.{self._token}")
        partial.write_text(json.dumps(asdict(holder)), "utf-8")
        partial.replace(self._told)


class PostgresLease:
    """A lease by a row of a table in the catalog's database.

    `execute` runs one SQL statement in a transaction of its own and returns its rows, none for a statement without
    result. The row is changed only where it is ours or has expired, so of two who ask at once one gets it.
    """

    def __init__(
        self,
        execute: Callable[[str], Sequence[Sequence[Any]]],
        lake: str,
        seconds_to_live: float = 15.0,
        table: str = "anabranch_lease",
    ) -> None:
        self._execute = execute
        self._lake = lake
        self._seconds_to_live = seconds_to_live
        self._table = table
        self._token = uuid4().hex
        self._table_is_there = False

    @property
    def heartbeat_seconds(self) -> float:
        return self._seconds_to_live / 3

    def acquire(self) -> bool:
        if not self._table_is_there:
            self._execute(
                f"CREATE TABLE IF NOT EXISTS {self._table} (lake TEXT PRIMARY KEY, token TEXT NOT NULL, "
                "host TEXT NOT NULL, process INTEGER NOT NULL, heartbeat_at TIMESTAMPTZ NOT NULL, "
                "expires_at TIMESTAMPTZ NOT NULL)"
            )
            self._table_is_there = True
        ourselves = _ourselves(self._token)
        self._execute(
            f"INSERT INTO {self._table} AS held (lake, token, host, process, heartbeat_at, expires_at) VALUES "
            f"({_text(self._lake)}, {_text(self._token)}, {_text(ourselves.host)}, {ourselves.process}, "
            f"now(), {self._expiry}) "
            "ON CONFLICT (lake) DO UPDATE SET token = excluded.token, host = excluded.host, "
            "process = excluded.process, heartbeat_at = excluded.heartbeat_at, expires_at = excluded.expires_at "
            "WHERE held.token = excluded.token OR held.expires_at < now()"
        )
        return self._is_ours()

    def renew(self) -> bool:
        self._execute(f"UPDATE {self._table} SET heartbeat_at = now(), expires_at = {self._expiry} WHERE {self._ours}")
        return self._is_ours()

    def release(self) -> None:
        if self._table_is_there:
            self._execute(f"DELETE FROM {self._table} WHERE {self._ours}")

    def holder(self) -> Holder | None:
        rows = self._execute(
            f"SELECT token, host, process, heartbeat_at FROM {self._table} "
            f"WHERE lake = {_text(self._lake)} AND expires_at >= now()"
        )
        return next((Holder(token, host, process, str(at)) for token, host, process, at in rows), None)

    def _is_ours(self) -> bool:
        return bool(self._execute(f"SELECT 1 FROM {self._table} WHERE {self._ours} AND expires_at >= now()"))

    @property
    def _ours(self) -> str:
        return f"lake = {_text(self._lake)} AND token = {_text(self._token)}"

    @property
    def _expiry(self) -> str:
        return f"now() + INTERVAL '{self._seconds_to_live} seconds'"


def _ourselves(token: str) -> Holder:
    return Holder(token, socket.gethostname(), os.getpid(), datetime.now(UTC).isoformat(timespec="seconds"))


def _lock(file: IO[bytes]) -> bool:
    """Whether the lock is ours now. It belongs to the open file: a second one in this process is refused as well."""
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
