"""How many rows tables have and how many changed, from metadata, asked of the catalog once for each version."""

from __future__ import annotations

import threading

from anabranch.store.ducklake import DuckLakeStore
from anabranch.store.protocol import Version

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
