"""The lake's log of commits, kept in memory and read on from where it ended."""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from anabranch.store.connection import Connection
from anabranch.store.protocol import SnapshotInfo, Version

COMPACTIONS = frozenset({"merge_adjacent", "rewrite_delete", "inline_flush", "compacted_table", "flushed_inlined"})
COMPACTION = "compaction-"
"""So begins the extra information of a commit of ours that left every value of every row as it was."""
_ENTRY = re.compile(r'([a-z_]+):("(?:[^"]|"")*"(?:\."(?:[^"]|"")*")?|\d+)')


@dataclass(frozen=True)
class Snapshot:
    """One entry of the log. `changed` and `compacted` hold the catalog's numbers of tables."""

    number: int
    committed_at: str
    schema_version: int
    entries: str
    author: str | None
    message: str | None
    extra: str | None

    @cached_property
    def changed(self) -> frozenset[int]:
        return frozenset(table for kind, table in self._numbered if kind not in COMPACTIONS and not self.is_exact)

    @cached_property
    def compacted(self) -> frozenset[int]:
        return frozenset(table for kind, table in self._numbered if kind in COMPACTIONS or self.is_exact)

    @property
    def is_exact(self) -> bool:
        """Whether the entry is a compaction of our own: those of others may lose the sign of a zero."""
        return (self.extra or "").startswith(COMPACTION)

    @property
    def doubtful(self) -> frozenset[int]:
        """Tables that somebody else compacted: where they hold FLOAT or DOUBLE, a value may be another one now."""
        return frozenset() if self.is_exact else self.compacted - self.changed

    @cached_property
    def only_deletes(self) -> frozenset[int]:
        """Tables of which the entry tells deletes at most: a flush of inlined deletes looks the same."""
        others = {table for kind, table in self._numbered if kind not in COMPACTIONS | {"deleted_from_table"}}
        return self.changed - others

    @property
    def _numbered(self) -> list[tuple[str, int]]:
        return [(kind, int(what)) for kind, what in _ENTRY.findall(self.entries) if what.isdigit()]

    def info(self) -> SnapshotInfo:
        return SnapshotInfo(Version(self.number), self.committed_at, self.author, self.message)


class SnapshotLog:
    """All kept snapshots by number. Entries never change; they only come and expire."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._entries: dict[int, Snapshot] = {}
        self._changes: dict[int, list[int]] = {}
        self._doubtful: dict[int, list[int]] = {}
        self._starts: list[int] = []
        self._last = -1

    @property
    def last(self) -> int:
        """The newest snapshot when the log was last read."""
        return self._last

    def refresh(self) -> int:
        """Read what is new; the number of the newest snapshot."""
        count, last = self._connection.catalog(
            "SELECT count(*) AS kept, max(snapshot_id) AS last FROM ducklake_snapshot"
        )[0]
        with self._lock:
            if (int(count), int(last)) != (len(self._entries), self._last):
                self._extend(int(count))
            return self._last

    def entries(self) -> dict[int, Snapshot]:
        """A copy of the log as it was last read, oldest first."""
        with self._lock:
            return dict(self._entries)

    def get(self, number: int) -> Snapshot | None:
        """The entry of a kept snapshot."""
        with self._lock:
            found = self._entries.get(number)
        if found is None:
            self.refresh()
            with self._lock:
                found = self._entries.get(number)
        return found

    def last_entry(self, table: int, at: int, created: int, doubtful: bool = False) -> tuple[int, bool]:
        """The last snapshot up to `at` with an entry that says the table changed, and whether a gap hides more.

        An expired snapshot takes its entry with it; then the answer is the snapshot behind the gap. `doubtful` takes
        compactions by others for entries, too.
        """
        with self._lock:
            if at <= created:
                return created, False
            if at not in self._entries:
                return at, True
            behind_gap = _last_up_to(self._starts, at) or 0
            changed = max(_last_up_to(self._changes.get(table, ()), at) or 0, created)
            compacted = (_last_up_to(self._doubtful.get(table, ()), at) or 0) if doubtful else 0
            if compacted > max(changed, behind_gap):
                return compacted, False
            return (changed, False) if changed >= behind_gap else (behind_gap, True)

    def first_change(self, table: int, since: int, upto: int) -> Snapshot | None:
        """The first kept entry after `since` that says the table changed."""
        with self._lock:
            changes = self._changes.get(table, [])
            place = bisect_right(changes, since)
            return self._entries.get(changes[place]) if place < len(changes) and changes[place] <= upto else None

    def changes_between(self, since: int, upto: int) -> list[Snapshot] | None:
        """The entries after `since` up to `upto`; None if one of them has expired."""
        with self._lock:
            found = [self._entries.get(number) for number in range(since + 1, upto + 1)]
        return None if None in found else [entry for entry in found if entry is not None]

    def _extend(self, count: int) -> None:
        added = self._load(self._last)
        if len(self._entries) + len(added) != count or not self._entries:
            self._entries, self._changes, self._doubtful, self._starts = {}, {}, {}, []
            added = self._load(-1)
        for number, entry in added.items():
            if number - 1 not in self._entries:
                self._starts.append(number)
            for table in entry.changed:
                self._changes.setdefault(table, []).append(number)
            for table in entry.doubtful:
                self._doubtful.setdefault(table, []).append(number)
            self._entries[number] = entry
        self._last = max(self._entries)

    def _load(self, after: int) -> dict[int, Snapshot]:
        rows = self._connection.catalog(
            "SELECT s.snapshot_id, CAST(s.snapshot_time AS VARCHAR(64)), s.schema_version, c.changes_made, c.author,"
            " c.commit_message, c.commit_extra_info FROM ducklake_snapshot s LEFT JOIN ducklake_snapshot_changes c"
            f" ON c.snapshot_id = s.snapshot_id WHERE s.snapshot_id > {after} ORDER BY s.snapshot_id"
        )
        return {
            int(number): Snapshot(int(number), at, int(schema), entries or "", author, message, extra)
            for number, at, schema, entries, author, message, extra in rows
        }


def _last_up_to(ascending: Sequence[int], number: int) -> int | None:
    place = bisect_right(ascending, number)
    return ascending[place - 1] if place else None
