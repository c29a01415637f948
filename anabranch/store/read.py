"""Performs a plan of file scans on Spark: one DataFrame, few branches, no job before it is used.

Scans that need the same treatment become one branch, however many files they cover. Within a branch a row is addressed
by its file and its position; deleted positions are a literal list when they are few and a broadcast join otherwise.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from anabranch.algebra.relation import IS_THERE, WAS_THERE
from anabranch.errors import StorageError
from anabranch.spark.quote import literal, quoted
from anabranch.store.catalog import DataFile, Table
from anabranch.store.layout import ROW_ID_COLUMN, SNAPSHOT_COLUMN, Layout, requested
from anabranch.store.protocol import ROWID, WEIGHT
from anabranch.store.scan import FileScan, Positions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LITERAL_POSITIONS = 500
CASE_FILES = 32
BROADCAST_POSITIONS = 2_000_000
_PATTERN = re.compile(r"([][{}*?\\])")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]+")
_FILE = "__ab_file"
_POSITION = "__ab_position"
_ADDRESS = "__ab_address"
_GONE = "__ab_gone"
_NUMBER = "__ab_number"
_START = "__ab_start"
_POSITION_BITS = 31


@dataclass(frozen=True, slots=True)
class Treatment:
    """What scans must share to be one branch."""

    layout: Layout
    weight: int
    after: int | None
    upto: int | None
    keeps: bool
    drops: bool
    there: tuple[bool, bool] | None
    loses: bool
    alone: int | None


def configure(spark: SparkSession) -> None:
    """Session settings that reading and writing the lake relies on."""
    spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
    spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", "100000")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")


def perform(
    spark: SparkSession,
    table: Table,
    scans: list[FileScan],
    layout_of: Callable[[DataFile, frozenset[int]], Layout],
    rowid: bool = False,
    weight: bool = False,
) -> list[DataFrame]:
    """One DataFrame for each kind of treatment; columns, then ROWID and WEIGHT where asked for."""
    shared = Counter(name_of(each.file) for each in scans)
    branches: dict[Treatment, list[FileScan]] = defaultdict(list)
    for each in scans:
        addressed = rowid or each.keep is not None or each.drop is not None or each.gone is not None
        distinct = is_plain_name(name_of(each.file)) and _is_distinct(each, scans, shared)
        treatment = Treatment(
            layout_of(each.file, each.hidden),
            each.weight,
            each.after,
            each.upto,
            each.keep is not None,
            each.drop is not None,
            each.there,
            each.gone is not None,
            None if distinct or not addressed else each.file.id,
        )
        branches[treatment].append(each)
    frames = []
    for treatment, members in branches.items():
        frames += _without_collisions(spark, table, treatment, members, rowid, weight)
    return frames


def _is_distinct(scan: FileScan, scans: list[FileScan], shared: Counter[str]) -> bool:
    """Whether the file's name tells it from all other files of the plan; one file may be scanned twice."""
    name = name_of(scan.file)
    return shared[name] == 1 or all(each.file.id == scan.file.id for each in scans if name_of(each.file) == name)


def _without_collisions(
    spark: SparkSession, table: Table, treatment: Treatment, scans: list[FileScan], rowid: bool, weight: bool
) -> list[DataFrame]:
    """Split off files that the numbering by checksum cannot tell apart: almost never needed, never wrong."""
    rounds: list[dict[int, FileScan]] = []
    for each in scans:
        number = _checksum(each.file)
        place = next((one for one in rounds if number not in one), None)
        if place is None:
            place = {}
            rounds.append(place)
        place[number] = each
    return [_branch(spark, table, treatment, list(one.values()), rowid, weight) for one in rounds]


