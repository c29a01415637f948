"""Positions deleted from data files, read from delete files and from the catalog.

A delete file may hold the deletes of several snapshots; where it has a column `_ducklake_internal_snapshot_id`, only
those at or below the snapshot read count. The catalog does not always say that it has one, so the file is asked.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import lru_cache

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anabranch.errors import StorageError
from anabranch.store.catalog import DeleteFile, FileState
from anabranch.store.scan import NONE, LiveFile, Positions, live

_SNAPSHOT = "_ducklake_internal_snapshot_id"
_REMEMBERED_POSITIONS = 20_000_000


class PositionReader:
    """Reads delete files, and remembers them: they never change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._remembered: OrderedDict[str, tuple[Positions, Positions | None]] = OrderedDict()
        self._size = 0

    def live_files(self, state: FileState) -> dict[int, LiveFile]:
        """Every data file of the state with the positions deleted from it."""
        return {key: live(file, self._deleted(state, key), state.at) for key, file in state.files.items()}

    def rows_of(self, each: LiveFile) -> int:
        """How many rows of the file are there."""
        if each.upto is None:
            return each.file.rows - len(each.deleted)
        there = _snapshots_in(each.file.path) <= each.upto
        return int(there.sum()) - int(there[each.deleted].sum())

    def _deleted(self, state: FileState, key: int) -> Positions:
        parts = [self._read(delete_file, state.at) for delete_file in state.delete_files.get(key, ())]
        if inlined := state.inlined_deletes.get(key):
            parts.append(np.asarray(inlined, dtype=np.int64))
        return np.unique(np.concatenate(parts)) if parts else NONE

    def _read(self, delete_file: DeleteFile, at: int) -> Positions:
        positions, snapshots = self._load(delete_file)
        return positions if snapshots is None else positions[snapshots <= at]

    def _load(self, delete_file: DeleteFile) -> tuple[Positions, Positions | None]:
        with self._lock:
            found = self._remembered.get(delete_file.path)
            if found is not None:
                self._remembered.move_to_end(delete_file.path)
                return found
        if delete_file.format != "parquet":
            raise StorageError(
                "DELETE_FORMAT",
                f"a delete file has the format {delete_file.format}",
                detail=f"The file is {delete_file.path}.",
                hint="Have its writer set write_deletion_vectors to false and rewrite the table.",
            )
        found = _load_parquet(delete_file.path)
        with self._lock:
            self._remembered[delete_file.path] = found
            self._size += len(found[0])
            while self._size > _REMEMBERED_POSITIONS and len(self._remembered) > 1:
                _, (oldest, _) = self._remembered.popitem(last=False)
                self._size -= len(oldest)
        return found


@lru_cache(maxsize=64)
def _snapshots_in(path: str) -> Positions:
    """The snapshot of each row of a data file that holds rows of several."""
    column = pq.read_table(path, columns=[_SNAPSHOT]).column(_SNAPSHOT)
    return np.asarray(pc.fill_null(column, 0).to_numpy(), dtype=np.int64)


def _load_parquet(path: str) -> tuple[Positions, Positions | None]:
    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        table = file.read(columns=["pos", _SNAPSHOT] if _SNAPSHOT in names else ["pos"])
    positions = table.column("pos").to_numpy().astype(np.int64, copy=False)
    if _SNAPSHOT not in names:
        return positions, None
    snapshots = pc.fill_null(table.column(_SNAPSHOT), 0)
    return positions, snapshots.to_numpy().astype(np.int64, copy=False)
