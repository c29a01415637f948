"""Running relations: what goes in comes out as it was, and deleted rows are found by byte identity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType

from anabranch.algebra.expression import column, equals, expression
from anabranch.algebra.relation import (
    Aggregate,
    Change,
    Column,
    Consolidate,
    Empty,
    Filter,
    Join,
    JoinKind,
    Negate,
    Output,
    Project,
    Relation,
    Scan,
    Stored,
    Support,
    UnionAll,
    Values,
)
from anabranch.errors import RefreshError
from anabranch.fuse.steps import Piece
from anabranch.spark.jobs import count_jobs, count_scans
from anabranch.spark.located import Located
from anabranch.spark.run import Runner
from anabranch.store.protocol import ROWID, WEIGHT, StagedFiles
from tests.plans import aggregation

TYPED_VALUES = {
    "boolean": ("TRUE", "FALSE"),
    "tinyint": ("-128Y", "127Y"),
    "smallint": ("-32768S", "1S"),
    "int": ("-2147483648", "0"),
    "bigint": ("-9223372036854775808L", "9223372036854775807L"),
    "float": ("0.0F", "-0.0F", "float('NaN')", "float('1e-45')"),
    "double": ("0.0D", "-0.0D", "double('NaN')", "double('-Infinity')", "4.9e-324D"),
    "decimal(38,18)": ("12345678901234567890.123456789012345678BD", "-0.000000000000000001BD"),
    "decimal(5,0)": ("99999BD",),
    "string": ("''", "'a'", "'A'", "'\\u00e9\\U0001F600'", "'with `quotes'"),
    "binary": ("X''", "X'00FF'"),
    "date": ("DATE'0001-01-01'", "DATE'9999-12-31'", "DATE'1900-01-01'"),
    "timestamp": (
        "TIMESTAMP'0001-01-01 00:00:00.000001Z'",
        "TIMESTAMP'2024-10-27 00:30:00Z'",
        "TIMESTAMP'2024-10-27 01:30:00Z'",
        "TIMESTAMP'9999-12-31 23:59:59.999999Z'",
    ),
    "timestamp_ntz": ("TIMESTAMP_NTZ'2024-03-31 02:30:00'", "TIMESTAMP_NTZ'0001-01-01 00:00:00'"),
    "array<int>": ("array()", "array(1, NULL)"),
    "array<double>": ("array(0.0D)", "array(-0.0D)"),
    "map<string,int>": ("map()", "map('a', 1, 'b', NULL)"),
    "map<string,double>": ("map('a', 0.0D)", "map('a', -0.0D)"),
    "struct<a:int,b:string>": ("named_struct('a', 1, 'b', 'x')", "named_struct('a', NULL, 'b', NULL)"),
    "struct<t:timestamp,n:timestamp_ntz>": (
        "named_struct('t', TIMESTAMP'2024-10-27 00:30:00Z', 'n', TIMESTAMP_NTZ'2024-10-27 02:30:00')",
    ),
    "array<map<string,struct<x:array<float>>>>": ("array(map('k', named_struct('x', array(-0.0F, NULL))), NULL)",),
}


@pytest.fixture(params=["UTC", "Europe/Berlin"])
def runner(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[Runner]:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", request.param)
    with Runner(session, "a lake's name") as made:
        yield made


@pytest.fixture
def berlin(spark: SparkSession) -> Iterator[Runner]:
    with Runner(spark.newSession()) as made:
        yield made


ALL_TYPES = tuple(Column(f"c {number}", data_type) for number, data_type in enumerate(TYPED_VALUES))


def all_values() -> Values:
    """A row of NULLs, then rows with each value of each type."""
    height = max(map(len, TYPED_VALUES.values()))
    rows = [tuple(expression(f"CAST(NULL AS {each.type})", each.type) for each in ALL_TYPES)]
    for number in range(height):
        rows.append(
            tuple(
                expression(f"CAST({values[number % len(values)].replace('{', '{{')} AS {data_type})", data_type)
                for data_type, values in TYPED_VALUES.items()
            )
        )
    return Values(tuple(rows), ALL_TYPES)


def texts(runner: Runner, relation: Relation) -> list[str]:
    """The rows as text that tells all values apart."""
    frame = runner.frame(relation)
    shown = [f"CAST(`{each.name}` AS STRING)" if each.type != "binary" else f"hex(`{each.name}`)" for each in ALL_TYPES]
    return sorted(row[0] for row in frame.selectExpr(f"to_json(struct({', '.join(shown)}))").collect())


def test_every_type_stays_as_it_is_when_collected_and_bound(runner: Runner) -> None:
    values = all_values()
    before = texts(runner, values)
    types = [field.dataType.simpleString() for field in runner.frame(values).schema.fields]
    table = runner.collect(values)
    assert table is not None
    assert table.num_rows == len(values.rows)
    runner.bind_table(values, table)
    assert texts(runner, values) == before
    assert [field.dataType.simpleString() for field in runner.frame(values).schema.fields] == types


def test_every_type_is_located(runner: Runner) -> None:
    values = all_values()
    stored_leaf = Scan("stored", ALL_TYPES)
    runner.bind(stored_leaf, runner.frame(values))
    table = runner.collect(values)
    assert table is not None
    height = table.num_rows
    rowids = pa.array(range(100, 100 + height), pa.int64())
    stored = runner.spark.createDataFrame(table.append_column(ROWID, rowids), _schema(runner, values))
    for rows in (stored, table.append_column(ROWID, rowids)):
        moved = runner.located(Negate(values), rows)
        assert sorted(moved.deleted.to_pylist()) == rowids.to_pylist()
        assert moved.inserts == ()
        assert moved.is_empty is False


def _schema(runner: Runner, values: Values) -> Any:
    return runner.frame(values).schema.add(ROWID, LongType())


def test_large_results_stay_with_the_executors(berlin: Runner) -> None:
    berlin.limit = 3
    values = all_values()
    before = texts(berlin, values)
    assert berlin.collect(values) is None
    berlin.materialise_as([Piece(values, values.names)], values, weighted=False)
    assert berlin.is_bound(values)
    assert texts(berlin, values) == before


T = (Column("k", "bigint"), Column("v", "double"))


def zset(*rows: tuple[Any, ...]) -> pa.Table:
    names = ["k", "v", WEIGHT]
    types = [pa.int64(), pa.float64(), pa.int64()]
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.table([pa.array(values, each) for values, each in zip(columns, types, strict=True)], names)


def stored_frame(runner: Runner, *rows: tuple[Any, ...]) -> Any:
    return runner.spark.createDataFrame(list(rows), f"k bigint, v double, {ROWID} bigint")


def located(runner: Runner, change: pa.Table, *stored: tuple[Any, ...]) -> tuple[Counter[Any], list[int]]:
    leaf = Change("t", T)
    frame = runner.spark.createDataFrame(change, f"k bigint, v double, {WEIGHT} bigint")
    runner.bind(leaf, frame)
    moved = runner.located(leaf, stored_frame(runner, *stored))
    inserts = Counter(tuple(row.values()) for each in moved.inserts for row in each.to_pylist())
    return inserts, sorted(moved.deleted.to_pylist())


def test_one_copy_is_deleted_and_several_are_inserted(berlin: Runner) -> None:
    change = zset((1, 1.0, -1), (2, None, 3), (None, None, -2))
    stored = [(1, 1.0, 10), (1, 1.0, 11), (None, None, 12), (None, None, 13), (None, None, 14), (3, 1.0, 15)]
    inserts, deletes = located(berlin, change, *stored)
    assert inserts == {(2, None): 3}
    assert deletes == [10, 12, 13]


def test_terms_that_cancel_delete_nothing(berlin: Runner) -> None:
    inserts, deletes = located(berlin, zset((1, 1.0, -1), (1, 1.0, 1), (2, 2.0, 1), (2, 2.0, 1)), (1, 1.0, 10))
    assert inserts == {(2, 2.0): 2}
    assert deletes == []


def test_zeros_of_either_sign_are_different_rows(berlin: Runner) -> None:
    stored = [(1, 0.0, 10), (1, -0.0, 11), (2, float("nan"), 12)]
    assert located(berlin, zset((1, -0.0, -1), (2, float("nan"), -1)), *stored)[1] == [11, 12]
    assert located(berlin, zset((1, 0.0, -1)), *stored)[1] == [10]


@pytest.mark.parametrize("change", [zset((9, 9.0, -1)), zset((1, 1.0, -2)), zset((1, -0.0, -1))])
def test_a_row_that_is_not_there_fails(berlin: Runner, change: pa.Table) -> None:
    with pytest.raises(RefreshError, match="ROW_NOT_THERE"):
        located(berlin, change, (1, 1.0, 10), (1, 0.0, 11))


def test_a_change_is_located_by_two_jobs_and_a_broadcast(berlin: Runner, tmp_path: Any) -> None:
    folder = str(tmp_path / "stored")
    stored_frame(berlin, *((number, 1.0, number) for number in range(100))).repartition(1).write.parquet(folder)
    stored = berlin.spark.read.schema(f"k bigint, v double, {ROWID} bigint").parquet(folder)
    leaf = Change("t", T)
    berlin.bind(leaf, berlin.spark.createDataFrame(zset((1, 1.0, -1), (1, 2.0, 1))))
    with count_jobs(berlin.spark) as count:
        berlin.located(leaf, stored)
    assert count.jobs == 3


def test_a_materialised_change_without_deletes_needs_no_job(berlin: Runner) -> None:
    leaf = Change("t", T)
    berlin.bind_table(leaf, zset((1, 1.0, 2)))
    with count_jobs(berlin.spark) as count:
        moved = berlin.located(leaf, stored_frame(berlin, (1, 1.0, 10)))
    assert count.jobs == 0
    assert moved.inserted == 2
    assert [tuple(row) for row in moved.change().collect()] == [(1, 1.0, 2)]


def keyed_recompute() -> tuple[Relation, Stored, Scan, Change]:
    """new - old: the rows of the source at the changed keys, minus the stored ones at those keys."""
    source, change, stored = Scan("s", T), Change("s", T), Stored("p", T)
    renamed = Project(change, (Output("key", column("k", "bigint")),))
    keys = Support(renamed)
    on = (equals(column("k", "bigint"), column("key", "bigint"), null_safe=True),)
    new = Join(source, keys, JoinKind.SEMI, on)
    old = Join(stored, keys, JoinKind.SEMI, on)
    return Consolidate(UnionAll((new, Negate(old)))), stored, source, change


@pytest.mark.parametrize("part", ["", "p"])
def test_rowids_are_carried_along_or_looked_up(berlin: Runner, part: str, tmp_path: Any) -> None:
    relation, stored_leaf, source, change = keyed_recompute()
    rows = [(1, 1.0, 10), (1, 1.0, 11), (1, -0.0, 12), (2, 5.0, 13), (None, 1.0, 14)]
    folder = str(tmp_path / "stored")
    stored_frame(berlin, *rows).repartition(1).write.parquet(folder)
    stored = berlin.spark.read.schema(f"k bigint, v double, {ROWID} bigint").parquet(folder)
    berlin.bind(stored_leaf, stored)
    berlin.bind(source, berlin.spark.createDataFrame([(1, 1.0), (1, 0.0), (2, 5.0), (None, 2.0)], "k bigint, v double"))
    berlin.bind(
        change, berlin.spark.createDataFrame([(1, 0.0, 1), (None, 1.0, -1)], f"k bigint, v double, {WEIGHT} bigint")
    )
    if part:
        carried = berlin.carried(relation, stored, part)
        assert carried is not None
        assert count_scans(berlin.spark.sql(carried.sql)) == 1
    with count_jobs(berlin.spark) as count:
        moved = berlin.located(relation, stored, part=part)
    assert count.jobs == (2 if part else 4)
    assert sorted(moved.deleted.to_pylist()) in ([10, 12, 14], [11, 12, 14])
    assert Counter(str(row) for row in moved.inserts[0].to_pylist()) == {
        "{'k': 1, 'v': 0.0}": 1,
        "{'k': None, 'v': 2.0}": 1,
    }
    after = Counter(str(tuple(row)) for row in moved.after(stored).collect())
    assert after == {"(1, 1.0)": 1, "(1, 0.0)": 1, "(2, 5.0)": 1, "(None, 2.0)": 1}


def test_rowids_are_not_carried_through_what_changes_rows(berlin: Runner) -> None:
    stored = Stored("p", T)
    doubled = Project(
        stored, (Output("k", column("k", "bigint")), Output("v", expression("{} * 2", "double", column("v", "double"))))
    )
    relation = UnionAll((Empty(T), Negate(doubled)))
    berlin.bind(stored, stored_frame(berlin, (1, 2.0, 7), (1, 4.0, 8)))
    with pytest.raises(RefreshError, match="ROW_NOT_THERE"):
        berlin.located(relation, stored_frame(berlin, (1, 2.0, 7), (1, 4.0, 8)), part="p")


class Staging:
    """A store that stages to a folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def stage(self, rows: Any, columns: tuple[Column, ...]) -> StagedFiles:
        rows.write.mode("overwrite").parquet(self.folder)
        return StagedFiles((self.folder,), rows.count())