def _branch(
    spark: SparkSession, table: Table, treatment: Treatment, scans: list[FileScan], rowid: bool, weight: bool
) -> DataFrame:
    schema, expressions = requested(table, treatment.layout)
    by_id = treatment.layout.mapping is None
    wanted = set()
    if rowid and by_id:
        wanted.add(ROW_ID_COLUMN)
    if by_id and (treatment.after is not None or treatment.upto is not None):
        wanted.add(SNAPSHOT_COLUMN)
    internal = {ROW_ID_COLUMN, SNAPSHOT_COLUMN}
    asked = StructType([each for each in schema.fields if each.name not in internal or each.name in wanted])
    frame = read_files(spark, asked, sorted({each.file.path for each in scans}))
    frame = _between(frame, treatment)
    if rowid or treatment.keeps or treatment.drops or treatment.loses:
        frame = frame.selectExpr("*", f"_metadata.row_index AS {_POSITION}", f"_metadata.file_name AS {_FILE}")
    files = [each.file for each in scans]
    if treatment.keeps:
        frame = _restrict(spark, frame, {each.file: each.keep for each in scans if each.keep is not None}, "left_semi")
    if treatment.drops:
        frame = _restrict(spark, frame, {each.file: each.drop for each in scans if each.drop is not None}, "left_anti")
    outputs = list(expressions)
    if treatment.there is not None:
        was, is_there = (str(each).lower() for each in treatment.there)
        if treatment.loses:
            frame, is_there = _still_there(
                spark, frame, {each.file: each.gone for each in scans if each.gone is not None}
            )
        outputs += [f"{was} AS {quoted(WAS_THERE)}", f"{is_there} AS {quoted(IS_THERE)}"]
    if rowid:
        frame, expression = _row_id(spark, frame, files, ROW_ID_COLUMN in wanted)
        outputs.append(f"{expression} AS {quoted(ROWID)}")
    if weight:
        outputs.append(f"{treatment.weight}L AS {quoted(WEIGHT)}")
    return frame.selectExpr(*outputs)


def read_files(spark: SparkSession, schema: StructType, paths: Sequence[str]) -> DataFrame:
    """The files with a schema that is given, not inferred; a path is a path and never a pattern."""
    return spark.read.schema(schema).parquet(*(_PATTERN.sub(r"\\\1", path) for path in paths))


def without_rows(spark: SparkSession, frame: DataFrame, column: str, gone: Positions) -> DataFrame:
    """The rows whose id is not among these."""
    if len(gone) <= LITERAL_POSITIONS:
        listed = ", ".join(f"{number}L" for number in gone)
        return frame.where(f"{quoted(column)} NOT IN ({listed})")
    rows = spark.createDataFrame(pa.table({column: pa.array(gone, pa.int64())}))
    return frame.join(rows.hint("broadcast") if len(gone) <= BROADCAST_POSITIONS else rows, column, "left_anti")


def only_rows(spark: SparkSession, frame: DataFrame, column: str, wanted: Positions) -> DataFrame:
    """The rows whose id is among these."""
    if len(wanted) <= LITERAL_POSITIONS:
        listed = ", ".join(f"{number}L" for number in wanted)
        return frame.where(f"{quoted(column)} IN ({listed})")
    rows = spark.createDataFrame(pa.table({column: pa.array(wanted, pa.int64())}))
    return frame.join(rows.hint("broadcast") if len(wanted) <= BROADCAST_POSITIONS else rows, column, "left_semi")


def _between(frame: DataFrame, treatment: Treatment) -> DataFrame:
    if treatment.after is not None:
        frame = frame.where(f"{quoted(SNAPSHOT_COLUMN)} > {treatment.after}")
    if treatment.upto is not None:
        frame = frame.where(f"coalesce({quoted(SNAPSHOT_COLUMN)}, 0) <= {treatment.upto}")
    return frame


def _restrict(spark: SparkSession, frame: DataFrame, wanted: dict[DataFile, Positions], how: str) -> DataFrame:
    """Only rows at these positions (left_semi), or only the others (left_anti)."""
    if _are_few(wanted):
        condition = _listed(wanted)
        return frame.where(condition if how == "left_semi" else f"NOT {condition}")
    listed = _addresses(spark, wanted)
    if sum(len(each) for each in wanted.values()) <= BROADCAST_POSITIONS:
        listed = listed.hint("broadcast")
    return _addressed(frame, list(wanted)).join(listed, _ADDRESS, how).drop(_ADDRESS)


def _still_there(spark: SparkSession, frame: DataFrame, gone: dict[DataFile, Positions]) -> tuple[DataFrame, str]:
    """The frame, and the condition that a row is at none of these positions."""
    if _are_few(gone):
        return frame, f"NOT {_listed(gone)}"
    listed = _addresses(spark, gone).selectExpr(_ADDRESS, f"true AS {_GONE}")
    return _addressed(frame, list(gone)).join(listed.hint("broadcast"), _ADDRESS, "left"), f"{_GONE} IS NULL"


