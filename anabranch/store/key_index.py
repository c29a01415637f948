"""Key indexes: large data files laid out once more, so that few of their rows are found and read without the others.

    <lake>/index/<data file>/<field>.values    a column, row by row, as it lies in memory
                             <field>.keys      its values as numbers, sorted
                             <field>.places    the position of the row that each of them is of
                             <field>.nulls     the positions of the rows without a value
                             rowids.values     row ids, where the file brings its own

A data file never changes, so what is there is right, and whoever deletes it loses time and nothing else. Several values
may have the same number: of decimals it is the last 64 bits, of text a hash. Who asks compares the values again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass
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
ROW_IDS = "rowids"
_INTEGERS = {"boolean", "tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz"}
Numbers = Positions


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


@dataclass(frozen=True)
class FileIndex:
    """What is laid out beside one data file."""

    folder: Path

    def has(self, columns: Collection[Field], keys: Collection[Field] = ()) -> bool:
        """Whether all these columns are there, and rows are found by these."""
        wanted = [(each, "values") for each in columns] + [(each, "nulls") for each in keys]
        return all(_is_there(self.path(str(each.id), suffix)) for each, suffix in wanted)

    def path(self, name: str, suffix: str) -> str:
        return f"{self.folder}/{name}.{suffix}"

    def values(self, field: Field, positions: Positions) -> pa.Array | None:
        """The column's values in these rows; None if they were laid out under another type."""
        column = _mapped(self.path(str(field.id), "values"))
        kind = field_type(field)
        return column.take(pa.array(positions)).cast(kind) if column.type == laid_out_type(kind) else None

    def row_ids(self, positions: Positions, start: int | None) -> pa.Array:
        """The ids of the rows at these positions, counted from `start` unless the file brings its own."""
        counted = pa.nulls(len(positions), pa.int64()) if start is None else pa.array(positions + start)
        path = self.path(ROW_IDS, "values")
        return pc.coalesce(_mapped(path).take(pa.array(positions)), counted) if _is_there(path) else counted

    def find(self, field: Field, keys: Keys) -> Positions:
        """The positions of the rows whose value may be among the keys."""
        sorted_keys = _loaded(self.path(str(field.id), "keys"))
        starts = np.searchsorted(sorted_keys, keys.numbers, side="left")
        counts = np.searchsorted(sorted_keys, keys.numbers, side="right") - starts
        before = np.cumsum(counts) - counts
        found = np.repeat(starts - before, counts) + np.arange(int(counts.sum()))
        places = _loaded(self.path(str(field.id), "places"))[found].astype(np.int64)
        return np.concatenate([places, _loaded(self.path(str(field.id), "nulls"))]) if keys.with_null else places


class KeyIndexes:
    """The indexes of one lake's data files, and what was missed in them since they were last brought up to date."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._missed: dict[DataFile, tuple[dict[Field, None], dict[Field, None]]] = {}

    def of(self, file: DataFile) -> FileIndex:
        """The index of one file, whether anything is there or not."""
        return FileIndex(self.folder / f"{file.id}-{Path(file.path).stem}")

    def miss(self, file: DataFile, columns: Collection[Field], keys: Collection[Field] = ()) -> None:
        """The file is read although few of its rows are asked for: next time it should have an index."""
        known_columns, known_keys = self._missed.setdefault(file, ({}, {}))
        known_columns.update(dict.fromkeys(columns))
        known_keys.update(dict.fromkeys(each for each in keys if can_be_key(each)))

    def take_missed(self) -> dict[DataFile, tuple[tuple[Field, ...], tuple[Field, ...]]]:
        """By file, the columns that were missed, and those by which rows were asked for; they are forgotten."""
        missed, self._missed = self._missed, {}
        found = {}
        for file, (columns, keys) in missed.items():
            index = self.of(file)
            lacking = tuple(each for each in columns if not index.has([each]))
            lacking_keys = tuple(each for each in keys if not index.has([], [each]))
            if (lacking or lacking_keys) and os.path.isfile(file.path):
                found[file] = (lacking, lacking_keys)
        return found

    def bytes(self) -> int:
        """How much room all indexes take."""
        return sum(each.stat().st_size for each in self.folder.rglob("*") if each.is_file())

    def clean(self, files: Collection[int]) -> None:
        """Remove the indexes of all data files but these."""
        for folder in self.folder.iterdir() if self.folder.is_dir() else ():
            if not folder.name.partition("-")[0].isdigit() or int(folder.name.partition("-")[0]) not in files:
                shutil.rmtree(folder, ignore_errors=True)


def laid_out_type(kind: pa.DataType) -> pa.DataType:
    """The type in which values lie in the file: text of any length."""
    return {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(kind, kind)


@lru_cache(maxsize=4096)
def _seen(path: str) -> bool:
    if not os.path.exists(path):
        raise FileNotFoundError(path)
    return True


def _is_there(path: str) -> bool:
    """Asked of the disk only until it is there."""
    try:
        return _seen(path)
    except FileNotFoundError:
        return False


@lru_cache(maxsize=1024)
def _mapped(path: str) -> pa.Array:
    with pa.memory_map(path) as source:
        return pa.ipc.open_file(source).get_batch(0).column(0)


@lru_cache(maxsize=1024)
def _loaded(path: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    try:
        return np.asarray(np.load(path, mmap_mode="r"))
    except ValueError:  # there is nothing to map where nothing is
        return np.asarray(np.load(path))
