"""How many rows tables have and how many changed, from metadata, asked of the catalog once for each version."""

from __future__ import annotations

import threading

from anabranch.definitions import StreamTable
from anabranch.pinned import Pinned
from anabranch.store.ducklake import DuckLakeStore
from anabranch.store.protocol import MAIN, TableName, Version

_REMEMBERED_CHANGES = 10_000


class Sizes:
    """Remembers what it was told; who looks again and again keeps one."""

    def __init__(self, store: DuckLakeStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._rows: dict[str, tuple[Version, int]] = {}
        self._changed: dict[tuple[str, Version, Version], int] = {}

    def rows(self, table: str, at: Version) -> int:
        """The rows of a table."""
        version = self._store.version_of(table, at)
        known = self._rows.get(table)
        if known is None or known[0] != version:
            known = version, self._store.row_count(table, at)
            with self._lock:
                self._rows[table] = known
        return known[1]

    def shown_rows(self, pinned: Pinned, node: StreamTable) -> int:
        """The rows that readers of a stream table see; a top-N keeps more, behind a flag."""
        stored = pinned.part(node.shown.table).id
        if node.shown.flag is None:
            return self.rows(stored, pinned.version)
        key = f"shown/{stored}"
        version = self._store.version_of(stored, pinned.version)
        known = self._rows.get(key)
        if known is None or known[0] != version:
            known = version, self._store.count_rows(TableName(MAIN, node.name), pinned.version)
            with self._lock:
                self._rows[key] = known
        return known[1]

    def changed(self, table: str, since: Version, upto: Version) -> int | None:
        """An upper bound on the rows that changed; None if the table has not changed."""
        version = self._store.version_of(table, upto)
        if version <= since:
            return None
        key = table, since, version
        found = self._changed.get(key)
        if found is None:
            readable = self._store.can_read(table, since)
            found = self._store.change_size(table, since, upto) if readable else self._store.row_count(table, upto)
            with self._lock:
                if len(self._changed) >= _REMEMBERED_CHANGES:
                    self._changed.clear()
                self._changed[key] = found
        return found
