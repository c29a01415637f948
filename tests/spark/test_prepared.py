"""A query that is planned once gives what a fresh one gives, over whatever rows it gets."""

from __future__ import annotations

import datetime
import os
import struct
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import anabranch
from anabranch.algebra.relation import Column
from anabranch.spark.prepared import IDLE, PreparedQueries
from anabranch.spark.repeatable import means_the_same_each_time
from tests.spark.asked import Asked, numbers
from tests.spark.test_local_rows import VALUES

MORE_VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    **VALUES,
    "smallint": (pa.int16(), [1, -(2**15), None]),
    "int": (pa.int32(), [1, -(2**31), None]),
    "struct<a b:double,c:array<date>>": (
        pa.struct([("a b", pa.float64()), ("c", pa.list_(pa.date32()))]),
        [{"a b": -0.0, "c": [datetime.date(1, 1, 1), None]}, {"a b": None, "c": None}, None],
    ),
    "decimal(9,2)": (pa.decimal128(9, 2), [1, -1, None]),
}


@pytest.fixture
def asked(spark: SparkSession) -> Iterator[Asked]:
    made = Asked(spark)
    yield made
    made.prepared.close()


def bits(value: Any) -> Any:
    match value:
        case float():
            return struct.pack(">d", value)
        case dict():
            return {key: bits(each) for key, each in value.items()}
        case list():
            return [bits(each) for each in value]
    return value


@pytest.mark.parametrize("kind", MORE_VALUES)
def test_every_type_comes_back_as_it_is(asked: Asked, kind: str) -> None:
    arrow, values = MORE_VALUES[kind]
    columns = (Column("v", kind), Column("n", "bigint"))
    table = pa.table({"v": pa.array(values, arrow), "n": pa.array(range(len(values)), pa.int64())})
    found = [asked("SELECT v, n FROM {0}", (columns, rows)) for rows in (table, table, table.slice(1), table)]
    assert (len(asked.prepared), asked.handed_over) == (1, 1)
    assert all(each.schema == found[0].schema for each in found)
    fresh, *again = [bits(each.column("v").to_pylist()) for each in found]
    assert again == [fresh, fresh[1:], fresh]


OTHERS = {
    "variant": "parse_json('1')",
    "interval day to second": "INTERVAL '1' DAY",
    "string collate UNICODE_CI": "'a' COLLATE UNICODE_CI",
    "array<timestamp>": "array(TIMESTAMP '2020-01-01 00:00:00')",
    "struct<a:int,A:int>": "named_struct('a', 1, 'A', 2)",
}


@pytest.mark.parametrize("kind", OTHERS)
def test_rows_that_no_slot_takes_are_handed_over(asked: Asked, kind: str) -> None:
    columns = (Column("v", kind), Column("n", "bigint"))
    made = asked.spark.sql(f"SELECT {OTHERS[kind]} AS v, 1L AS n").toArrow()
    for _ in range(3):
        assert asked("SELECT n FROM {0}", (columns, made)).num_rows == 1
    assert (len(asked.prepared), asked.handed_over) == (0, 3)


def test_zeros_and_no_numbers_are_not_lost_by_a_filter(asked: Asked) -> None:
    columns = (Column("v", "double"),)
    rows = pa.table({"v": pa.array([-0.0, 0.0, float("nan"), 1.0, None])})
    for _ in range(3):
        assert asked("SELECT v FROM {0} WHERE v = 0.0D", (columns, rows)).num_rows == 2
        assert asked("SELECT v FROM {0} WHERE v >= 1.0D", (columns, rows)).num_rows == 2
        assert asked("SELECT v FROM {0} WHERE v = double('NaN')", (columns, rows)).num_rows == 1
    assert len(asked.prepared) == 3


def test_each_run_sees_the_rows_of_the_moment(asked: Asked) -> None:
    sql = "SELECT SUM(a.x) AS x FROM {0} AS a JOIN {1} AS b ON a.x = b.x"
    for many in (3, 3, 1, 0, 2_000, 60_000, 3):
        found = asked(sql, numbers(*range(many)), numbers(*range(many)))
        assert found.column("x").to_pylist() == [sum(range(many)) if many else None]
    assert (len(asked.prepared), asked.handed_over) == (1, 4)  # the first time, and rows that are too many


