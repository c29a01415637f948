"""Data files as they were decoded, as long as there is room: they never change, and most are read every tick."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

import pyarrow as pa


class Decoded:
    """Tables by key, those longest not asked for given up first."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._lock = threading.Lock()
        self._tables: OrderedDict[Hashable, pa.Table] = OrderedDict()
        self._bytes = 0

    def get(self, key: Hashable, read: Callable[[], pa.Table]) -> pa.Table:
        """The table under this key; `read` if it is not there."""
        with self._lock:
            if key in self._tables:
                self._tables.move_to_end(key)
                return self._tables[key]
        table = read()
        with self._lock:
            if key not in self._tables and table.nbytes <= self._room:
                self._tables[key] = table
                self._bytes += table.nbytes
            while self._bytes > self._room:
                _, given_up = self._tables.popitem(last=False)
                self._bytes -= given_up.nbytes
        return table