def test_a_large_change_is_written_by_executors(berlin: Runner, tmp_path: Any) -> None:
    leaf = Change("t", T)
    berlin.bind(leaf, berlin.spark.createDataFrame(zset((1, 1.0, -1), (2, 2.0, 2), (3, 3.0, 1))))
    stored = stored_frame(berlin, (1, 1.0, 10), (1, 1.0, 11))
    moved = berlin.located(leaf, stored, 2, Staging(str(tmp_path / "staged")))  # type: ignore[arg-type]
    assert moved.deleted.to_pylist() == [10]
    assert moved.inserted == 3
    assert sorted(tuple(row) for row in moved.new_rows().collect()) == [(2, 2.0), (2, 2.0), (3, 3.0)]


@pytest.mark.parametrize("limit", [0, 100])
def test_a_new_table_is_filled(berlin: Runner, tmp_path: Any, limit: int) -> None:
    source = Scan("s", T)
    berlin.bind(source, berlin.spark.createDataFrame([(1, 1.0), (1, 1.0), (2, None)], "k bigint, v double"))
    staging: Any = Staging(str(tmp_path / "staged"))
    moved = berlin.filled(source, T, limit, staging)
    assert (moved.table is None) is (limit == 0)
    assert moved.inserted == 3
    assert len(moved.deleted) == 0
    assert Counter(tuple(row) for row in moved.new_rows().collect()) == {(1, 1.0): 2, (2, None): 1}


