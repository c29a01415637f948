"""Key indexes: large data files laid out once more, so that few of their rows are found and read without the others.

    <lake>/index/<data file>/<field>.values    a column, row by row, as it lies in memory
                             <field>.keys      its values as numbers, sorted
                             <field>.places    the position of the row that each of them is of
                             <field>.nulls     the positions of the rows without a value
                             rowids.values     row ids; NULL where the file does not bring its own

A data file never changes, so what is there is right, and whoever deletes it loses time and nothing else: what cannot be
read is not there. What is has the identity of the data file and the type of the column in its path. Several values may
have the same number: of decimals it is the last 64 bits, of text a hash. Who asks compares the values again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import uuid
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.store.catalog import DataFile, Field
from anabranch.store.project import field_type
from anabranch.store.scan import Positions

LARGE = 50_000
"""Files with more rows are worth an index; smaller ones are read as a whole."""
MOST_BYTES = 4_000_000_000
RETRY_SECONDS = 3600.0
"""A file whose index could not be made is left alone so long."""
ROW_IDS = "rowids.values"
UNFINISHED = ".unfinished"
_INTEGERS = {"boolean", "tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz"}
Numbers = Positions
Missed = dict[DataFile, tuple[tuple[Field, ...], tuple[Field, ...]]]
"""By file, the columns that were missed, and those by which rows were asked for."""


@dataclass(frozen=True)
class Keys:
    """Values asked for, as sorted numbers, and whether rows without a value are asked for, too."""

    numbers: Numbers
    with_null: bool

    @staticmethod
    def of(values: pa.Array, with_null: bool) -> Keys:
        """Of an Arrow array in the column's type."""
        return Keys(np.unique(numbers_of(values.drop_null())), with_null and values.null_count > 0)


def can_be_key(field: Field) -> bool:
    """Whether rows are found by the values of such a column."""
    return field.type in _INTEGERS or field.type in ("string", "binary") or field.type.startswith("decimal(")


