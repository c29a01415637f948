"""CREATE, ALTER and DROP of tables and views through `lake.sql`."""

from __future__ import annotations

from decimal import Decimal

import pytest

from anabranch import AnabranchError, Lake
from tests.lake.tools import bag, code_of, head, outsider, queried, rows, seen_by


def test_a_table_has_the_columns_and_types_it_was_given(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (`a b` INT, Price DECIMAL(38,10), tags ARRAY<STRING>, m MAP<STRING, STRUCT<x: INT>>)")
    found = [(field.name, field.dataType.simpleString()) for field in lake.table("t").schema.fields]
    assert found == [
        ("a b", "int"),
        ("Price", "decimal(38,10)"),
        ("tags", "array<string>"),
        ("m", "map<string,struct<x:int>>"),
    ]
    assert rows(lake, "T") == bag()


def test_create_table_as_select_takes_rows_and_types(lake: Lake) -> None:
    before = head(lake)
    lake.sql("CREATE TABLE t AS SELECT id, id * 1.5 AS half FROM range(3)")
    assert head(lake) == before + 1
    assert rows(lake, "t") == bag((0, Decimal("0.0")), (1, Decimal("1.5")), (2, Decimal("3.0")))
    lake.sql("CREATE TABLE IF NOT EXISTS t AS SELECT 1 AS other")
    lake.sql("CREATE TABLE IF NOT EXISTS t (other INT)")
    assert lake.table("t").columns == ["id", "half"]
    lake.sql("CREATE OR REPLACE TABLE t AS SELECT max(half) AS top FROM t")
    assert rows(lake, "t") == bag((Decimal("3.0"),))


NOT_STORABLE = ["VARIANT", "VOID", "INTERVAL DAY TO SECOND", "STRING COLLATE UTF8_LCASE", "VARCHAR(5)", "CHAR(3)"]


@pytest.mark.parametrize("type", [*NOT_STORABLE, "ARRAY<VARCHAR(5)>", "STRUCT<x: INTERVAL YEAR TO MONTH>"])
def test_types_that_do_not_come_back_are_refused(lake: Lake, type: str) -> None:
    with pytest.raises(AnabranchError) as error:
        lake.sql(f"CREATE TABLE t (a INT, b {type})")
    assert error.value.code == "TYPE_NOT_STORABLE"
    assert "'b'" in error.value.message
    assert error.value.hint


REFUSED = {
    "CREATE TABLE sales (a INT)": "TABLE_EXISTS",
    "CREATE TABLE SALES AS SELECT 1 AS a": "TABLE_EXISTS",
    "CREATE VIEW sales AS SELECT 1 AS a": "TABLE_EXISTS",
    "CREATE TABLE t (a INT, A INT)": "DUPLICATE_COLUMN",
    "CREATE TABLE t (a INT, __ab_x INT)": "RESERVED_NAME",
    "CREATE TABLE t (a NUMBER_OF_THINGS)": "UNSUPPORTED_DATATYPE",
    "CREATE TABLE t (a INT NOT NULL)": "CLAUSE_NOT_SUPPORTED",
    "CREATE TABLE t (a INT) USING parquet": "CLAUSE_NOT_SUPPORTED",
    "CREATE TABLE t AS SELECT 1 AS a, 2 AS a": "DUPLICATE_COLUMN",
    "CREATE TABLE t AS SELECT NULL AS a": "TYPE_NOT_STORABLE",
    "CREATE TABLE t AS SELECT * FROM sails": "TABLE_NOT_FOUND",
    "CREATE TABLE elsewhere.t (a INT)": "SCHEMA_NOT_FOUND",
    "DROP TABLE sails": "TABLE_NOT_FOUND",
    "DROP VIEW sails": "VIEW_NOT_FOUND",
    "ALTER TABLE sails ADD COLUMN x INT": "TABLE_NOT_FOUND",
    "ALTER TABLE sales ADD COLUMN AMOUNT INT": "NAME_TWICE",
    "ALTER TABLE sales ADD COLUMN x VARIANT": "TYPE_NOT_STORABLE",
    "ALTER TABLE sales DROP COLUMN colour": "COLUMN_NOT_FOUND",
    "ALTER TABLE sales RENAME COLUMN colour TO color": "COLUMN_NOT_FOUND",
    "ALTER TABLE sales RENAME COLUMN id TO amount": "NAME_TWICE",
    "ALTER TABLE sales RENAME COLUMN id TO __ab_id": "RESERVED_NAME",
    "CREATE TEMPORARY VIEW v AS SELECT 1 AS a": "CLAUSE_NOT_SUPPORTED",
    "CREATE VIEW v AS SELECT * FROM sails": "TABLE_NOT_FOUND",
    "OPTIMIZE sales": "STATEMENT_NOT_SUPPORTED",
}


def test_refusals_are_coded_and_change_nothing(lake: Lake) -> None:
    lake.sql("CREATE TABLE sales (id BIGINT, amount INT)")
    before = head(lake)
    found = {statement: code_of(lake, statement) for statement in REFUSED}
    assert found == REFUSED
    assert head(lake) == before


def test_columns_are_added_renamed_and_dropped(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a INT, b STRING)")
    lake.sql("INSERT INTO t VALUES (1, 'x')")
    first = head(lake)
    lake.sql("ALTER TABLE t ADD COLUMNS (c DOUBLE, d DECIMAL(5,2))")
    lake.sql("INSERT INTO t VALUES (2, 'y', 0.5, 1)")
    assert rows(lake, "t") == bag((1, "x", None, None), (2, "y", 0.5, Decimal("1.00")))
    lake.sql("ALTER TABLE t DROP COLUMN c, D")
    lake.sql("ALTER TABLE t RENAME COLUMN b TO name")
    lake.sql("ALTER TABLE t DROP COLUMN IF EXISTS nothing")
    assert lake.table("t").columns == ["a", "name"]
    lake.sql("ALTER TABLE t RENAME COLUMN name TO old_name")
    lake.sql("ALTER TABLE t ADD COLUMN name STRING")
    lake.sql("INSERT INTO t VALUES (3, 'old', 'new')")
    assert rows(lake, "t") == bag((1, "x", None), (2, "y", None), (3, "old", "new"))
    assert rows(lake, "t", first) == bag((1, "x"))
    assert seen_by(outsider(lake), "SELECT * FROM t") == bag((1, "x", None), (2, "y", None), (3, "old", "new"))


def test_a_dropped_table_is_gone_now_and_still_there_then(lake: Lake) -> None:
    lake.sql("CREATE TABLE t AS SELECT 1 AS a")
    then = head(lake)
    lake.sql("DROP TABLE t")
    lake.sql("DROP TABLE IF EXISTS t")
    with pytest.raises(AnabranchError, match="there is no table 't'"):
        lake.table("t")
    assert rows(lake, "t", then) == bag((1,))
    lake.sql("CREATE TABLE t (b STRING)")
    assert rows(lake, "t") == bag()


def test_views_are_queries_by_name(lake: Lake) -> None:
    lake.sql("CREATE TABLE sales AS SELECT id, id % 2 AS kind FROM range(4)")
    lake.sql("CREATE VIEW odd AS SELECT id FROM sales WHERE kind = 1")
    lake.sql("CREATE VIEW large AS SELECT max(id) AS top FROM odd")
    assert rows(lake, "ODD") == bag((1,), (3,))
    assert queried(lake, "SELECT o.id FROM odd o JOIN large ON o.id = top") == bag((3,))
    lake.sql("CREATE OR REPLACE VIEW odd AS SELECT id FROM sales WHERE kind = 1 AND id < 3")
    lake.sql("CREATE VIEW IF NOT EXISTS odd AS SELECT 1 AS one")
    assert rows(lake, "large") == bag((1,))
    lake.sql("INSERT INTO sales SELECT * FROM odd, VALUES (1) AS v(kind)")
    assert rows(lake, "odd") == bag((1,), (1,))
    lake.sql("DROP VIEW large")
    with pytest.raises(AnabranchError, match="large"):
        lake.table("large")


def test_a_stream_table_over_a_view_keeps_the_views_text(lake: Lake) -> None:
    lake.sql("CREATE TABLE sales AS SELECT id, id % 2 AS kind FROM range(4)")
    lake.sql("CREATE VIEW odd AS SELECT id FROM sales WHERE kind = 1")
    lake.create_stream_table("total", "SELECT sum(id) AS total FROM odd", refresh_mode="DIFFERENTIAL")
    lake.sql("CREATE OR REPLACE VIEW odd AS SELECT id FROM sales WHERE kind = 0")
    lake.sql("INSERT INTO sales VALUES (7, 1), (8, 0)")
    assert lake.refresh()["total"].action == "DIFFERENTIAL"
    assert rows(lake, "total") == bag((11,))
    assert lake.check("total")


def test_other_statements_of_spark_that_only_read_are_run(lake: Lake) -> None:
    lake.sql("CREATE TABLE sales AS SELECT 1 AS id")
    assert lake.sql("EXPLAIN SELECT id FROM sales").collect()
    described = {row["col_name"]: row["data_type"] for row in lake.sql("DESCRIBE sales").collect()}
    assert described == {"id": "int"}
    assert [row["tableName"] for row in lake.sql("SHOW TABLES").collect()] == ["sales"]