def _are_few(positions: dict[DataFile, Positions]) -> bool:
    return sum(len(each) for each in positions.values()) <= LITERAL_POSITIONS and len(positions) <= CASE_FILES


def _addresses(spark: SparkSession, positions: dict[DataFile, Positions]) -> DataFrame:
    """Each position as one number that tells the file, too."""
    files = list(positions)
    _check_sizes(files)
    number = {file: _number(file, files) for file in files}
    addresses = np.concatenate([(np.int64(number[file]) << _POSITION_BITS) | positions[file] for file in files])
    return spark.createDataFrame(pa.table({_ADDRESS: pa.array(addresses, pa.int64())}))


def _addressed(frame: DataFrame, files: list[DataFile]) -> DataFrame:
    return frame.selectExpr("*", f"shiftleft({_number_sql(files)}, {_POSITION_BITS}) | {_POSITION} AS {_ADDRESS}")


def _listed(wanted: dict[DataFile, Positions]) -> str:
    """Whether the row is at one of the positions, as a condition that is never NULL."""
    conditions = [
        (file, f"{_POSITION} IN ({', '.join(f'{position}L' for position in positions)})")
        for file, positions in wanted.items()
    ]
    if len(conditions) == 1:
        return f"({conditions[0][1]})"
    cases = " ".join(f"WHEN {literal(name_of(file))} THEN {condition}" for file, condition in conditions)
    return f"(CASE {_FILE} {cases} ELSE false END)"


def _row_id(spark: SparkSession, frame: DataFrame, files: list[DataFile], stored: bool) -> tuple[DataFrame, str]:
    """rowid = coalesce(the row id stored in the file, the file's first row id + position)."""
    starts = {file: file.row_id_start for file in files if file.row_id_start is not None}
    if len(starts) <= CASE_FILES or len(files) == 1:
        first = _start_sql(starts, len(files))
        counted = f"({first} + {_POSITION})"
    else:
        rows = pa.table(
            {
                _NUMBER: pa.array([_number(file, files) for file in starts], pa.int64()),
                _START: pa.array(list(starts.values()), pa.int64()),
            }
        )
        numbered = frame.selectExpr("*", f"{_number_sql(files)} AS {_NUMBER}")
        frame = numbered.join(spark.createDataFrame(rows).hint("broadcast"), _NUMBER, "left")
        counted = f"({_START} + {_POSITION})"
    return frame, f"coalesce({quoted(ROW_ID_COLUMN)}, {counted})" if stored else counted


def _start_sql(starts: dict[DataFile, int], files: int) -> str:
    if not starts:
        return "CAST(NULL AS BIGINT)"
    if files == 1:
        return f"{next(iter(starts.values()))}L"
    cases = " ".join(f"WHEN {literal(name_of(file))} THEN {start}L" for file, start in starts.items())
    return f"(CASE {_FILE} {cases} END)"


def _number(file: DataFile, files: list[DataFile]) -> int:
    if len(files) == 1:
        return 0
    return files.index(file) if len(files) <= CASE_FILES else _checksum(file)


def _number_sql(files: list[DataFile]) -> str:
    """A number for the row's file, the same that `_number` gives."""
    if len(files) == 1:
        return "0L"
    if len(files) <= CASE_FILES:
        cases = " ".join(f"WHEN {literal(name_of(file))} THEN {number}L" for number, file in enumerate(files))
        return f"(CASE {_FILE} {cases} END)"
    return f"crc32(CAST({_FILE} AS BINARY))"


def _check_sizes(files: list[DataFile]) -> None:
    """A position must fit beside the number of its file in one 64-bit address."""
    for file in files:
        if file.rows >= 1 << _POSITION_BITS:
            raise StorageError(
                "FILE_TOO_LARGE", f"{file.path} has {file.rows} rows", hint="Rewrite it as several files."
            )


def _checksum(file: DataFile) -> int:
    return zlib.crc32(name_of(file).encode())


def name_of(file: DataFile) -> str:
    """What Spark calls the file, without its folder."""
    return file.path.rpartition("/")[2]


def is_plain_name(name: str) -> bool:
    """Whether Spark gives the file's name as it is; others it escapes."""
    return _PLAIN_NAME.fullmatch(name) is not None
