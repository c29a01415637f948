"""Files as they are: every row with its address, whether it is still there or not.

Where few rows of a large table are picked by their keys, Spark need not know which rows were deleted, or came later: it
gives the picked rows with their addresses, and what is there at which snapshot is told here. So one scan of all files
is all that Spark plans, without a join or a union for the deleted positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from anabranch.algebra.relation import FILE, IS_THERE, POSITION, ROWID, STORED_ROWID, WAS_THERE
from anabranch.spark.quote import quoted
from anabranch.store.catalog import Table
from anabranch.store.layout import ROW_ID_COLUMN, SNAPSHOT_COLUMN, Layout, requested
from anabranch.store.read import is_plain_name, name_of, read_files
from anabranch.store.scan import FileScan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, eq=False)
class RawRows:
    """The rows of all files that two snapshots of a table are made of, with FILE, POSITION and STORED_ROWID."""

    spark: SparkSession
    table: Table
    files: dict[Layout, list[FileScan]]

    @property
    def frames(self) -> list[Callable[[], DataFrame]]:
        """How to read them, for each layout of files."""
        return [partial(self._frame, layout, scans) for layout, scans in self.files.items()]

    def _frame(self, layout: Layout, scans: list[FileScan]) -> DataFrame:
        schema, expressions = requested(self.table, layout)
        asked = StructType([each for each in schema.fields if each.name != SNAPSHOT_COLUMN])
        rows = read_files(self.spark, asked, sorted({each.file.path for each in scans}))
        rowid = quoted(ROW_ID_COLUMN) if layout.mapping is None else "CAST(NULL AS BIGINT)"
        address = (f"_metadata.file_name AS {FILE}", f"_metadata.row_index AS {POSITION}", f"{rowid} AS {STORED_ROWID}")
        return rows.selectExpr(*expressions, *address)

    def told(self, rows: pa.Table) -> pa.Table:
        """The picked rows that are in either snapshot, with WAS_THERE, IS_THERE and, if it was asked for, ROWID."""
        files = rows.column(FILE).combine_chunks().dictionary_encode()
        numbers = files.indices.to_numpy(zero_copy_only=False)
        positions = rows.column(POSITION).to_numpy()
        was, now = np.zeros(len(numbers), dtype=bool), np.zeros(len(numbers), dtype=bool)
        starts = np.zeros(len(numbers), dtype=np.int64)
        for number, name in enumerate(files.dictionary.to_pylist()):
            (own,) = np.nonzero(numbers == number)
            scan = self._scan_of[name]
            was[own], now[own] = _there(scan, positions[own])
            starts[own] = scan.file.row_id_start or 0
        told = rows.drop_columns([FILE, POSITION]).append_column(WAS_THERE, pa.array(was))
        told = told.append_column(IS_THERE, pa.array(now))
        if STORED_ROWID in told.column_names:
            rowids = pc.coalesce(told.column(STORED_ROWID), pa.array(starts + positions))
            told = told.drop_columns([STORED_ROWID]).append_column(ROWID, rowids)
        return told.filter(pa.array(was | now))

    @cached_property
    def _scan_of(self) -> dict[str, FileScan]:
        return {name_of(each.file): each for scans in self.files.values() for each in scans}


def raw_rows(
    spark: SparkSession, table: Table, scans: Sequence[FileScan], layout_of: Callable[[FileScan], Layout]
) -> RawRows | None:
    """The files of these scans as they are; None if a file's name does not tell it from the others."""
    names = {name_of(each.file) for each in scans}
    if len(names) < len(scans) or not all(map(is_plain_name, names)):
        return None
    files: dict[Layout, list[FileScan]] = {}
    for each in scans:
        files.setdefault(layout_of(each), []).append(each)
    return RawRows(spark, table, files)


def _there(scan: FileScan, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether the rows at these positions are in the first snapshot, and in the second."""
    first, second = scan.there or (True, True)
    kept = np.ones(len(positions), dtype=bool) if scan.drop is None else ~np.isin(positions, scan.drop)
    gone = np.zeros(len(positions), dtype=bool) if scan.gone is None else np.isin(positions, scan.gone)
    return kept & first, kept & second & ~gone
