"""Plans of a table's rows at a snapshot, and of the exact change between two snapshots.

    change(a, b) = read(b) - read(a)

computed from the files and positions that differ. A snapshot c that only compacted the table changes nothing, so
change(a, b) = change(a, c - 1) + change(c, b): the rows that the compaction moved from file to file are not even read.
DuckLake's own change feed is not used: after merges and rewrites it can miss deletes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from anabranch.errors import StorageError
from anabranch.store.catalog import Catalog, FileState, Table
from anabranch.store.connection import is_stale
from anabranch.store.inlined import InlinedRowsMovedError, read_inlined
from anabranch.store.mend import note_columns
from anabranch.store.positions import PositionReader
from anabranch.store.protocol import Version
from anabranch.store.scan import FileScan, LiveFile, rows_at_most, scan_of_both, scan_of_change, scan_of_rows
from anabranch.store.zeros import holds_fractions

_ATTEMPTS = 5
_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class Plan:
    """What to read: scans of files, and rows that the catalog itself holds, each with a weight."""

    scans: list[FileScan]
    inlined: list[tuple[int, pa.Table]]


class _Remembered:
    """What was found out since the newest snapshot known; all of it is true of its snapshots by itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._head = -1
        self._known: dict[tuple[Any, ...], Any] = {}

    def since(self, head: int) -> dict[tuple[Any, ...], Any]:
        with self._lock:
            if head != self._head:
                self._head = head
                self._known = {}
            return self._known

    def forget(self) -> None:
        with self._lock:
            self._known = {}


