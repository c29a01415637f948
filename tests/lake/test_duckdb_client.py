"""Others are welcome: a plain DuckDB client reads everything at any snapshot, and writes to sources."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

import anabranch
from anabranch import Lake
from anabranch.store.connection import extension_path
from tests.lake.tools import bag, head, outsider, rows, seen_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BY_REGION = "SELECT region, SUM(amount) AS revenue, AVG(amount) AS mean FROM sales GROUP BY region"


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE sales (id BIGINT, region STRING, amount DECIMAL(9,2))")
    lake.sql("INSERT INTO sales VALUES (1, 'north', 10), (2, 'south', 5)")
    lake.create_stream_table("revenue", BY_REGION, refresh_mode="DIFFERENTIAL")
    lake.create_stream_table("top", "SELECT * FROM revenue ORDER BY revenue DESC LIMIT 1", refresh_mode="DIFFERENTIAL")
    return lake


def test_every_table_is_read_at_every_snapshot(shop: Lake) -> None:
    shop.sql("UPDATE sales SET amount = 1 WHERE region = 'north'")
    shop.refresh()
    shop.sql("DELETE FROM sales WHERE id = 2")
    shop.refresh()
    client = outsider(shop)
    found = 0
    for snapshot in shop._engine.store.snapshots():
        number = snapshot.version.number
        names = shop._engine.store.views(snapshot.version)
        for name in {"sales", *(view.name for view in names)} if number > 1 else ():
            theirs = seen_by(client, f"SELECT * FROM {name} AT (VERSION => {number})")
            assert theirs == rows(shop, name, number), (name, number)
            found += 1
    assert found > 12
    assert rows(shop, "top") == bag(("north", Decimal("1.00"), Decimal("1.000000")))


def test_its_writes_are_changes_like_our_own(shop: Lake) -> None:
    client = outsider(shop)
    client.execute("INSERT INTO sales VALUES (3, 'west', 7), (3, 'west', 7)")
    client.execute("UPDATE sales SET amount = amount + 1 WHERE region = 'north'")
    client.execute("BEGIN")
    client.execute("DELETE FROM sales WHERE region = 'south'")
    client.execute("INSERT INTO sales VALUES (4, 'north', 0.5)")
    client.execute("COMMIT")
    report = shop.refresh()
    assert (report["revenue"].action, report["revenue"].rows_inserted) == ("DIFFERENTIAL", 2)
    expected = bag(("north", Decimal("11.50"), Decimal("5.750000")), ("west", Decimal("14.00"), Decimal("7.000000")))
    assert rows(shop, "revenue") == seen_by(client, "SELECT * FROM revenue") == expected
    assert shop.check("revenue")
    assert shop.check("top")
    assert shop.refresh().spark_jobs == 0


def test_rows_that_it_keeps_in_the_catalog_are_read_too(shop: Lake) -> None:
    client = outsider(shop)
    client.execute("CALL theirs.set_option('data_inlining_row_limit', 100, table_name => 'sales')")
    client.execute("INSERT INTO sales VALUES (5, 'east', 1)")
    client.execute("UPDATE sales SET amount = 2 WHERE id = 5")
    shop.refresh()
    assert rows(shop, "revenue")[("east", Decimal("2.00"), Decimal("2.000000"))] == 1
    client.execute("DELETE FROM sales WHERE id = 5")
    client.execute("CALL ducklake_flush_inlined_data('theirs')")
    shop.refresh()
    assert shop.check("revenue")
    assert seen_by(client, "SELECT * FROM revenue") == rows(shop, "revenue")


def test_its_compaction_is_no_change(shop: Lake) -> None:
    client = outsider(shop)
    for number in range(6):
        client.execute(f"INSERT INTO sales VALUES ({10 + number}, 'north', {number})")
    shop.refresh()
    client.execute("DELETE FROM sales WHERE id < 14")
    shop.refresh()
    client.execute("CALL ducklake_merge_adjacent_files('theirs')")
    client.execute("CALL ducklake_rewrite_data_files('theirs', delete_threshold => 0.1)")
    before = head(shop)
    assert {each.action for each in shop.refresh().values()} == {"NO_DATA"}
    assert head(shop) == before
    client.execute("UPDATE sales SET amount = 100 WHERE id = 15")
    assert shop.refresh()["revenue"].action == "DIFFERENTIAL"
    assert shop.check("revenue")


def test_it_may_create_tables_that_stream_tables_read(shop: Lake) -> None:
    client = outsider(shop)
    client.execute("CREATE TABLE rates (region VARCHAR, rate DOUBLE)")
    client.execute("INSERT INTO rates VALUES ('north', 0.5), ('south', 2)")
    shop.create_stream_table(
        "converted", "SELECT region, CAST(revenue * rate AS DECIMAL(9,2)) AS r FROM revenue JOIN rates USING (region)"
    )
    client.execute("UPDATE rates SET rate = 10 WHERE region = 'south'")
    shop.refresh()
    assert rows(shop, "converted") == bag(("north", Decimal("5.00")), ("south", Decimal("50.00")))


def test_a_lake_of_its_own_with_views_is_adopted(spark: SparkSession, tmp_path: Path) -> None:
    catalog = f"sqlite:{tmp_path}/theirs.sqlite"
    with duckdb.connect() as client:
        for name in ("ducklake", "sqlite_scanner"):
            client.execute(f"LOAD '{extension_path(name)}'")
        client.execute(f"ATTACH 'ducklake:{catalog}' AS theirs (DATA_PATH '{tmp_path}/files')")
        client.execute("CREATE TABLE theirs.sales AS SELECT 1::BIGINT AS id, 2 AS amount")
        client.execute("CREATE VIEW theirs.doubled AS SELECT amount * 2 AS twice FROM theirs.sales")
    with anabranch.connect(str(tmp_path / "shop"), spark=spark, catalog=catalog) as lake:
        lake.create_stream_table("total", "SELECT sum(amount) AS total FROM sales")
        lake.sql("INSERT INTO sales VALUES (2, 3)")
        lake.refresh()
        assert rows(lake, "total") == bag((5,))
