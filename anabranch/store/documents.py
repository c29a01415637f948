"""Documents by snapshot, remembered per version of the documents table: most snapshots do not change it.

They are read like any table, and not through DuckLake: it returns rows twice in old snapshots where a flush of inlined
deletes came after a rewrite.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from anabranch.store.catalog import Catalog, Table
from anabranch.store.changes import Planner
from anabranch.store.local import perform_locally
from anabranch.store.protocol import Version
from anabranch.store.system import SCHEMA

_REMEMBERED = 16


class DocumentReader:
    """Reads documents at any kept snapshot."""

    def __init__(self, catalog: Catalog, planner: Planner) -> None:
        self._catalog = catalog
        self._planner = planner
        self._lock = threading.Lock()
        self._remembered: OrderedDict[tuple[str, int], dict[str, str]] = OrderedDict()

    def at(self, version: Version) -> dict[str, str]:
        """All documents at a snapshot; empty where the lake had no documents table yet."""
        table = self._table(version)
        if table is None:
            return {}
        # A gap in the log counts as a change, which at worst reads the documents once more.
        last, _ = self._catalog.log.last_entry(table.number, version.number, table.created)
        key = (table.info.id, last)
        with self._lock:
            found = self._remembered.get(key)
        if found is None:
            rows = perform_locally(self._catalog, table, self._planner.rows(table, version.number))
            found = dict(zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True))
            self._remember(key, found)
        return found

    def written(self, version: Version, documents: dict[str, str]) -> None:
        """Remember the documents that our own commit has put into a snapshot."""
        self._catalog.head()
        if (table := self._table(version)) is not None:
            self._remember((table.info.id, version.number), documents)

    def _remember(self, key: tuple[str, int], documents: dict[str, str]) -> None:
        with self._lock:
            self._remembered[key] = documents
            while len(self._remembered) > _REMEMBERED:
                self._remembered.popitem(last=False)

    def _table(self, version: Version) -> Table | None:
        tables = self._catalog.tables(version).values()
        return next((each for each in tables if (each.info.schema, each.info.name) == (SCHEMA, "documents")), None)