class Planner:
    """Makes plans, each from one consistent state of the catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._positions = PositionReader()
        self._remembered = _Remembered()
        self._noted: frozenset[str] = frozenset()

    def rows(self, table: Table, at: int) -> Plan:
        """The plan of the table's rows at a snapshot."""

        def plan() -> Plan:
            state = self._state(table, at)
            return Plan(scan_of_rows(self._live(table, state)), self._inlined(table, [(1, state)]))

        return self._consistently(plan, ("rows", table, at))

    def both(self, table: Table, since: int, upto: int) -> list[FileScan] | None:
        """Scans of the rows of both snapshots, each file read once; None where the catalog itself holds rows."""

        def plan() -> list[FileScan] | None:
            before, after = self._state(table, since), self._state(table, upto)
            if before.inlined_rows or after.inlined_rows:
                return None
            return scan_of_both(self._live(table, before), self._live(table, after))

        return self._consistently(plan, ("both", table, since, upto))

    def change(self, table: Table, since: int, upto: int) -> Plan:
        """The plan of read(upto) - read(since), in the columns of `table`."""

        def plan() -> Plan:
            if hidden := self._hidden(table, since, upto):
                return self._both(table, since, upto, hidden)
            scans: list[FileScan] = []
            inlined: list[tuple[int, pa.Table]] = []
            for before, after in self._segments(table, since, upto):
                scans += self._scans(table, before, after)
                inlined += self._inlined(table, [(-1, before), (1, after)])
            return Plan(scans, inlined)

        return self._consistently(plan, ("change", table, since, upto))

    def change_size(self, table: Table, since: int, upto: int) -> int:
        """An upper bound on the rows of the change."""

        def size() -> int:
            if hidden := self._hidden(table, since, upto):
                plan = self._both(table, since, upto, hidden)
                return rows_at_most(plan.scans) + sum(int(rows.num_rows) for _, rows in plan.inlined)
            total = 0
            for before, after in self._segments(table, since, upto):
                total += rows_at_most(self._scans(table, before, after))
                total += sum(before.inlined_rows.values()) + sum(after.inlined_rows.values())
            return total

        return self._consistently(size, ("change size", table, since, upto))

    def is_same(self, table: Table, since: int, upto: int) -> bool:
        """Whether the catalog itself shows that no row differs, without looking into files."""

        def same() -> bool:
            before, after = self._state(table, since), self._state(table, upto)
            return not self._scans(table, before, after) and not before.inlined_rows and not after.inlined_rows

        return self._consistently(same, ("same", table, since, upto))

    def row_count(self, table: Table, at: int) -> int:
        """The number of rows."""

        def count() -> int:
            state = self._state(table, at)
            files = self._live(table, state).values()
            return sum(state.inlined_rows.values()) + sum(self._positions.rows_of(each) for each in files)

        return self._consistently(count, ("row count", table, at))

    def _hidden(self, table: Table, since: int, upto: int) -> frozenset[int]:
        """Columns that were dropped between `upto` and a later `since`, and are still in the files."""
        if since <= upto or (later := self._catalog.table(table.info.id, Version(since))) is None:
            return frozenset()
        return frozenset(field.id for field in table.fields) - {field.id for field in later.fields}

    def _both(self, table: Table, since: int, upto: int, hidden: frozenset[int]) -> Plan:
        """All rows of both sides: every one of them differs in the columns that only one side has."""
        before, after = self._state(table, since), self._state(table, upto)
        gone = scan_of_rows(self._live(table, before), -1, hidden)
        come = scan_of_rows(self._live(table, after))
        return Plan(gone + come, self._inlined(table, [(-1, before), (1, after)]))

    def _scans(self, table: Table, before: FileState, after: FileState) -> list[FileScan]:
        return scan_of_change(self._live(table, before), self._live(table, after))

    def _segments(self, table: Table, since: int, upto: int) -> list[tuple[FileState, FileState]]:
        """Windows between compactions that together make the change. A change backwards is one window.

        Others may compact FLOAT and DOUBLE columns with a client that loses the sign of a zero: those are read.
        """
        fractions = holds_fractions(table.fields)
        log = self._catalog.log
        entries = log.changes_between(since, upto) if since < upto else None
        windows, start = [], since
        for entry in entries or []:
            if table.number in entry.compacted - entry.changed and not (fractions and table.number in entry.doubtful):
                windows.append((start, entry.number - 1))
                start = entry.number
        windows.append((start, upto))
        return [(self._state(table, start), self._state(table, end)) for start, end in windows if start != end]

    def _inlined(self, table: Table, states: list[tuple[int, FileState]]) -> list[tuple[int, pa.Table]]:
        found = []
        for weight, state in states:
            if state.inlined_rows:
                stored = self._catalog.table(table.info.id, Version(state.at))
                assert stored is not None
                self._note_columns(stored, frozenset(state.inlined_rows))
                rows = read_inlined(self._catalog.connection, stored, table, state.at, state.inlined_rows)
                found.append((weight, rows))
        return found

    def _note_columns(self, table: Table, holders: frozenset[str]) -> None:
        """Before rows in the catalog are read for the first time; what was read of them before is read again."""
        if not holders <= self._noted:
            self._noted |= holders
            if note_columns(self._catalog.connection, table):
                raise InlinedRowsMovedError

    def _state(self, table: Table, at: int) -> FileState:
        """What the catalog says of the table at a snapshot."""
        return self.once(("state", table.number, at), lambda: self._catalog.file_state(table, at))

    def _live(self, table: Table, state: FileState) -> dict[int, LiveFile]:
        """The files of the state, with what was deleted from them."""
        return self.once(("live", table.number, state.at), lambda: self._positions.live_files(state))

    def once(self, key: tuple[Any, ...], work: Callable[[], _Result]) -> _Result:
        """Asked once as long as nothing is committed."""
        known = self._remembered.since(self._catalog.log.last)
        if key not in known:
            known[key] = work()
        found: _Result = known[key]
        return found

    def _consistently(self, work: Callable[[], _Result], key: tuple[Any, ...]) -> _Result:
        """Done once, as `once`, from one state of the catalog."""
        known = self._remembered.since(self._catalog.log.last)
        if key in known:
            found: _Result = known[key]
            return found
        known[key] = made = self._from_one_state(work)
        return made

    def _from_one_state(self, work: Callable[[], _Result]) -> _Result:
        connection = self._catalog.connection
        for _ in range(_ATTEMPTS):
            try:
                with connection.consistent():
                    return work()
            except (InlinedRowsMovedError, FileNotFoundError) as moved:
                self._remembered.forget()
                last: Exception = moved
            except duckdb.Error as error:
                if not is_stale(error):
                    raise
                last = error
                self._remembered.forget()
                connection.renew()
        raise StorageError(
            "CATALOG_BUSY",
            "the catalog changed at every attempt to read it",
            detail=str(last),
            hint="Try again in a moment.",
        ) from last