def numbers_of(values: pa.Array) -> Numbers:
    """A number for each value, none of which is NULL: equal where the values are."""
    kind = values.type
    if pa.types.is_decimal(kind):
        words = np.frombuffer(values.buffers()[1], dtype=np.int64)
        return words[2 * values.offset : 2 * (values.offset + len(values)) : 2]
    if laid_out_type(kind) in (pa.large_string(), pa.large_binary()):
        hashed = pd.util.hash_array(values.to_numpy(zero_copy_only=False), categorize=False)
        return np.asarray(hashed).view(np.int64)
    width = {1: pa.int8(), 32: pa.int32(), 64: pa.int64()}.get(kind.bit_width)
    plain = values if pa.types.is_integer(kind) else values.cast(width)
    return np.asarray(plain.to_numpy(zero_copy_only=False), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class FileIndex:
    """What is laid out beside one data file. What was opened stays open, whatever becomes of the files."""

    folder: Path
    is_read: bool = True
    _open: dict[str, pa.Array] = field(default_factory=dict)

    def has(self, columns: Collection[Field], keys: Collection[Field] = ()) -> bool:
        """Whether all these columns are there, and rows are found by these."""
        wanted = [ROW_IDS, *map(values_name, columns), *(name for each in keys for name in key_names(each))]
        return self.is_read and all(name in self._open or self._opens(name) for name in wanted)

    def values(self, column: Field, positions: Positions) -> pa.Array:
        """The values in these rows of a column that is there."""
        return self._open[values_name(column)].take(pa.array(positions)).cast(field_type(column))

    def row_ids(self, positions: Positions, start: int | None) -> pa.Array:
        """The ids of the rows at these positions, counted from `start` unless the file brings its own."""
        counted = pa.nulls(len(positions), pa.int64()) if start is None else pa.array(positions + start)
        return pc.coalesce(self._open[ROW_IDS].take(pa.array(positions)).cast(pa.int64()), counted)

    def find(self, key: Field, keys: Keys) -> Positions:
        """The positions of the rows whose value may be among the keys."""
        sorted_keys, places, nulls = (self._open[name].to_numpy() for name in key_names(key))
        starts = np.searchsorted(sorted_keys, keys.numbers, side="left")
        counts = np.searchsorted(sorted_keys, keys.numbers, side="right") - starts
        before = np.cumsum(counts) - counts
        found = np.repeat(starts - before, counts) + np.arange(int(counts.sum()))
        positions = places[found].astype(np.int64)
        return np.concatenate([positions, nulls]) if keys.with_null else positions

    def _opens(self, name: str) -> bool:
        try:
            with pa.memory_map(f"{self.folder}/{name}") as source:
                self._open[name] = pa.ipc.open_file(source).get_batch(0).column(0)
        except (OSError, pa.ArrowException):
            return False
        return True


class KeyIndexes:
    """The indexes of one lake's data files, and what was missed in them since they were last brought up to date."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.most_bytes = MOST_BYTES
        self._missed: dict[DataFile, tuple[dict[Field, None], dict[Field, None]]] = {}
        self._put_off: dict[DataFile, float] = {}
        self._of = lru_cache(maxsize=1024)(self._index)

    def limit(self, most_bytes: int) -> None:
        """How much room they may take; at 0 those that are there are not read either."""
        self.most_bytes = most_bytes
        self._put_off = {}
        self.close()

    def of(self, file: DataFile) -> FileIndex:
        """The index of one file, whether anything is there or not."""
        return self._of(file)

    def close(self) -> None:
        """Let go of the files that are open."""
        self._of.cache_clear()

    def miss(self, file: DataFile, columns: Collection[Field], keys: Collection[Field] = ()) -> None:
        """The file is read although few of its rows are asked for: next time it should have an index."""
        known_columns, known_keys = self._missed.setdefault(file, ({}, {}))
        known_columns.update(dict.fromkeys(columns))
        known_keys.update(dict.fromkeys(each for each in keys if can_be_key(each)))

    def take_missed(self) -> Missed:
        """What was missed and can be made; it is forgotten."""
        missed, self._missed = self._missed, {}
        found = {}
        for file, (columns, keys) in list(missed.items()):
            index = self.of(file)
            lacking = tuple(each for each in list(columns) if not index.has([each]))
            lacking_keys = tuple(each for each in list(keys) if not index.has([], [each]))
            is_due = self._put_off.get(file, 0.0) <= time.monotonic()
            if (lacking or lacking_keys) and is_due and os.path.isfile(file.path):
                found[file] = (lacking, lacking_keys)
        return found

    def put_off(self, files: Collection[DataFile]) -> None:
        """What is missed of these is not made for a while: it cannot be."""
        self._put_off.update(dict.fromkeys(files, time.monotonic() + RETRY_SECONDS))

    def bytes(self) -> int:
        """How much room all indexes take."""
        return sum(each.stat().st_size for each in self.folder.rglob("*") if each.is_file())

    def clean(self, identities: Callable[[], Collection[str]], grace_seconds: float) -> None:
        """Remove the indexes of all data files but these, which are asked for last, and what was left unfinished."""
        folders = list(self.folder.iterdir()) if self.folder.is_dir() else []
        kept = identities()
        for folder in folders:
            if folder.name not in kept:
                _remove(folder)
        for each in self.folder.glob(f"*/*{UNFINISHED}"):
            with suppress(FileNotFoundError):
                if each.stat().st_mtime < time.time() - grace_seconds:
                    each.unlink()
        self._put_off = {}
        self.close()

    def _index(self, file: DataFile) -> FileIndex:
        return FileIndex(self.folder / file.identity, self.most_bytes > 0)


def laid_out_type(kind: pa.DataType) -> pa.DataType:
    """The type in which values lie in the file: text of any length."""
    return {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(kind, kind)


@lru_cache(maxsize=4096)
def values_name(column: Field) -> str:
    """What the file of a column's values is called."""
    return f"{_typed(column)}.values"


@lru_cache(maxsize=4096)
def key_names(key: Field) -> tuple[str, str, str]:
    """What the files are called in which rows are found: of keys, of places, of nulls."""
    return f"{_typed(key)}.keys", f"{_typed(key)}.places", f"{_typed(key)}.nulls"


def _typed(column: Field) -> str:
    """The id with the type, which may be altered, and of a nested column its parts, which come and go."""
    parts = hashlib.blake2b(repr((column.type, column.children)).encode(), digest_size=12).hexdigest()
    return f"{column.id}.{parts if column.children else column.type}"


def _remove(folder: Path) -> None:
    """All at once, so that nobody finds a part of it."""
    doomed = folder.with_name(f"{uuid.uuid4().hex}{UNFINISHED}")
    with suppress(OSError):
        folder.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)