def test_several_results_come_by_one_job(berlin: Runner) -> None:
    numbers = Values(tuple((expression(str(number), "int"),) for number in range(3)), (Column("n", "int"),))
    total = Aggregate(numbers, (), (aggregation("s", "sum", column("n", "int"), "bigint"),))
    none = Filter(numbers, (expression("{} > 5", "boolean", column("n", "int")),))
    with count_jobs(berlin.spark) as count:
        found = berlin.collect_together([numbers, total, none, Negate(numbers)])
    tables = [each for each in found if each is not None]
    assert len(tables) == 4
    assert [sorted(map(str, table.to_pylist())) for table in tables[:3]] == [
        ["{'n': 0}", "{'n': 1}", "{'n': 2}"], ["{'s': 3}"], []
    ]  # fmt: skip
    assert tables[3].column(WEIGHT).to_pylist() == [-1, -1, -1]
    assert count.jobs == 1


def test_a_negative_row_in_a_bag_is_an_error(berlin: Runner) -> None:
    leaf = Change("t", T)
    berlin.bind(leaf, berlin.spark.createDataFrame(zset((1, 1.0, -1))))
    with pytest.raises(PySparkException, match="NEGATIVE_WEIGHT"):
        berlin.collect(Aggregate(leaf, ("k",), ()))


def test_views_go_when_the_runner_is_closed(spark: SparkSession) -> None:
    session = spark.newSession()
    with Runner(session, "lake") as runner:
        runner.bind(Scan("t", T), session.range(1).selectExpr("id AS k", "1.0D AS v"))
        assert len(session.catalog.listTables()) == 1
    assert session.catalog.listTables() == []


def test_located_checks_what_it_is_given() -> None:
    with pytest.raises(RefreshError, match="2 rows are to be deleted, 1 of them"):
        Located.checked(zset((1, 1.0, -2)), pa.array([7, 7], pa.int64()))
