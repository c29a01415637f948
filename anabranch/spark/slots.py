"""Small Parquet files that a prepared query reads, and that get other rows before each run.

    PAR1  pages of every column  (a hole)  footer  length of the footer  PAR1

Spark remembers how long a file was when the query was planned, so all have one size: the hole takes up what is left.
Offsets in the footer count from the start, where nothing moves. Columns are called c0, c1 ..., because Spark may look
names up without regard to case; the query's own names are given to them in the plan.

Only types that come back bit by bit are written, and no statistics: Parquet's know no -0.0 and no NaN.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StringType, StructField, StructType

from anabranch.algebra.relation import Column
from anabranch.spark.session import SLOT_BYTES
from anabranch.spark.types import parse_type, struct_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LARGEST = 8 * 1024 * 1024
WORTH_CLEARING = 256 * 1024
MOST_ROWS = 50_000
_PLAIN = frozenset(("tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "date", "binary"))
_TIMES = {"timestamp": True, "timestamp_ntz": False}
"""Whether the type is a point in time, which Arrow marks by a time zone."""
_TRAILER = 8


class SlotFullError(Exception):
    """Rows take more room as a file than they do in memory, and more than there is."""


def fits(columns: tuple[Column, ...], table: pa.Table) -> bool:
    """Whether a slot can take the rows."""
    is_small = table.num_rows <= MOST_ROWS and table.nbytes <= LARGEST
    return is_small and bool(columns) and all(_is_kept(each.type, table.column(each.name).type) for each in columns)


class Slot:
    """The file and what the query calls its columns."""

    def __init__(self, path: Path, columns: tuple[Column, ...]) -> None:
        self._path = path
        self._columns = columns
        self._bytes = 0
        self._has_rows = True
        self.clear()

    def frame(self, spark: SparkSession) -> DataFrame:
        """The rows that are in the file whenever the frame is run, in one partition."""
        fields = [StructField(f"c{number}", parse_type(each.type)) for number, each in enumerate(self._columns)]
        reader = spark.read.schema(StructType(fields)).option("datetimeRebaseMode", "CORRECTED")
        return reader.parquet(self._path.as_uri()).toDF(*(each.name for each in self._columns)).coalesce(1)

    def fill(self, table: pa.Table) -> None:
        """Let the file have these rows."""
        schema = _file_schema(self._columns)
        self._put(table.select([each.name for each in self._columns]).rename_columns(schema.names).cast(schema))

    def clear(self) -> None:
        """Let the file have no rows."""
        if self._has_rows or not self._path.exists():
            self._put(_file_schema(self._columns).empty_table())

    def clear_if_large(self) -> None:
        """Rows that nobody reads any more need not take much room until the next run."""
        if self._has_rows and self._bytes > WORTH_CLEARING:
            self.clear()

    def _put(self, rows: pa.Table) -> None:
        sink = pa.BufferOutputStream()
        pq.write_table(
            rows,
            sink,
            row_group_size=max(1, rows.num_rows),
            compression="none",
            use_dictionary=False,
            write_statistics=False,
            store_schema=False,
        )
        data = memoryview(sink.getvalue())
        footer = int.from_bytes(data[-_TRAILER:-4], "little") + _TRAILER
        if len(data) > SLOT_BYTES:
            raise SlotFullError
        self._write(data[:-footer], data[-footer:])
        self._bytes, self._has_rows = len(data), rows.num_rows > 0

    def remove(self) -> None:
        """Delete the file."""
        self._path.unlink(missing_ok=True)

    def _write(self, start: bytes | memoryview, end: bytes | memoryview) -> None:
        """The file may be gone: some systems clear what is temporary."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("wb") as file:
            file.write(start)
            file.truncate(SLOT_BYTES)
            file.seek(-len(end), os.SEEK_END)
            file.write(end)


@lru_cache(maxsize=1_000)
def _file_schema(columns: tuple[Column, ...]) -> pa.Schema:
    schema = to_arrow_schema(struct_of(columns), timezone="UTC")
    return pa.schema([pa.field(f"c{number}", each.type) for number, each in enumerate(schema)])


@lru_cache(maxsize=10_000)
def _is_kept(type_text: str, given: pa.DataType) -> bool:
    """Whether the values come back bit by bit. Times inside of others are left alone."""
    if type_text in _TIMES:
        return pa.types.is_timestamp(given) and given.unit == "us" and (given.tz is not None) is _TIMES[type_text]
    return _has_same_bits(parse_type(type_text))


def _has_same_bits(data_type: DataType) -> bool:
    match data_type:
        case ArrayType():
            return _has_same_bits(data_type.elementType)
        case MapType():
            return _has_same_bits(data_type.keyType) and _has_same_bits(data_type.valueType)
        case StructType():
            differ = len({name.lower() for name in data_type.names}) == len(data_type.names) > 0
            return differ and all(_has_same_bits(each.dataType) for each in data_type.fields)
        case DecimalType():
            return True
        case StringType():
            return data_type.simpleString() == "string"
    return data_type.simpleString() in _PLAIN
