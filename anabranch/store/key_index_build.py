"""Lays indexes out beside data files, as a Spark job with one task a file; see key_index.py for what they are."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.store.catalog import Catalog, DataFile, Field
from anabranch.store.key_index import ROW_IDS, FileIndex, laid_out_type, numbers_of
from anabranch.store.layout import ROW_ID_COLUMN
from anabranch.store.project import by_id, by_name, field_type, project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class LayOut:
    """A file, the columns to lay out beside it, and those to find rows by. `names`: by field, where it has no ids."""

    path: str
    folder: Path
    columns: tuple[Field, ...]
    keys: tuple[Field, ...]
    names: dict[int, str] | None

    def bytes(self, rows: int) -> int:
        """About how much room it takes."""
        widths = [_width(field_type(each)) for each in self.columns]
        return rows * (sum(widths) + 12 * len(self.keys))


def lay_out(catalog: Catalog, file: DataFile, columns: tuple[Field, ...], keys: tuple[Field, ...]) -> LayOut:
    """What there is to do for one file."""
    names = None
    if file.mapping is not None:
        names = {key: name for key, (_, name, _) in catalog.name_mapping(file.mapping).items()}
    return LayOut(file.path, catalog.indexes.of(file).folder, columns, keys, names)


def build(spark: SparkSession, work: Sequence[LayOut]) -> None:
    """Lay everything out; a file at a time for each core."""

    def lay_out(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                lay_out_file(work[number])
            yield batch

    with _with_our_python(spark):
        spark.range(0, len(work), 1, len(work)).mapInArrow(lay_out, "id bigint").collect()


@contextmanager
def _with_our_python(spark: SparkSession) -> Iterator[None]:
    """Tasks run in the Python that this package is installed in, not in whichever is first on the PATH."""
    context: Any = spark.sparkContext
    before = context.pythonExec
    context.pythonExec = sys.executable
    try:
        yield
    finally:
        context.pythonExec = before


def lay_out_file(work: LayOut) -> None:
    """One file's columns and keys, one after the other."""
    work.folder.mkdir(parents=True, exist_ok=True)
    index = FileIndex(work.folder)
    with pq.ParquetFile(work.path) as file:
        schema = file.schema_arrow
        if ROW_ID_COLUMN in schema.names:
            _write_values(index.path(ROW_IDS, "values"), _column(file, schema.get_field_index(ROW_ID_COLUMN)))
        for each in dict.fromkeys(work.columns + work.keys):
            values = _values(file, work, each)
            if each in work.keys:
                _write_keys(index, each, values)
            if each in work.columns:
                _write_values(index.path(str(each.id), "values"), values)


def _values(file: pq.ParquetFile, work: LayOut, field: Field) -> pa.Array:
    find = by_id if work.names is None else by_name(work.names)
    place = find(file.schema_arrow, field)
    kind = laid_out_type(field_type(field))
    if place is None:
        return pa.nulls(file.metadata.num_rows, kind)
    column = _column(file, place)
    return column if column.type == kind else project(column, field, find)


def _column(file: pq.ParquetFile, place: int) -> pa.Array:
    column = file.read(columns=[file.schema_arrow.field(place).name]).column(0)
    return pa.concat_arrays(column.cast(laid_out_type(column.type)).chunks or [pa.array([], column.type)])


def _write_values(path: str, values: pa.Array) -> None:
    batch = pa.record_batch([values], names=["values"])
    with _replacing(path) as made, pa.OSFile(made.name, "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def _write_keys(index: FileIndex, field: Field, values: pa.Array) -> None:
    """The positions of rows without a value come last: when they are there, all is."""
    is_null = np.asarray(values.is_null().to_numpy(zero_copy_only=False))
    (places,) = np.nonzero(~is_null)
    numbers = numbers_of(values.drop_null())
    order = np.argsort(numbers, kind="stable")
    small = np.int32 if len(values) < 2**31 else np.int64
    name = str(field.id)
    _write_numbers(index.path(name, "keys"), numbers[order])
    _write_numbers(index.path(name, "places"), places[order].astype(small))
    _write_numbers(index.path(name, "nulls"), np.nonzero(is_null)[0])


def _write_numbers(path: str, numbers: np.ndarray) -> None:
    with _replacing(path) as made:
        np.save(made, numbers)


@contextmanager
def _replacing(path: str) -> Iterator[IO[bytes]]:
    """A file that is there under its name only once it is whole."""
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), delete=False) as made:
        try:
            yield made
        except BaseException:
            os.unlink(made.name)
            raise
    os.replace(made.name, path)


def _width(kind: pa.DataType) -> int:
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return 32
