"""Rows of every kind and type go in through `append` and `apply`, and come back as they were."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from anabranch import AnabranchError, Lake
from tests.lake.tools import bag, head, outsider, rows, seen_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES: dict[str, list[Any]] = {
    "TINYINT": [-128, 127],
    "SMALLINT": [-32768, 32767],
    "INT": [-(2**31), 2**31 - 1],
    "BIGINT": [-(2**63), 2**63 - 1],
    "FLOAT": [1.5, math.nan, -0.0, math.inf],
    "DOUBLE": [0.1, math.nan, -0.0, 0.0, -math.inf],
    "DECIMAL(38,0)": [Decimal("9" * 38), Decimal("-1")],
    "DECIMAL(38,38)": [Decimal("0." + "1" * 38)],
    "STRING": ["", "naïve ☃ 🎉", "a\x00b", "line\nbreak"],
    "BINARY": [bytearray(b""), bytearray(b"\x00\xff")],
    "BOOLEAN": [True, False],
    "DATE": [dt.date(1, 1, 1), dt.date(2026, 2, 28), dt.date(9999, 12, 31)],
    "TIMESTAMP": [dt.datetime(1970, 1, 1, 0, 0, 0, 1), dt.datetime(2026, 5, 1, 12, 30, 45, 999999)],
    "TIMESTAMP_NTZ": [dt.datetime(1900, 1, 1), dt.datetime(2026, 5, 1, 12, 30, 45, 999999)],
    "ARRAY<INT>": [[], [1, None, 3]],
    "MAP<STRING, DOUBLE>": [{}, {"a": -0.0, "b": None}],
    "STRUCT<x: INT, y: STRING>": [(1, None), (None, "two")],
    "ARRAY<STRUCT<m: MAP<STRING, ARRAY<DECIMAL(5,2)>>>>": [[({"k": [Decimal("1.50"), None]},), (None,)], []],
}


def test_all_types_come_back_as_they_were(lake: Lake) -> None:
    columns = ", ".join(f"c{place} {type}" for place, type in enumerate(TYPES))
    lake.sql(f"CREATE TABLE t ({columns})")
    longest = max(len(values) for values in TYPES.values())
    given = [
        tuple(values[place] if place < len(values) else None for values in TYPES.values()) for place in range(longest)
    ]
    lake.append("t", given)
    assert rows(lake, "t") == bag(*given)
    lake.sql("INSERT INTO t SELECT * FROM t")
    lake.apply("t", delete=given)
    assert rows(lake, "t") == bag(*given)
    lake.compact()
    assert rows(lake, "t") == bag(*given)
    lake.create_stream_table("copy", "SELECT * FROM t", refresh_mode="DIFFERENTIAL")
    lake.apply("t", insert=given[:2], delete=given[1:3])
    assert lake.refresh()["copy"].action == "DIFFERENTIAL"
    expected = bag(*given, *given[:2]) - bag(*given[1:3])
    assert rows(lake, "t") == expected
    assert rows(lake, "copy") == expected
    assert lake.check("copy")


@pytest.fixture
def sales(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE sales (id BIGINT, Region STRING, amount DECIMAL(8,2))")
    return lake


NORTH = (1, "north", Decimal("1.50"))


def test_rows_come_as_tuples_dicts_arrow_pandas_or_spark(sales: Lake, spark: SparkSession) -> None:
    sales.append("sales", [NORTH])
    sales.append("sales", [{"id": 2, "region": "south"}, {"AMOUNT": Decimal("3.00")}])
    sales.append("sales", pa.table({"amount": pa.array([4.25], pa.float64()), "id": pa.array([4], pa.int8())}))
    sales.append("sales", pa.record_batch({"id": [5]}))
    sales.append("sales", pd.DataFrame({"id": np.array([6]), "Region": ["east"]}))
    sales.append("sales", spark.sql("SELECT 7 AS id, 'west' AS region, 7 AS amount"))
    sales.append("sales", sales.sql("SELECT id + 100 AS id FROM sales WHERE id = 1"))
    assert rows(sales, "sales") == bag(
        NORTH,
        (2, "south", None),
        (None, None, Decimal("3.00")),
        (4, None, Decimal("4.25")),
        (5, None, None),
        (6, "east", None),
        (7, "west", Decimal("7.00")),
        (101, None, None),
    )
    views = [row.viewName for row in spark.sql("SHOW VIEWS IN global_temp").collect()]
    assert not any(name.startswith("__ab_") for name in views)


def test_rows_that_do_not_fit_are_refused(sales: Lake, spark: SparkSession) -> None:
    before = head(sales)
    refused = {
        "COLUMNS_DO_NOT_FIT": [(1, "x")],
        "COLUMN_NOT_FOUND": [{"id": 1, "colour": "red"}],
        "INCOMPATIBLE_ASSIGNMENT": pa.table({"id": ["one"]}),
        "NUMERIC_VALUE_OUT_OF_RANGE": pa.table({"amount": [1e9]}),
        "FIELD_DATA_TYPE_UNACCEPTABLE": [("one", "x", None)],
        "CAST_OVERFLOW": spark.sql("SELECT 1e30D AS id"),
    }
    for code, given in refused.items():
        with pytest.raises(AnabranchError) as error:
            sales.append("sales", given)
        assert error.value.code.startswith(code)
    with pytest.raises(AnabranchError, match="existing tables: sales") as missing:
        sales.append("sails", [NORTH])
    assert missing.value.code == "TABLE_NOT_FOUND"
    assert head(sales) == before


def test_deleting_takes_one_copy_of_each_given_row(sales: Lake) -> None:
    sales.append("sales", [NORTH, NORTH, NORTH, (2, None, None)])
    before = head(sales)
    sales.apply("sales", delete=[NORTH, (2, None, None)], insert=[(3, "x", None)])
    assert head(sales) == before + 1
    assert rows(sales, "sales") == bag(NORTH, NORTH, (3, "x", None))
    assert seen_by(outsider(sales), "SELECT * FROM sales") == rows(sales, "sales")
    sales.apply("sales", delete=[NORTH], insert=[NORTH])
    assert head(sales) == before + 1
    sales.apply("sales")
    assert head(sales) == before + 1


def test_deleting_what_is_not_there_fails_and_changes_nothing(sales: Lake) -> None:
    sales.append("sales", [NORTH])
    before = head(sales)
    for gone in ([NORTH, NORTH], [(9, "north", None)]):
        with pytest.raises(AnabranchError) as error:
            sales.apply("sales", insert=[(5, "new", None)], delete=gone)
        assert error.value.code == "ROW_NOT_THERE"
    assert head(sales) == before
    assert rows(sales, "sales") == bag(NORTH)


def test_a_row_deleted_and_inserted_at_once_nets_out(sales: Lake) -> None:
    before = head(sales)
    sales.apply("sales", insert=[NORTH], delete=[NORTH])
    assert head(sales) == before


def test_negative_zero_is_not_zero(lake: Lake) -> None:
    lake.sql("CREATE TABLE points (x DOUBLE)")
    lake.append("points", [(0.0,), (-0.0,)])
    lake.apply("points", delete=[(-0.0,)])
    assert rows(lake, "points") == bag((0.0,))
    with pytest.raises(AnabranchError):
        lake.apply("points", delete=[(-0.0,)])


def test_whole_numbers_fit_where_other_numbers_are_kept(lake: Lake) -> None:
    lake.sql("CREATE TABLE prices (price DECIMAL(12,2), weight DOUBLE, n BIGINT, known BOOLEAN)")
    lake.append("prices", [(10, 2, 3, True), {"price": -1, "weight": None, "n": 4, "known": False}])
    assert rows(lake, "prices") == bag((Decimal("10.00"), 2.0, 3, True), (Decimal("-1.00"), None, 4, False))


def test_chunks_without_rows_hide_none(lake: Lake) -> None:
    """Spark itself stops reading an Arrow table at the first chunk that is empty."""
    lake.sql("CREATE TABLE numbers (n BIGINT)")
    some = pa.table({"n": [1, 2]})
    given = pa.concat_tables([some.slice(0, 0), some, some.slice(0, 0), some])
    lake.append("numbers", given)
    assert rows(lake, "numbers") == bag((1,), (2,), (1,), (2,))
    lake.apply("numbers", insert=given, delete=given)
    lake.apply("numbers", delete=given)
    assert rows(lake, "numbers") == bag()
