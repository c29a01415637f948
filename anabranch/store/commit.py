"""Applies a commit: all of it as one snapshot, or nothing.

    BEGIN; base := newest snapshot; check the requirements at base; apply; COMMIT as base + 1

DuckLake is told not to retry, so the commit fails if anybody else committed after base: what was checked still holds,
and no guard row is needed. Then the whole transaction is tried again, after a pause. Each commit carries a unique id;
after an error whose outcome is unknown the log is searched for it before anything is repeated.
"""

from __future__ import annotations

import contextlib
import random
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

import duckdb

from anabranch.errors import AnabranchError, StorageError
from anabranch.store.actions import Applier
from anabranch.store.catalog import Catalog
from anabranch.store.connection import LAKE, is_stale, rollback, text
from anabranch.store.crashpoints import reach
from anabranch.store.documents import DocumentReader
from anabranch.store.moves import finish_moves, perform_moves, undo_moves
from anabranch.store.protocol import Action, Commit, StagedFiles, Version, Write
from anabranch.store.requirements import check_requirements
from anabranch.store.snapshots import COMPACTION
from anabranch.store.system import write_documents, write_history
from anabranch.store.versions import Versions

_Result = TypeVar("_Result")
AUTHOR = "anabranch"
_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.05
_CONTENTION = (
    "database is locked",
    "conflict",
    "concurrent",
    "could not serialize",
    "duplicate key",
    "primary key",
    "unique constraint",
    "deadlock",
    "busy",
)