def test_a_plan_that_keeps_results_is_not_kept(asked: Asked) -> None:
    for sql in (
        "SELECT /*+ REPARTITION(2) */ x FROM {0}",
        "SELECT a.x FROM {0} AS a LEFT ANTI JOIN {1} AS b ON a.x < b.x",
        "SELECT /*+ BROADCAST(b) */ a.x FROM {0} AS a JOIN {1} AS b ON a.x = b.x",
        "SELECT x FROM {0} WHERE x > (SELECT MIN(x) FROM {1})",
    ):
        for most in (3, 4, 5):
            found = asked(sql, numbers(*range(most)), numbers(*range(2)))
            assert found.num_rows == asked.spark.sql(_over(sql, most)).count()
    assert len(asked.prepared) == 0


def test_a_plan_of_which_only_the_start_is_shown_is_not_kept(asked: Asked) -> None:
    sql = " UNION ALL ".join(["SELECT x FROM {0}"] * 9 + ["SELECT x FROM {0} WHERE x > (SELECT MIN(x) FROM {0})"])
    before = asked.spark.conf.get("spark.sql.maxPlanStringLength")
    SparkSession.active().conf.set("spark.sql.maxPlanStringLength", "500")
    try:
        for least in (1, 2, 3, 4):
            assert asked(sql, numbers(least, least + 1)).num_rows == 19
    finally:
        SparkSession.active().conf.set("spark.sql.maxPlanStringLength", str(before))
    assert len(asked.prepared) == 0


def test_rows_that_take_more_room_as_a_file_are_handed_over(asked: Asked) -> None:
    """Parquet keeps the smallest integers in four bytes each."""
    columns = tuple(Column(f"t{number}", "tinyint") for number in range(100))
    for rows in (10, 50_000, 50_000, 10):
        table = pa.table({each.name: pa.array([place % 7 for place in range(rows)], pa.int8()) for each in columns})
        found = asked("SELECT SUM(t99) AS x FROM {0}", (columns, table))
        assert found.column("x").to_pylist() == [sum(place % 7 for place in range(rows))]
    assert (len(asked.prepared), asked.handed_over) == (1, 3)


def _over(sql: str, most: int) -> str:
    return sql.format(f"(SELECT id AS x FROM range({most}))", "(SELECT id AS x FROM range(2))")


@pytest.mark.parametrize(
    "call", ["now()", "current_date", "rand()", "uuid()", "DATE 'today'", "unix_timestamp()", "somebodys_own(x)"]
)
def test_chance_the_clock_and_functions_of_others_are_asked_anew(asked: Asked, call: str) -> None:
    assert not means_the_same_each_time(asked.spark, f"SELECT {call} AS x FROM t")
    assert means_the_same_each_time(asked.spark, "SELECT abs(x), CAST(x AS DECIMAL(3, 2)) FROM (SELECT 1 AS x)")


def test_a_function_defined_anew_is_heard(asked: Asked) -> None:
    for plus in (1, 2, 3):
        asked.spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION ours(x BIGINT) RETURNS BIGINT RETURN x + {plus}")
        assert asked("SELECT ours(x) AS x FROM {0}", numbers(1)).column("x").to_pylist() == [1 + plus]


def test_an_error_does_not_spoil_the_next_run(asked: Asked) -> None:
    sql = "SELECT 6 DIV x AS x FROM {0}"
    asked.spark.conf.set("spark.sql.ansi.enabled", "true")
    for divisor in (1, 2, 3):
        assert asked(sql, numbers(divisor)).column("x").to_pylist() == [6 // divisor]
        with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
            asked(sql, numbers(0))
    assert len(asked.prepared) == 1


def test_one_query_is_asked_several_times_at_once(asked: Asked) -> None:
    sql = "SELECT x + 1 AS x FROM {0}"
    for _ in range(3):
        found = asked.together([asked.text(sql, numbers(each)) for each in range(12)])
        assert [each.column("x").to_pylist() for each in found] == [[each + 1] for each in range(12)]
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda each: _alone(asked, sql, each), range(20)))
    assert rows == [[each + 1] for each in range(20)]


