"""The version of a table: the last snapshot that changed its rows or schema.

The log answers, except in two places. Behind a gap, where snapshots have expired, `expire` has stored the answer (an
*anchor*); a gap that somebody else made has none, and then the snapshot behind it counts as a change: too new a version
costs a full refresh, too old a one would lose a change. A flush of inlined deletes is logged like a delete: there the
catalog is asked whether a single row differs. And a compaction by somebody else of a table with FLOAT or DOUBLE columns
may have changed the sign of a zero: there the rows are read, and too many of them to be read here count as a change.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from functools import lru_cache

from anabranch.store.catalog import Catalog, Table
from anabranch.store.changes import Planner
from anabranch.store.documents import DocumentReader
from anabranch.store.few import few_changes
from anabranch.store.protocol import Version
from anabranch.store.zeros import holds_fractions

ANCHORS = "store/anchors"

Anchors = Mapping[int, Mapping[int, int]]
"""Per snapshot behind a gap: the version of each table, by the catalog's number of the table."""


class Versions:
    """Tells versions of tables."""

    def __init__(self, catalog: Catalog, planner: Planner, documents: DocumentReader) -> None:
        self._catalog = catalog
        self._planner = planner
        self._documents = documents
        self._lock = threading.Lock()
        self._decided: dict[tuple[int, int], bool] = {}

    def of(self, table: Table, at: Version) -> Version:
        """The version of the table at a kept snapshot."""
        number = at.number
        fractions = holds_fractions(table.fields)
        while True:
            number, is_gap = self._catalog.log.last_entry(table.number, number, table.created, fractions)
            if is_gap:
                return Version(self.anchors().get(number, {}).get(table.number, number))
            if number <= table.created or self._is_change(table, number):
                return Version(number)
            number -= 1

    def anchors(self) -> Anchors:
        """What `expire` has stored. Who sees a gap has read the log after the anchors were committed."""
        return anchors_from(self._documents.at(Version(self._catalog.log.last)).get(ANCHORS))

    def _is_change(self, table: Table, number: int) -> bool:
        entry = self._catalog.log.get(number)
        if entry is None or table.number not in entry.only_deletes | entry.doubtful:
            return True
        with self._lock:
            decided = self._decided.get((table.number, number))
        if decided is None:
            differs = self._reads_differ if table.number in entry.doubtful else self._differs
            decided = differs(table, number)
            with self._lock:
                self._decided[(table.number, number)] = decided
        return decided

    def _differs(self, table: Table, number: int) -> bool:
        if self._catalog.log.get(number - 1) is None or not self._catalog.has_inlined_deletes(table):
            return True
        old = self._catalog.table(table.info.id, Version(number - 1))
        new = self._catalog.table(table.info.id, Version(number))
        if old is None or new is None or old.fields != new.fields:
            return True
        return not self._planner.is_same(new, number - 1, number)

    def _reads_differ(self, table: Table, number: int) -> bool:
        new = self._catalog.table(table.info.id, Version(number))
        if new is None or self._catalog.log.get(number - 1) is None:
            return True
        plan = self._planner.change(new, number - 1, number)
        if not plan.scans and not plan.inlined:
            return False
        found = few_changes(self._catalog, new, plan)
        return found is None or found.num_rows > 0


@lru_cache(maxsize=8)
def anchors_from(document: str | None) -> Anchors:
    """The anchors that a document holds."""
    if document is None:
        return {}
    stored = json.loads(document)
    return {int(at): {int(table): version for table, version in tables.items()} for at, tables in stored.items()}


def anchors_text(anchors: Anchors) -> str:
    """The document that holds the anchors."""
    return json.dumps({str(at): {str(key): value for key, value in tables.items()} for at, tables in anchors.items()})