class Committer:
    """Commits to one lake. `exclusive` keeps our own processes from getting in each other's way.

    `timeout`: how many seconds a commit waits for its turn, and how long it is tried again against other writers.
    """

    def __init__(
        self,
        catalog: Catalog,
        documents: DocumentReader,
        versions: Versions,
        exclusive: Callable[[float], AbstractContextManager[None]],
        timeout: float,
    ) -> None:
        self._catalog = catalog
        self._documents = documents
        self._versions = versions
        self._exclusive = exclusive
        self.timeout = timeout

    def commit(self, commit: Commit) -> Version:
        """The new snapshot, or the newest one if the commit changes nothing."""
        actions = tuple(each for each in commit.actions if not _is_nothing(each))
        with self._exclusive(self.timeout):
            reach("commit.locked")
            head = Version(self._catalog.head())
            self._check(head, commit, actions)
            moves = Applier(self._writer, self._catalog.tables(head), self._catalog.data).moves(actions)
            perform_moves(moves)
            tried: list[str] = []
            try:
                reach("commit.files_moved")
                version = self._until_committed(commit, actions, tried)
            except BaseException:
                # Not if the commit was made after all (an interrupt right behind it), nor if that cannot be known.
                with contextlib.suppress(AnabranchError):
                    if all(self._find(key) is None for key in tried):
                        undo_moves(moves)
                raise
        finish_moves(moves)
        return version

    def call(self, statement: str) -> None:
        """One statement that DuckLake commits by itself, tried again when another writer got in between."""
        with self._exclusive(self.timeout):
            self._patiently(lambda: self._call(statement))

    def quiet_for_compaction(self) -> AbstractContextManager[None]:
        """Inside, none of us commits, where a transaction sees what others commit meanwhile.

        That is so in PostgreSQL, and a compaction of DuckLake whose files change under it may end the process.
        """
        is_cut_off = self._catalog.connection.location.is_sqlite
        return contextlib.nullcontext() if is_cut_off else self._exclusive(self.timeout)

    def _call(self, statement: str) -> None:
        self._writer.execute(statement).to_arrow_table()

    @property
    def _writer(self) -> duckdb.DuckDBPyConnection:
        return self._catalog.connection.writer()

    def _until_committed(self, commit: Commit, actions: tuple[Action, ...], tried: list[str]) -> Version:
        def attempt() -> Version:
            key = (COMPACTION if commit.compacts else "") + uuid.uuid4().hex
            tried.append(key)
            written: list[Path] = []
            try:
                return self._attempt(commit, actions, key, written)
            except duckdb.Error:
                rollback(self._writer)
                if (done := self._find(key)) is not None:
                    return done
                for path in written:
                    path.unlink(missing_ok=True)
                raise

        return self._patiently(attempt)

    def _patiently(self, work: Callable[[], _Result]) -> _Result:
        """Do the work again, after a pause, for as long as only other writers are in the way."""
        deadline = time.monotonic() + self.timeout
        pause = _FIRST_PAUSE
        renewed = False
        while True:
            try:
                return work()
            except duckdb.Error as error:
                rollback(self._writer)
                if is_stale(error) and not renewed:
                    self._catalog.connection.renew()
                    renewed = True
                elif not is_contention(error):
                    raise _failed(error) from error
                if time.monotonic() >= deadline:
                    raise _busy(self.timeout, error) from error
            except BaseException:
                rollback(self._writer)
                raise
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _attempt(self, commit: Commit, actions: tuple[Action, ...], key: str, written: list[Path]) -> Version:
        cursor = self._writer
        cursor.execute("BEGIN")
        reach("commit.begun")
        (number,) = cursor.execute(f"SELECT id FROM ducklake_current_snapshot({text(LAKE)}) AS s(id)").fetchall()[0]
        base, made = Version(number), Version(number + 1)
        self._catalog.head()
        self._check(base, commit, actions)
        reach("commit.requirements_checked")
        applier = Applier(cursor, self._catalog.tables(base), self._catalog.data)
        applier.written = written
        for action in actions:
            applier.apply(action)
        present = self._documents.at(base) if commit.documents else {}
        wanted = {name: value(made) if callable(value) else value for name, value in commit.documents.items()}
        after = write_documents(cursor, present, wanted)
        if commit.history:
            write_history(cursor, commit.history, made.number)
        reach("commit.applied")
        if not actions and not commit.history and after == present:
            rollback(cursor)
            return base
        extra = f"extra_info => {text(key)}"
        cursor.execute(f"CALL {LAKE}.set_commit_message({text(AUTHOR)}, {text(commit.message)}, {extra})")
        reach("commit.before_commit")
        cursor.execute("COMMIT")
        reach("commit.after_commit")
        if wanted and after != present:
            self._documents.written(made, after)
        return made

    def _check(self, base: Version, commit: Commit, actions: tuple[Action, ...]) -> None:
        check_requirements(self._catalog, self._documents, self._versions, base, commit.requirements, actions)

    def _find(self, key: str) -> Version | None:
        """The snapshot that carries this commit's id, if it was made after all."""
        try:
            found = self._catalog.connection.catalog(
                f"SELECT snapshot_id FROM ducklake_snapshot_changes WHERE commit_extra_info = '{key}'"
            )
        except duckdb.Error as error:
            raise StorageError(
                "COMMIT_UNKNOWN",
                "the catalog cannot be asked whether the commit was made",
                detail=str(error),
                hint=f"Look for a snapshot whose commit_extra_info is {key}.",
            ) from error
        return Version(int(found[0][0])) if found else None


def _is_nothing(action: Action) -> bool:
    if not isinstance(action, Write):
        return False
    inserted = sum(each.rows if isinstance(each, StagedFiles) else each.num_rows for each in action.inserts)
    return not inserted and not (action.deletes is not None and len(action.deletes))


def is_contention(error: duckdb.Error) -> bool:
    """Whether another writer was in the way; DuckLake speaks of its retry count whatever went wrong."""
    message = str(error).lower()
    return any(each in message for each in _CONTENTION)


def _failed(error: duckdb.Error) -> StorageError:
    return StorageError("COMMIT_FAILED", "the commit failed; the lake is as it was", detail=str(error))


def _busy(timeout: float, error: duckdb.Error) -> StorageError:
    return StorageError(
        "LAKE_BUSY",
        f"other writers kept getting in between for {timeout:g} seconds",
        detail=str(error),
        hint="Try again; for many writers use a PostgreSQL catalog.",
    )
