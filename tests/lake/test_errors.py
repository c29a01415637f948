"""Every refusal has a code, says what was given and what exists, and what to do."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import anabranch
from anabranch import AnabranchError, Lake
from anabranch.errors import QueryError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE sales (id BIGINT, region STRING, amount INT)")
    lake.create_stream_table("totals", "SELECT region, sum(amount) AS total FROM sales GROUP BY region")
    return lake


def refusal(action: Callable[[], object]) -> AnabranchError:
    with pytest.raises(AnabranchError) as error:
        action()
    assert isinstance(error.value, AnabranchError)
    assert not re.search(r"__ab_\w", str(error.value))
    return error.value


def test_names_that_are_not_there_are_answered_with_those_that_are(shop: Lake) -> None:
    tables = {
        "SELECT * FROM sails": "TABLE_NOT_FOUND",
        "SELECT * FROM sales JOIN main.sails USING (id)": "TABLE_NOT_FOUND",
        "SELECT (SELECT max(id) FROM sails) FROM sales": "TABLE_NOT_FOUND",
        "INSERT INTO sales SELECT * FROM sails": "TABLE_NOT_FOUND",
        "UPDATE sales SET id = (SELECT max(id) FROM sails)": "TABLE_NOT_FOUND",
        "UPDATE sails SET id = 1": "TABLE_NOT_FOUND",
        "CREATE STREAM TABLE t AS SELECT * FROM sails": "TABLE_NOT_FOUND",
        "DESCRIBE sails": "TABLE_NOT_FOUND",
    }
    for statement, code in tables.items():
        error = refusal(lambda text=statement: shop.sql(text))
        assert error.code == code, statement
        assert "sails" in error.message
        assert "sales" in error.detail
        assert "totals" in error.detail
        assert error.hint
    for action in (lambda: shop.table("sails"), lambda: shop.append("sails", [])):
        error = refusal(action)
        assert error.code == "TABLE_NOT_FOUND"
        assert "sales, totals" in error.detail
    for action in (
        lambda: shop.refresh("nothing"),
        lambda: shop.check("nothing"),
        lambda: shop.frontier("nothing"),
        lambda: shop.drop_stream_table("nothing"),
        lambda: shop.alter_stream_table("nothing", schedule="2s"),
        lambda: shop.pause("nothing"),
        lambda: shop.explain("nothing"),
        lambda: shop.drop_stream_table("sales"),
    ):
        error = refusal(action)
        assert error.code == "STREAM_TABLE_NOT_FOUND"
        assert "totals" in error.detail


def test_columns_that_are_not_there_get_a_suggestion(shop: Lake) -> None:
    for statement in (
        "SELECT amuont FROM sales",
        "DELETE FROM sales WHERE amuont = 1",
        "UPDATE sales SET id = amuont",
        "CREATE STREAM TABLE t AS SELECT amuont FROM sales",
        "MERGE INTO sales t USING sales s ON t.id = s.amuont WHEN MATCHED THEN DELETE",
    ):
        error = refusal(lambda text=statement: shop.sql(text))
        assert error.code.startswith("UNRESOLVED_COLUMN"), statement
        assert "amuont" in error.message
        assert "amount" in str(error), statement


def test_a_text_that_does_not_parse_is_answered_with_the_place(shop: Lake) -> None:
    for statement in (
        "SELECT id FROM sales WHERE",
        "SELECT id\nFROM sales\nWHERE (id = 1",
        "INSERT INTO sales VALUES (1, 'x' 2)",
        "UPDATE sales amount = 1",
        "CREATE STREAM TABLE t AS SELECT id,, region FROM sales",
        "CREATE STREAM TABLE t SCHEDULE 5 AS SELECT id FROM sales",
        "CREATE STREAM TABLE t REFRESH MODE SOMETIMES AS SELECT id FROM sales",
        "MERGE INTO sales USING sales ON true WHEN SOMETIMES THEN DELETE",
        "SELECT 'open",
    ):
        error = refusal(lambda text=statement: shop.sql(text))
        assert error.code in ("QUERY_SYNTAX", "PARSE_SYNTAX_ERROR"), (statement, error.code)
        assert "line" in str(error), statement
    error = refusal(lambda: shop.sql("  "))
    assert error.code == "QUERY_SYNTAX"
    error = refusal(lambda: shop.create_stream_table("t", "SELECT id\nFROM sales\nWHERE (id = 1"))
    assert "line 3" in str(error)
    error = refusal(lambda: shop.create_stream_table("t", "DROP TABLE sales"))
    assert error.code == "NOT_A_QUERY"


def test_stream_tables_are_written_by_their_query_alone(shop: Lake) -> None:
    for action in (
        lambda: shop.sql("INSERT INTO totals VALUES ('x', 1)"),
        lambda: shop.sql("UPDATE totals SET total = 0"),
        lambda: shop.sql("DELETE FROM totals"),
        lambda: shop.sql("MERGE INTO totals USING sales ON false WHEN NOT MATCHED THEN INSERT (total) VALUES (1)"),
        lambda: shop.sql("DROP TABLE totals"),
        lambda: shop.sql("ALTER TABLE totals DROP COLUMN total"),
        lambda: shop.append("totals", [("x", 1)]),
        lambda: shop.apply("totals", delete=[("x", 1)]),
    ):
        error = refusal(action)
        assert error.code == "WRITE_TO_STREAM_TABLE"
        assert "sum(amount)" in error.detail
        assert error.hint


def test_a_table_that_others_read_is_not_dropped(shop: Lake) -> None:
    shop.create_stream_table("top", "SELECT max(total) AS top FROM totals")
    for action in (
        lambda: shop.sql("DROP TABLE sales"),
        lambda: shop.sql("CREATE OR REPLACE TABLE sales (a INT)"),
        lambda: shop.drop_stream_table("totals"),
        lambda: shop.sql("DROP STREAM TABLE totals"),
    ):
        error = refusal(action)
        assert error.code == "TABLE_IS_READ"
        assert "to" in error.detail
    shop.drop_stream_table("totals", cascade=True)
    shop.sql("DROP TABLE sales")


def test_requests_that_make_no_sense(shop: Lake) -> None:
    cases: dict[str, Callable[[], object]] = {
        "BAD_REFRESH_MODE": lambda: shop.create_stream_table("t", "SELECT * FROM sales", refresh_mode="OFTEN"),
        "SCHEDULE_NOT_UNDERSTOOD": lambda: shop.create_stream_table("t", "SELECT * FROM sales", schedule="soon"),
        "BAD_SETTING": lambda: shop.create_stream_table("t", "SELECT * FROM sales", diamond_consistency="maybe"),
        "BAD_TABLE_NAME": lambda: shop.create_stream_table("a.b", "SELECT * FROM sales"),
        "TABLE_EXISTS": lambda: shop.create_stream_table("Sales", "SELECT * FROM sales"),
        "DUPLICATE_COLUMN": lambda: shop.create_stream_table("t", "SELECT id, id FROM sales"),
        "NOT_DIFFERENTIABLE": lambda: shop.create_stream_table(
            "t", "SELECT rand() AS r FROM sales", refresh_mode="DIFFERENTIAL"
        ),
        "BAD_DURATION": lambda: shop.expire("a while"),
        "SNAPSHOT_NOT_FOUND": lambda: shop.table("sales", snapshot=999),
        "TABLE_NOT_FOUND": lambda: shop.table("sales", snapshot=1),
    }
    assert {code: refusal(action).code for code, action in cases.items()} == {code: code for code in cases}


def test_settings_are_checked(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "shop")
    for given, code in (
        ({"fused_refresh_max_delta_rows": 0}, "BAD_SETTING"),
        ({"enable_fused_refresh": "perhaps"}, "BAD_SETTING"),
        ({"history_retention": "long"}, "BAD_DURATION"),
        ({"enable_fusion": True}, "UNKNOWN_SETTING"),
    ):
        assert refusal(lambda given=given: anabranch.connect(path, spark=spark, **given)).code == code
    monkeypatch.setenv("ANABRANCH_MAX_CONSECUTIVE_ERRORS", "9")
    with anabranch.connect(path, spark=spark, enable_fused_refresh=False) as lake:
        assert lake.settings["max_consecutive_errors"] == 9
        assert lake.settings["enable_fused_refresh"] is False
        assert "history_retention = '7d'" in repr(lake.settings)


def test_a_lake_that_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    error = refusal(lambda: anabranch.connect(str(tmp_path / "nowhere"), spark=spark, create=False))
    assert error.code == "LAKE_NOT_FOUND"
    assert "nowhere" in error.message
    assert not (tmp_path / "nowhere").exists()
    error = refusal(lambda: anabranch.connect(str(tmp_path), spark=spark, catalog="oracle:x"))
    assert error.code == "CATALOG_NOT_KNOWN"
    with anabranch.connect(str(tmp_path / "shop"), spark=spark):
        pass
    with anabranch.connect(str(tmp_path / "shop"), spark=spark, create=False) as lake:
        assert "0 sources" in repr(lake)


def test_a_catalog_of_a_newer_version(spark: SparkSession, tmp_path: Path) -> None:
    anabranch.connect(str(tmp_path / "shop"), spark=spark).close()
    with sqlite3.connect(tmp_path / "shop" / "catalog.sqlite") as catalog:
        catalog.execute("UPDATE ducklake_metadata SET value = '9.0' WHERE key = 'version'")
    error = refusal(lambda: anabranch.connect(str(tmp_path / "shop"), spark=spark))
    assert error.code == "CATALOG_VERSION"
    assert "9.0" in str(error)


def test_a_table_name_in_backquotes_and_in_any_case(shop: Lake) -> None:
    shop.sql("CREATE TABLE `odd name` (`select` INT)")
    shop.sql("INSERT INTO `odd name` VALUES (1)")
    assert shop.sql("SELECT `select` FROM `ODD name`").collect()[0][0] == 1
    shop.create_stream_table("from", "SELECT `select` + 1 AS `group` FROM `odd name`", refresh_mode="DIFFERENTIAL")
    assert shop.sql("SELECT `group` FROM `from`").collect()[0][0] == 2


def test_a_sample_of_a_table_is_read_anew_each_time(lake: Lake) -> None:
    lake.sql("CREATE TABLE big (k BIGINT)")
    lake.append("big", [(number,) for number in range(9)])
    assert lake.sql("SELECT big.k FROM big TABLESAMPLE (100 PERCENT) WHERE big.k > 3").count() == 5
    lake.create_stream_table("some", "SELECT k FROM big TABLESAMPLE (4 ROWS)")
    assert lake.table("some").count() == 4
    lake.append("big", [(9,)])
    assert lake.refresh()["some"].reason == "NOT_DIFFERENTIABLE: TABLESAMPLE"


def test_time_travel_inside_a_query_says_what_to_do(lake: Lake) -> None:
    lake.sql("CREATE TABLE old (k BIGINT)")
    with pytest.raises(QueryError, match="VERSION or TIMESTAMP AS OF") as refused:
        lake.sql("SELECT k FROM old VERSION AS OF 1")
    assert refused.value.code == "TIME_TRAVEL"
    assert "lake.table(name, snapshot=n)" in refused.value.hint