def _alone(asked: Asked, sql: str, value: int) -> list[int]:
    """The settings are others outside of `tuned`: the first time they are new."""
    runs = asked.prepared.runs(asked.spark, {7: asked.text(sql, numbers(value))})
    runs = runs or asked.prepared.runs(asked.spark, {7: asked.text(sql, numbers(value))})
    (run,) = runs
    found: list[int] = run()[7].column("x").to_pylist()
    return found


def test_columns_may_have_any_name(asked: Asked) -> None:
    names = ("a.b", "c`d", "a", "A", "select", " ", "ä")
    asked.spark.conf.set("spark.sql.caseSensitive", "true")
    columns = tuple(Column(name, "bigint") for name in names)
    table = pa.table([pa.array([place], pa.int64()) for place in range(len(names))], names=list(names))
    outputs = ", ".join(f"`{name.replace('`', '``')}` AS x{place}" for place, name in enumerate(names))
    for _ in range(3):
        found = asked(f"SELECT {outputs} FROM {{0}}", (columns, table))
        assert [column.to_pylist() for column in found.columns] == [[place] for place in range(len(names))]
    assert len(asked.prepared) == 1


def test_other_settings_are_another_query(asked: Asked) -> None:
    columns = (Column("at", "timestamp"),)
    rows = pa.table({"at": pa.array([datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)], pa.timestamp("us", "UTC"))})
    for _ in range(3):
        for zone, hour in (("UTC", 0), ("Asia/Tokyo", 9)):
            asked.spark.conf.set("spark.sql.session.timeZone", zone)
            assert asked("SELECT hour(at) AS x FROM {0}", (columns, rows)).column("x").to_pylist() == [hour]
    assert len(asked.prepared) == 2


def test_queries_that_nobody_asks_any_more_go_with_their_files(asked: Asked) -> None:
    asked.prepared = PreparedQueries(most=2)
    for text in ("SELECT x FROM {0}", "SELECT -x AS x FROM {0}", "SELECT x + 1 AS x FROM {0}"):
        for _ in range(2 + 2 * IDLE):
            asked(text, numbers(1))
    folder = asked.prepared._folder
    assert folder is not None
    assert len(asked.prepared) == len(os.listdir(folder.name)) == 2
    asked.prepared.close()
    assert not os.path.exists(folder.name)
    asked.prepared.close()


def test_where_more_than_fit_are_asked_in_turn_those_that_are_kept_stay(asked: Asked) -> None:
    asked.prepared = PreparedQueries(most=2)
    for _ in range(4):
        for plus in range(4):
            asked(f"SELECT x + {plus} AS x FROM {{0}}", numbers(1))
    assert asked.handed_over == 4 + 3 * 2


def test_files_that_somebody_has_cleared_away_are_written_again(asked: Asked) -> None:
    for value in (1, 2):
        asked("SELECT x FROM {0}", numbers(value))
    folder = asked.prepared._folder
    assert folder is not None
    for name in os.listdir(folder.name):
        os.unlink(os.path.join(folder.name, name))
    os.rmdir(folder.name)
    assert asked("SELECT x FROM {0}", numbers(3)).column("x").to_pylist() == [3]
    assert asked.handed_over == 1


def test_a_lake_prepares_what_its_ticks_ask_and_leaves_no_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with anabranch.connect(str(tmp_path / "shop"), spark=spark) as lake:
        lake.sql("CREATE TABLE sales (shop STRING, price DOUBLE)")
        lake.sql("CREATE TABLE shops (shop STRING, town STRING)")
        lake.sql("INSERT INTO shops VALUES ('a', 'Ulm'), ('b', 'Bonn')")
        lake.sql("INSERT INTO sales VALUES ('a', 0.0)")
        lake.create_stream_table(
            "towns", "SELECT town, max(price) AS dearest FROM sales JOIN shops USING (shop) GROUP BY town"
        )
        for price in ("-0.0D", "2.5", "1.5", "double('NaN')"):
            lake.sql(f"INSERT INTO sales VALUES ('b', {price})")
            lake.refresh()
            assert lake.check("towns").ok
        assert len(lake._engine.prepared) > 0
    assert not list(tmp_path.glob("anabranch-slots-*"))
