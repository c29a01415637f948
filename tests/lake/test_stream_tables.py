"""The first stream tables: filters, projections and GROUP BY, over a source and over each other."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

import anabranch
from anabranch import Lake
from tests.lake.tools import bag, head, outsider, queried, rows, seen_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BY_REGION = "SELECT region, SUM(amount) AS revenue, COUNT(*) AS sale_count FROM sales GROUP BY region"
MODES = ("DIFFERENTIAL", "FULL")


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE sales (id BIGINT, region STRING, amount DECIMAL(12,2))")
    lake.sql("INSERT INTO sales VALUES (1, 'north', 10), (2, 'south', 5.5), (3, 'north', 1.25), (4, NULL, NULL)")
    return lake


def test_a_stream_table_is_filled_when_it_is_created(shop: Lake) -> None:
    before = head(shop)
    report = shop.create_stream_table("revenue", BY_REGION, refresh_mode="DIFFERENTIAL")
    assert head(shop) == report.snapshot == before + 1
    assert (report["revenue"].action, report["revenue"].reason) == ("FULL", "FIRST_REFRESH")
    assert rows(shop, "revenue") == bag(("north", Decimal("11.25"), 2), ("south", Decimal("5.50"), 1), (None, None, 1))
    assert [(each.name, each.dataType.simpleString()) for each in shop.table("revenue").schema.fields] == [
        ("region", "string"),
        ("revenue", "decimal(22,2)"),
        ("sale_count", "bigint"),
    ]


@pytest.mark.parametrize("mode", MODES)
def test_a_refresh_follows_the_changes(shop: Lake, mode: str) -> None:
    shop.create_stream_table("revenue", BY_REGION, refresh_mode=mode)
    with shop.transaction():
        shop.sql("UPDATE sales SET amount = amount * 2 WHERE id = 3")
        shop.sql("DELETE FROM sales WHERE region = 'south'")
        shop.sql("INSERT INTO sales VALUES (5, 'west', 7)")
    before = head(shop)
    report = shop.refresh()
    assert head(shop) == report.snapshot == before + 1
    node = report["revenue"]
    assert (node.action, node.rows_inserted, node.rows_deleted) == (mode, 2, 2)
    assert rows(shop, "revenue") == bag(("north", Decimal("12.50"), 2), ("west", Decimal("7.00"), 1), (None, None, 1))
    assert rows(shop, "revenue", before)[("south", Decimal("5.50"), 1)] == 1
    assert shop.check("revenue")


def test_nothing_to_do_costs_milliseconds_and_no_job(shop: Lake) -> None:
    shop.create_stream_table("revenue", BY_REGION, refresh_mode="DIFFERENTIAL")
    shop.create_stream_table("top", "SELECT max(revenue) AS top FROM revenue")
    shop.sql("CREATE TABLE other (a INT)")
    shop.sql("INSERT INTO other VALUES (1)")
    before = head(shop)
    report = shop.refresh()
    assert {name: (each.action, each.reason) for name, each in report.items()} == {
        "revenue": ("NO_DATA", "NO_CHANGES"),
        "top": ("NO_DATA", "NO_CHANGES"),
    }
    assert (report.spark_jobs, report.snapshot, head(shop)) == (0, before, before)
    assert min(shop.refresh().seconds for _ in range(5)) < 0.25
    shop.compact()
    assert shop.refresh().spark_jobs == 0


def test_a_change_that_nets_out_below_stops_there(shop: Lake) -> None:
    shop.create_stream_table("revenue", BY_REGION, refresh_mode="DIFFERENTIAL")
    shop.create_stream_table("regions", "SELECT region FROM revenue WHERE sale_count > 1", refresh_mode="DIFFERENTIAL")
    shop.sql("INSERT INTO sales VALUES (9, 'east', 1)")
    report = shop.refresh()
    assert (report["revenue"].rows_inserted, report["regions"].rows_inserted) == (1, 0)
    frontier, upstream = shop.frontier("regions"), shop.frontier("revenue")
    assert frontier.sources == upstream.sources
    assert shop.refresh().spark_jobs == 0


def test_one_tick_is_one_commit_with_rows_frontiers_and_history(shop: Lake) -> None:
    shop.create_stream_table("revenue", BY_REGION, refresh_mode="DIFFERENTIAL")
    shop.create_stream_table("large", "SELECT * FROM sales WHERE amount > 2", refresh_mode="FULL")
    shop.create_stream_table("best", "SELECT max(revenue) AS top FROM revenue", refresh_mode="DIFFERENTIAL")
    shop.sql("INSERT INTO sales VALUES (5, 'west', 70)")
    written = head(shop)
    report = shop.refresh()
    assert report.snapshot == head(shop) == written + 1
    (source,) = shop.frontier("revenue").sources
    for name in ("revenue", "large", "best"):
        assert shop.frontier(name).sources[source].number == written
        assert shop.check(name)
    (upstream,) = shop.frontier("best").inputs.values()
    assert upstream.number == report.snapshot
    newest = shop.history().to_pylist()[:3]
    assert {each["node_name"] for each in newest} == {"revenue", "large", "best"}
    assert {each["snapshot"] for each in newest} == {report.snapshot}
    assert {each["action"] for each in newest} == {"DIFFERENTIAL", "FULL"}
    assert len({each["tick_id"] for each in newest}) == 1


def test_the_change_of_a_stream_table_reaches_its_readers(shop: Lake) -> None:
    """Three deep, each reader refreshed on its own and late."""
    shop.create_stream_table("north", "SELECT id, amount FROM sales WHERE region = 'north'")
    shop.create_stream_table("doubled", "SELECT id, amount * 2 AS amount FROM north")
    shop.create_stream_table("total", "SELECT sum(amount) AS total, avg(amount) AS average FROM doubled")
    for number in range(3):
        shop.sql(f"INSERT INTO sales VALUES ({10 + number}, 'north', {number})")
        shop.refresh("north")
    shop.sql("DELETE FROM sales WHERE id = 1")
    report = shop.refresh("doubled")
    assert "total" not in report
    assert shop.check("doubled")
    assert shop.refresh("total")["total"].action == "DIFFERENTIAL"
    assert shop.check("total")
    shop.refresh()
    assert rows(shop, "total") == bag((Decimal("8.50"), Decimal("2.125000")))


def test_a_full_node_hands_on_its_difference(shop: Lake) -> None:
    shop.create_stream_table("all_sales", "SELECT id, region, amount FROM sales", refresh_mode="FULL")
    shop.create_stream_table(
        "revenue", "SELECT region, sum(amount) AS revenue FROM all_sales GROUP BY region", refresh_mode="DIFFERENTIAL"
    )
    shop.sql("UPDATE sales SET amount = 6 WHERE id = 2")
    report = shop.refresh()
    assert [(each.action, each.rows_inserted, each.rows_deleted) for each in report.values()] == [
        ("FULL", 1, 1),
        ("DIFFERENTIAL", 1, 1),
    ]
    assert shop.check("revenue")


def test_hidden_columns_stay_hidden(shop: Lake) -> None:
    shop.create_stream_table(
        "mean", "SELECT region, avg(amount) AS mean FROM sales GROUP BY region HAVING count(*) > 0"
    )
    assert shop.table("mean").columns == ["region", "mean"]
    assert shop.sql("SELECT * FROM mean").columns == ["region", "mean"]
    client = outsider(shop)
    assert [row[0] for row in client.execute("DESCRIBE mean").fetchall()] == ["region", "mean"]
    expected = bag(("north", Decimal("5.625000")), ("south", Decimal("5.500000")), (None, None))
    assert seen_by(client, "SELECT * FROM mean") == rows(shop, "mean") == expected
    assert [row["tableName"] for row in shop.sql("SHOW TABLES").collect()] == ["mean", "sales"]


def test_groups_are_born_die_and_are_born_again(shop: Lake) -> None:
    shop.create_stream_table("revenue", BY_REGION, refresh_mode="DIFFERENTIAL")
    shop.create_stream_table("all", "SELECT sum(amount) AS s, count(*) AS n FROM sales", refresh_mode="DIFFERENTIAL")
    for statement in (
        "DELETE FROM sales WHERE region IS NULL",
        "DELETE FROM sales",
        "INSERT INTO sales VALUES (1, 'north', NULL), (1, 'north', NULL)",
        "UPDATE sales SET region = 'south', amount = 3",
    ):
        shop.sql(statement)
        assert shop.refresh()["revenue"].action == "DIFFERENTIAL"
        assert shop.check("revenue")
        assert shop.check("all")
    assert rows(shop, "revenue") == bag(("south", Decimal("6.00"), 2))


def test_dropping(shop: Lake) -> None:
    shop.create_stream_table("revenue", BY_REGION)
    shop.create_stream_table("top", "SELECT max(revenue) AS top FROM revenue")
    tables_then = len(shop._engine.pin().tables)
    shop.sql("DROP STREAM TABLE revenue CASCADE")
    assert len(shop._engine.pin().tables) == tables_then - 2
    assert outsider(shop).execute("SHOW TABLES").fetchall() == [("sales",)]
    shop.sql("DROP STREAM TABLE IF EXISTS revenue")
    shop.create_stream_table("revenue", BY_REGION)
    assert shop.check("revenue")


def test_sql_does_what_python_does(shop: Lake) -> None:
    shop.sql(f"CREATE STREAM TABLE revenue SCHEDULE '1h' REFRESH MODE DIFFERENTIAL AS {BY_REGION}")
    shop.sql("CREATE STREAM TABLE IF NOT EXISTS revenue AS SELECT 1 AS one")
    shop.sql("INSERT INTO sales VALUES (7, 'west', 7)")
    (answer,) = shop.sql("REFRESH STREAM TABLE revenue").collect()
    assert (answer["name"], answer["action"], answer["rows_inserted"]) == ("revenue", "DIFFERENTIAL", 1)
    (shown,) = shop.sql("SHOW STREAM TABLES").collect()
    assert (shown["name"], shown["schedule"], shown["refresh_mode"]) == ("revenue", "1h", "DIFFERENTIAL")
    (explained,) = shop.sql("EXPLAIN STREAM TABLE revenue").collect()
    assert "delta plan when sales changes" in explained["plan"]
    shop.sql("ALTER STREAM TABLE revenue SET SCHEDULE NULL, REFRESH MODE FULL")
    shop.sql("CREATE OR REPLACE STREAM TABLE revenue AS SELECT count(*) AS n FROM sales")
    assert rows(shop, "revenue") == bag((5,))
    assert queried(shop, "SELECT n FROM revenue") == bag((5,))


def test_everything_is_there_after_opening_again(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "shop")
    with anabranch.connect(path, spark=spark) as lake:
        lake.sql("CREATE TABLE sales AS SELECT 1L AS id, 'north' AS region, 1.5BD AS amount")
        lake.create_stream_table("revenue", BY_REGION, schedule="1h", refresh_mode="DIFFERENTIAL")
        lake.sql("INSERT INTO sales VALUES (2, 'north', 2)")
    with anabranch.connect(path, spark=spark) as lake:
        assert lake.refresh()["revenue"].action == "DIFFERENTIAL"
        assert rows(lake, "revenue") == bag(("north", Decimal("3.5"), 2))
        assert lake.status().to_pylist()[0]["schedule"] == "1h"


def test_random_changes_through_a_small_graph(lake: Lake) -> None:
    """Any change, any order of refreshes: each table equals its query at the versions its frontier names."""
    random = Random(20260501)
    lake.sql("CREATE TABLE sales (id BIGINT, region STRING, amount DECIMAL(9,2))")
    nodes = {
        "large": "SELECT id, upper(region) AS region, amount FROM sales WHERE amount > 3",
        "revenue": "SELECT region, sum(amount) AS s, count(*) AS n, avg(amount) AS a FROM sales GROUP BY region",
        "large_revenue": "SELECT region, count(amount) AS n, sum(id) AS ids FROM large GROUP BY region",
        "spread": "SELECT n, count(*) AS regions, sum(s) AS s FROM revenue GROUP BY n",
    }
    for name, query in nodes.items():
        lake.create_stream_table(name, query, refresh_mode=random.choice(MODES))
    for _ in range(8):
        lake.sql(_some_change(random))
        lake.refresh(*random.sample(sorted(nodes), random.randint(1, len(nodes))))
        for name in nodes:
            assert lake.check(name), lake.check(name)
    lake.refresh()
    assert all(lake.check(name) for name in nodes)


def _some_change(random: Random) -> str:
    key, value = random.randint(1, 5), random.choice([1, 3.5, 4, "NULL"])
    return random.choice(
        [
            f"INSERT INTO sales VALUES ({key}, 'r{key % 3}', {value}), ({key}, NULL, 9)",
            f"UPDATE sales SET amount = {value}, region = 'r{key}' WHERE id = {key}",
            f"DELETE FROM sales WHERE id = {key}",
            f"MERGE INTO sales t USING (SELECT {key} AS id) s ON t.id = s.id AND t.amount > 3 "
            "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, region, amount) VALUES (s.id, 'm', 5)",
        ]
    )
