"""What becomes of stream tables when the columns of their sources change, or the sources themselves."""

from __future__ import annotations

from decimal import Decimal

import pytest

from anabranch import Lake
from tests.lake.tools import bag, outsider, rows, seen_by

BY_REGION = "SELECT region, SUM(amount) AS revenue FROM sales GROUP BY region"


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE sales (id BIGINT, region STRING, amount INT, note STRING)")
    lake.sql("INSERT INTO sales VALUES (1, 'north', 10, 'a'), (2, 'south', 5, 'b')")
    lake.create_stream_table("revenue", BY_REGION, refresh_mode="DIFFERENTIAL")
    lake.create_stream_table("best", "SELECT max(revenue) AS best FROM revenue", refresh_mode="DIFFERENTIAL")
    return lake


def generation(lake: Lake, name: str) -> int:
    return lake._engine.pin().node(name).generation


def test_a_column_that_is_not_read_does_not_matter(shop: Lake) -> None:
    shop.sql("ALTER TABLE sales ADD COLUMN extra INT")
    shop.sql("ALTER TABLE sales DROP COLUMN note")
    shop.sql("ALTER TABLE sales RENAME COLUMN id TO key")
    shop.sql("INSERT INTO sales VALUES (3, 'north', 1, 9)")
    assert shop.refresh()["revenue"].action == "DIFFERENTIAL"
    assert rows(shop, "revenue") == bag(("north", 11), ("south", 5))
    assert shop.check("revenue")
    assert generation(shop, "revenue") == 1


@pytest.mark.parametrize("statement", ["DROP COLUMN amount", "RENAME COLUMN amount TO price"])
def test_a_column_that_is_read_and_gone_fails_until_it_is_back(shop: Lake, statement: str) -> None:
    before = rows(shop, "revenue")
    shop.sql(f"ALTER TABLE sales {statement}")
    report = shop.refresh()
    assert (report["revenue"].action, report["revenue"].reason) == ("FAILED", "SOURCE_COLUMN_MISSING")
    assert report["best"].action == "SKIPPED"
    error = report["revenue"].error
    assert error is not None
    assert "'amount'" in error["message"]
    assert "alter_stream_table" in error["hint"]
    assert rows(shop, "revenue") == before
    assert shop.status().to_pylist()[1]["error"] == error["message"]
    shop.sql("ALTER TABLE sales ADD COLUMN amount INT")
    shop.sql("UPDATE sales SET amount = 7")
    report = shop.refresh()
    assert (report["revenue"].action, report["revenue"].reason) == ("FULL", "SOURCE_SCHEMA_CHANGED")
    assert rows(shop, "best") == bag((7,))


def test_another_column_under_the_old_name_is_another_column(shop: Lake) -> None:
    shop.sql("ALTER TABLE sales RENAME COLUMN amount TO old_amount")
    shop.sql("ALTER TABLE sales ADD COLUMN amount DECIMAL(6,2)")
    shop.sql("INSERT INTO sales VALUES (4, 'west', 4, 'd', 4.5)")
    report = shop.refresh()
    assert (report["revenue"].action, report["revenue"].reason) == ("FULL", "SOURCE_SCHEMA_CHANGED")
    assert rows(shop, "revenue") == bag(("north", None), ("south", None), ("west", Decimal("4.50")))
    assert rows(shop, "best") == bag((Decimal("4.50"),))
    assert seen_by(outsider(shop), "SELECT * FROM best") == rows(shop, "best")
    assert generation(shop, "revenue") == 2
    shop.sql("UPDATE sales SET amount = 1 WHERE id = 1")
    assert shop.refresh()["revenue"].action == "DIFFERENTIAL"
    assert shop.check("revenue")
    assert shop.check("best")


def test_a_star_means_the_columns_of_now(shop: Lake) -> None:
    shop.create_stream_table("copy", "SELECT * FROM sales", refresh_mode="DIFFERENTIAL")
    shop.create_stream_table("copy_of_copy", "SELECT * FROM copy WHERE region IS NOT NULL")
    shop.sql("ALTER TABLE sales ADD COLUMN extra INT")
    report = shop.refresh()
    assert (report["copy"].action, report["copy"].reason) == ("FULL", "SOURCE_SCHEMA_CHANGED")
    assert shop.table("copy_of_copy").columns == ["id", "region", "amount", "note", "extra"]
    assert shop.check("copy")
    assert shop.check("copy_of_copy")
    assert shop.refresh().spark_jobs == 0


def test_a_type_changed_by_an_outside_client(shop: Lake) -> None:
    client = outsider(shop)
    client.execute("ALTER TABLE sales ALTER COLUMN amount TYPE BIGINT")
    client.execute("INSERT INTO sales VALUES (3, 'north', 5000000000, NULL)")
    shop.refresh()
    assert rows(shop, "revenue") == bag(("north", 5000000010), ("south", 5))
    assert shop.check("revenue")


def test_a_source_dropped_by_an_outside_client_holds_its_readers(shop: Lake) -> None:
    before = rows(shop, "revenue")
    outsider(shop).execute("DROP TABLE sales")
    report = shop.refresh()
    assert report["revenue"].action == "SKIPPED"
    assert "SOURCE_DROPPED" in report["revenue"].reason
    assert "sales" in report["revenue"].reason
    assert rows(shop, "revenue") == before


def test_a_source_created_again_is_another_source(shop: Lake) -> None:
    client = outsider(shop)
    client.execute("DROP TABLE sales")
    client.execute("CREATE TABLE sales (region VARCHAR, amount INTEGER)")
    client.execute("INSERT INTO sales VALUES ('east', 3), ('north', 10)")
    report = shop.refresh()
    assert (report["revenue"].action, report["revenue"].reason) == ("FULL", "SOURCE_REPLACED")
    assert report["best"].action == "DIFFERENTIAL"
    assert rows(shop, "revenue") == bag(("east", 3), ("north", 10))
    assert generation(shop, "revenue") == 2
    assert shop.check("revenue")
    assert shop.check("best")
    client.execute("INSERT INTO sales VALUES ('east', 30)")
    assert shop.refresh()["revenue"].action == "DIFFERENTIAL"
    assert rows(shop, "best") == bag((33,))


def test_a_source_created_again_without_the_columns_fails_its_readers(shop: Lake) -> None:
    client = outsider(shop)
    client.execute("DROP TABLE sales")
    client.execute("CREATE TABLE sales (region VARCHAR)")
    report = shop.refresh()
    assert (report["revenue"].action, report["revenue"].reason) == ("FAILED", "SOURCE_COLUMN_MISSING")
    assert generation(shop, "revenue") == 1


def test_both_sides_of_a_diamond_move_to_the_new_source_together(shop: Lake) -> None:
    shop.create_stream_table("counts", "SELECT region, count(*) AS n FROM sales GROUP BY region")
    shop.create_stream_table("both", "SELECT region, revenue, n FROM revenue JOIN counts USING (region)")
    client = outsider(shop)
    client.execute("DROP TABLE sales")
    client.execute("CREATE TABLE sales AS SELECT 1 AS id, 'east' AS region, 2 AS amount")
    report = shop.refresh("both")
    assert {name: each.reason for name, each in report.items() if each.action == "FULL"} == {
        "revenue": "SOURCE_REPLACED",
        "counts": "SOURCE_REPLACED",
    }
    assert rows(shop, "both") == bag(("east", 2, 1))
    assert shop.check("both")
