"""Runs a query once and keeps its rows: as an Arrow table when they are few, as staged files when they are many.

A plan that Spark expects to be small is collected, with a limit that keeps the driver safe from a wrong guess. All
others are written by executors, and only then, if they turn out few, read into the driver.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from anabranch.algebra.relation import Column
from anabranch.spark.types import struct_of
from anabranch.store.arrow import arrow_schema, conform, to_frame
from anabranch.store.protocol import StagedFiles
from anabranch.store.read import read_files
from anabranch.store.stage import stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEW_ROWS = 100_000
_SMALL_BYTES = 16 * 1024 * 1024

Rows: TypeAlias = "pa.Table | StagedFiles"


def materialize(frame: DataFrame, columns: tuple[Column, ...], staging: Path) -> Rows:
    """The rows of the frame, computed once."""
    if _expected_bytes(frame) <= _SMALL_BYTES:
        collected = frame.limit(FEW_ROWS + 1).toArrow()
        if collected.num_rows <= FEW_ROWS:
            return conform(collected, columns)
    staged = stage(frame, columns, staging)
    if staged.rows > FEW_ROWS:
        return staged
    rows = load(staged, columns)
    discard(staged)
    return rows


def load(staged: StagedFiles, columns: tuple[Column, ...]) -> pa.Table:
    """Staged rows, read into the driver."""
    parts = [conform(pq.ParquetFile(path).read(), columns) for path in staged.paths]
    return pa.concat_tables(parts) if parts else arrow_schema(columns).empty_table()


def discard(rows: Rows) -> None:
    """Remove the files of staged rows; what is left behind goes with the next cleaning."""
    for folder in {Path(path).parent for path in rows.paths} if isinstance(rows, StagedFiles) else ():
        shutil.rmtree(folder, ignore_errors=True)


def frame_of(spark: SparkSession, rows: Rows, columns: tuple[Column, ...]) -> DataFrame:
    """The rows as a DataFrame again."""
    schema = struct_of(columns)
    if isinstance(rows, pa.Table):
        return to_frame(spark, rows, schema)
    if not rows.paths:
        return spark.createDataFrame([], schema)
    return read_files(spark, schema, rows.paths)


def _expected_bytes(frame: DataFrame) -> float:
    """Spark's own estimate, where the session shows it; unknown counts as large."""
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        return float("inf")
    try:
        return float(str(plan.queryExecution().optimizedPlan().stats().sizeInBytes()))
    except Py4JError:
        return float("inf")
