"""A table inside a transaction: what is committed, minus rows deleted, plus rows inserted, in the columns of now.

Rows that the transaction itself inserted have negative row ids, so that later statements can delete them again. Files
that are replaced stay until the transaction ends: a lazy DataFrame may still read them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from anabranch.algebra.relation import Column
from anabranch.errors import StateError
from anabranch.spark.quote import quoted
from anabranch.spark.types import struct_of, type_sql
from anabranch.store.arrow import arrow_schema, to_frame
from anabranch.store.materialize import Rows, frame_of
from anabranch.store.protocol import ROWID, StagedFiles, TableInfo
from anabranch.store.read import without_rows
from anabranch.store.scan import NONE, Positions
from anabranch.store.stage import stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SEGMENT = 1 << 48
_FILE = 1 << 32


@dataclass(frozen=True, slots=True)
class Place:
    """Where a transaction works: its session, and the folder for its files."""

    spark: SparkSession
    staging: Path


@dataclass(eq=False)
class PendingTable:
    """`stored` names, for each column, the committed column it shows; None for one that the transaction added."""

    place: Place
    info: TableInfo
    stored: tuple[str | None, ...]
    created: bool
    deleted: Positions = field(default_factory=lambda: NONE)
    segments: dict[int, Rows] = field(default_factory=dict)
    replaced: list[Rows] = field(default_factory=list)
    next_segment: int = 0

    @property
    def inserts(self) -> tuple[Rows, ...]:
        return tuple(self.segments.values())

    def insert(self, rows: Rows) -> None:
        """Add rows, in the table's columns."""
        if _count(rows):
            self.segments[self.next_segment] = rows
            self.next_segment += 1

    def delete(self, rowids: Positions) -> None:
        """Remove rows by id, committed or not; each must be there."""
        committed = rowids[rowids >= 0]
        again = len(np.intersect1d(committed, self.deleted))
        if len(np.unique(rowids)) != len(rowids) or again or (self.created and len(committed)):
            raise self._not_there()
        own = -1 - rowids[rowids < 0]
        for number in np.unique(own // _SEGMENT):
            self._remove(int(number), own[own // _SEGMENT == number] % _SEGMENT)
        self.deleted = np.union1d(self.deleted, committed)

    def frame(self, committed: DataFrame | None, rowid: bool) -> DataFrame:
        """The rows as the transaction sees them; `committed` has lost its deleted rows already."""
        frames = [] if committed is None else [self._shown(committed, rowid)]
        frames += [self._segment_frame(number, rows, rowid) for number, rows in self.segments.items()]
        if not frames:
            return self.place.spark.createDataFrame([], struct_of(self._columns(rowid)))
        result = frames[0]
        for other in frames[1:]:
            result = result.unionAll(other)
        return result

    def alter(self, columns: tuple[Column, ...], shown: tuple[str | None, ...]) -> None:
        """Take these columns from now on; `shown` names for each the present column it shows, None for a new one."""
        known = {column.name: source for column, source in zip(self.info.columns, self.stored, strict=True)}
        self.segments = {number: self._altered(rows, columns, shown) for number, rows in self.segments.items()}
        self.stored = tuple(None if name is None else known[name] for name in shown)
        self.info = TableInfo(self.info.id, self.info.schema, self.info.name, columns, (0,) * len(columns))

    def _altered(self, rows: Rows, columns: tuple[Column, ...], shown: tuple[str | None, ...]) -> Rows:
        if isinstance(rows, StagedFiles):
            frame = frame_of(self.place.spark, rows, self.info.columns).selectExpr(*_expressions(columns, shown))
            self.replaced.append(rows)
            return stage(frame, columns, self.place.staging)
        schema = arrow_schema(columns)
        arrays = [
            pa.nulls(rows.num_rows, target.type) if name is None else rows.column(name)
            for name, target in zip(shown, schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=schema)

    def _remove(self, number: int, inside: Positions) -> None:
        """Rows of one segment go; the others move to a new segment, since their positions change."""
        rows = self.segments.get(number)
        if rows is None or (isinstance(rows, pa.Table) and inside.max() >= rows.num_rows):
            raise self._not_there()
        if isinstance(rows, StagedFiles):
            frame = self._segment_frame(number, rows, True)
            left = without_rows(self.place.spark, frame, ROWID, _ids(number, inside)).drop(ROWID)
            kept: Rows = stage(left, self.info.columns, self.place.staging)
        else:
            mask = np.ones(rows.num_rows, dtype=bool)
            mask[inside] = False
            kept = rows.filter(pa.array(mask))
        if _count(kept) != _count(rows) - len(inside):
            raise self._not_there()
        self.replaced.append(self.segments.pop(number))
        self.insert(kept)

    def _shown(self, committed: DataFrame, rowid: bool) -> DataFrame:
        return committed.selectExpr(*_expressions(self.info.columns, self.stored), *([ROWID] if rowid else []))

    def _segment_frame(self, number: int, rows: Rows, rowid: bool) -> DataFrame:
        if not rowid:
            return frame_of(self.place.spark, rows, self.info.columns)
        if isinstance(rows, pa.Table):
            ids = _ids(number, np.arange(rows.num_rows, dtype=np.int64))
            numbered = rows.append_column(ROWID, pa.array(ids, pa.int64()))
            return to_frame(self.place.spark, numbered, struct_of(self._columns(True)))
        file = "CAST(regexp_extract(_metadata.file_name, '-([0-9]+)[.]parquet$', 1) AS BIGINT)"
        position = f"{number}L * {_SEGMENT}L + {file} * {_FILE}L + _metadata.row_index"
        frame = frame_of(self.place.spark, rows, self.info.columns)
        return frame.selectExpr("*", f"-1L - ({position}) AS {ROWID}")

    def _columns(self, rowid: bool) -> tuple[Column, ...]:
        return (*self.info.columns, Column(ROWID, "bigint")) if rowid else self.info.columns

    def _not_there(self) -> StateError:
        return StateError("ROW_NOT_THERE", f"a row of {self.info.name} is to be deleted that is not there")


def _ids(number: int, positions: Positions) -> Positions:
    return -1 - (number * _SEGMENT + positions)


def _count(rows: Rows) -> int:
    return rows.rows if isinstance(rows, StagedFiles) else int(rows.num_rows)


def _expressions(columns: tuple[Column, ...], shown: tuple[str | None, ...]) -> list[str]:
    return [
        f"{quoted(name) if name is not None else f'CAST(NULL AS {type_sql(column.type)})'} AS {quoted(column.name)}"
        for column, name in zip(columns, shown, strict=True)
    ]
