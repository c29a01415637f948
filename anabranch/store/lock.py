"""One writer of ours at a time around BEGIN .. COMMIT.

SQLite lets one process write and refuses the others; a waiting line outside it is fairer and cheaper than refusals.
The lock is advisory and ends with the process that holds it, so a killed writer leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from anabranch.errors import StorageError
from anabranch.store.connection import METADATA, Connection, rollback, text

_FIRST_WAIT = 0.001
_LONGEST_WAIT = 0.05


@contextlib.contextmanager
def file_lock(path: Path, timeout: float) -> Iterator[None]:
    """Hold the lock file; a fresh descriptor each time, so threads of one process exclude each other too."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        _poll(lambda: _try_lock(descriptor), f"The lock file is {path}.", timeout)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def advisory_lock(connection: Connection, timeout: float) -> Iterator[None]:
    """Hold PostgreSQL's advisory lock of this lake, in a transaction of its own."""
    cursor = connection.separate()
    query = "SELECT pg_try_advisory_xact_lock(hashtext(current_schema() || '/anabranch'))"
    try:
        cursor.execute("BEGIN")
        statement = f"SELECT * FROM postgres_query({text(METADATA)}, {text(query)})"
        _poll(lambda: bool(cursor.execute(statement).fetchall()[0][0]), "An advisory lock in PostgreSQL.", timeout)
        yield
    finally:
        rollback(cursor)
        cursor.close()


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _poll(attempt: Callable[[], bool], what: str, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    wait = _FIRST_WAIT
    while not attempt():
        if time.monotonic() >= deadline:
            raise StorageError(
                "LAKE_BUSY",
                f"another writer held the lake for {timeout:g} seconds",
                detail=what,
                hint="Try again; for many writers use a PostgreSQL catalog.",
            )
        time.sleep(wait)
        wait = min(wait * 2, _LONGEST_WAIT)
