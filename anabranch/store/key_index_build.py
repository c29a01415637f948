"""Lays indexes out beside data files, as a Spark job with one task a file; see key_index.py for what they are."""

from __future__ import annotations

import logging
import os
import sys
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.store.catalog import Catalog, DataFile, Field
from anabranch.store.key_index import (
    ROW_IDS,
    UNFINISHED,
    Missed,
    key_names,
    laid_out_type,
    numbers_of,
    values_name,
)
from anabranch.store.layout import ROW_ID_COLUMN
from anabranch.store.project import Finder, by_id, by_name, field_type, project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_sets_python = threading.Lock()
_TEXT_BYTES = 32


@dataclass(frozen=True)
class LayOut:
    """A file, the columns to lay out beside it, and those to find rows by. `names`: by field, where it has no ids."""

    path: str
    folder: Path
    columns: tuple[Field, ...]
    keys: tuple[Field, ...]
    names: dict[int, str] | None

    @property
    def find(self) -> Finder:
        return by_id if self.names is None else by_name(self.names)

    def bytes(self) -> int:
        """About how much room it takes."""
        with pq.ParquetFile(self.path) as file:
            places = [(each, self.find(file.schema_arrow, each)) for each in self.columns]
            columns = sum(_bytes_of(file, each, place) for each, place in places)
            return columns + int(file.metadata.num_rows) * 12 * len(self.keys)


def lay_out(catalog: Catalog, file: DataFile, columns: tuple[Field, ...], keys: tuple[Field, ...]) -> LayOut:
    """What there is to do for one file."""
    names = None
    if file.mapping is not None:
        names = {key: name for key, (_, name, _) in catalog.name_mapping(file.mapping).items()}
    return LayOut(file.path, catalog.indexes.of(file).folder, columns, keys, names)


def lay_out_missed(spark: SparkSession, catalog: Catalog, missed: Missed) -> None:
    """Make indexes as far as there is room; those that cannot be made are put off."""
    room = catalog.indexes.most_bytes - catalog.indexes.bytes()
    work: dict[DataFile, LayOut] = {}
    for file, (columns, keys) in missed.items():
        each = lay_out(catalog, file, columns, keys)
        size = each.bytes()
        if size <= room:
            room -= size
            work[file] = each
    problems = build(spark, list(work.values())) if work else []
    for file, problem in zip(work, problems, strict=True):
        if problem:
            log.warning("no key index is made of %s for now: %s", file.path, problem)
            catalog.indexes.put_off([file])
    catalog.indexes.put_off([file for file in missed if file not in work])


def build(spark: SparkSession, work: Sequence[LayOut]) -> list[str]:
    """Lay everything out; a file at a time for each core. What went wrong with each, nothing if all went well."""

    def perform(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            problems = [_problem_with(work[number]) for number in batch.column(0).to_pylist()]
            yield pa.record_batch([batch.column(0), pa.array(problems, pa.string())], names=["id", "problem"])

    numbers = spark.range(0, len(work), 1, len(work))
    with _with_our_python(spark):
        done = numbers.mapInArrow(perform, "id bigint, problem string")
    return [problem for _, problem in sorted(done.collect())]


@contextmanager
def _with_our_python(spark: SparkSession) -> Iterator[None]:
    """Tasks planned inside run in the Python that this package is installed in, not in whichever is on the PATH."""
    context: Any = spark.sparkContext
    with _sets_python:
        before = context.pythonExec
        context.pythonExec = sys.executable
        try:
            yield
        finally:
            context.pythonExec = before


def _problem_with(work: LayOut) -> str:
    try:
        lay_out_file(work)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def lay_out_file(work: LayOut) -> None:
    """One file's columns and keys, one after the other."""
    work.folder.mkdir(parents=True, exist_ok=True)
    with pq.ParquetFile(work.path) as file:
        _write(work.folder / ROW_IDS, _row_ids(file))
        for each in dict.fromkeys(work.columns + work.keys):
            values = _values(file, each, work.find)
            if each in work.keys:
                _write_keys(work.folder, each, values)
            if each in work.columns:
                _write(work.folder / values_name(each), values)


def _row_ids(file: pq.ParquetFile) -> pa.Array:
    if ROW_ID_COLUMN not in file.schema_arrow.names:
        return pa.nulls(file.metadata.num_rows)
    return pa.concat_arrays(file.read(columns=[ROW_ID_COLUMN]).column(ROW_ID_COLUMN).chunks)


def _values(file: pq.ParquetFile, field: Field, find: Finder) -> pa.Array:
    """A column in the table's type: files of others may have it in another."""
    place, kind = find(file.schema_arrow, field), laid_out_type(field_type(field))
    if place is None:
        return pa.nulls(file.metadata.num_rows, kind)
    # Asked for the struct `a`, Arrow gives the column `a.b` as well.
    name = file.schema_arrow.field(place).name
    chunks = file.read(columns=[name]).column(name).chunks
    return pa.concat_arrays([each if each.type == kind else project(each, field, find).cast(kind) for each in chunks])


def _write_keys(folder: Path, field: Field, values: pa.Array) -> None:
    is_null = np.asarray(values.is_null().to_numpy(zero_copy_only=False))
    (places,) = np.nonzero(~is_null)
    numbers = numbers_of(values.drop_null())
    order = np.argsort(numbers, kind="stable")
    small = np.int32 if len(values) < 2**31 else np.int64
    written = numbers[order], places[order].astype(small), np.nonzero(is_null)[0]
    for name, each in zip(key_names(field), written, strict=True):
        _write(folder / name, pa.array(each))


def _write(path: Path, values: pa.Array) -> None:
    """Under its name once it is whole."""
    unfinished = f"{path}.{uuid.uuid4().hex}{UNFINISHED}"
    batch = pa.record_batch([values], names=["values"])
    try:
        with pa.OSFile(unfinished, "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        os.replace(unfinished, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(unfinished)
        raise


def _bytes_of(file: pq.ParquetFile, field: Field, place: int | None) -> int:
    """About how much room a column takes."""
    rows = int(file.metadata.num_rows)
    try:
        return rows * max(1, int(field_type(field).bit_width) // 8)
    except ValueError:
        known = 0 if place is None else _texts(file.metadata, file.schema_arrow.field(place).name)
        return max(rows * _TEXT_BYTES, known)


def _texts(metadata: pq.FileMetaData, name: str) -> int:
    """The values of a column. Parquet may have each of them once: then they are taken to be as wide as the extremes."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    return sum(_texts_of(each) for each in chunks if f"{each.path_in_schema}.".startswith(f"{name}."))


def _texts_of(chunk: pq.ColumnChunkMetaData) -> int:
    known = chunk.statistics if chunk.physical_type == "BYTE_ARRAY" else None
    width = (len(known.min_raw) + len(known.max_raw)) // 2 if known is not None and known.has_min_max else 0
    return max(int(chunk.total_uncompressed_size), int(chunk.num_values) * width)
