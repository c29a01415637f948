"""Definitions that change while others read them: one commit each, and never two truths."""

from __future__ import annotations

import pytest

import anabranch
from anabranch import AnabranchError
from tests.scheduler.shop import SUMMARY

REGION = "SELECT region, SUM(amount) AS revenue FROM sales GROUP BY region"
PRODUCT = "SELECT product_id, SUM(amount) AS revenue FROM sales GROUP BY product_id"
ALL = ("revenue_by_region", "revenue_by_product", "exec_summary")


@pytest.fixture
def shop(lake: anabranch.Lake) -> anabranch.Lake:
    lake.sql("CREATE TABLE sales (region STRING, product_id BIGINT, amount BIGINT)")
    lake.sql("INSERT INTO sales VALUES ('north', 1, 10), ('south', 2, 20), ('south', 1, -1)")
    lake.create_stream_table("revenue_by_region", REGION)
    lake.create_stream_table("revenue_by_product", PRODUCT)
    lake.create_stream_table("exec_summary", SUMMARY)
    return lake


def rows(lake: anabranch.Lake, name: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in lake.table(name).collect())


def test_a_new_query_and_what_reads_it_change_in_one_snapshot(shop: anabranch.Lake) -> None:
    before = shop._engine.store.head().number
    report = shop.alter_stream_table(
        "revenue_by_region", query=REGION.replace("FROM sales", "FROM sales WHERE amount > 0")
    )
    assert report.snapshot == before + 1
    assert report["revenue_by_region"].reason == "QUERY_CHANGED"
    assert report["exec_summary"].action == "DIFFERENTIAL", "it got the difference, not the whole"
    assert rows(shop, "exec_summary") == [(30, 29)]
    at_before = shop.snapshot(before)
    assert at_before.table("exec_summary").collect() == [(29, 29)]
    assert {row[0]: row[1] for row in at_before.table("revenue_by_region").collect()} == {"north": 10, "south": 19}
    for name in ALL:
        assert shop.check(name)
    shop.sql("INSERT INTO sales VALUES ('east', 2, -5)")
    report = shop.refresh()
    assert report["revenue_by_region"].action == "DIFFERENTIAL"
    assert rows(shop, "exec_summary") == [(30, 24)]


def test_columns_may_change_with_the_query(shop: anabranch.Lake) -> None:
    shop.alter_stream_table("revenue_by_product", query=PRODUCT.replace("AS revenue", "AS revenue, COUNT(*) AS sales"))
    assert shop.table("revenue_by_product").columns == ["product_id", "revenue", "sales"]
    assert shop.sql("SELECT SUM(sales) FROM revenue_by_product").collect() == [(3,)]
    for name in ALL:
        assert shop.check(name)


def test_a_query_that_fails_changes_nothing(shop: anabranch.Lake) -> None:
    before = shop._engine.store.head()
    with pytest.raises(AnabranchError) as refused:
        shop.alter_stream_table("revenue_by_region", query="SELECT region, 1 / (amount - 10) AS revenue FROM sales")
    assert refused.value.code == "DIVIDE_BY_ZERO"
    with pytest.raises(AnabranchError) as refused:
        shop.alter_stream_table(
            "revenue_by_region", query="SELECT 'a' AS region, by_region AS revenue FROM exec_summary"
        )
    assert refused.value.code == "CYCLE"
    assert "exec_summary -> revenue_by_region -> exec_summary" in refused.value.detail
    assert shop._engine.store.head() == before


def test_a_held_reader_keeps_what_it_reflects_and_catches_up(shop: anabranch.Lake) -> None:
    shop.pause("exec_summary")
    shop.alter_stream_table("revenue_by_region", query=REGION.replace("SUM(amount)", "SUM(amount) * 2"))
    shop.sql("INSERT INTO sales VALUES ('east', 2, 1)")
    shop.refresh()
    assert rows(shop, "exec_summary") == [(29, 29)]
    assert shop.check("exec_summary"), "compared with its inputs as they were"
    shop.resume("exec_summary")
    shop.refresh()
    assert rows(shop, "exec_summary") == [(60, 30)]
    for name in ALL:
        assert shop.check(name)


def test_a_member_altered_below_a_paused_one(lake: anabranch.Lake) -> None:
    """sales -> a -> b (paused) -> c, and sales -> a -> c: c waits until b reflects the new definition of a."""
    lake.sql("CREATE TABLE sales (id BIGINT, amount BIGINT)")
    lake.sql("INSERT INTO sales VALUES (1, 10), (2, 20)")
    lake.create_stream_table("a", "SELECT id, amount FROM sales")
    lake.create_stream_table("b", "SELECT id, amount FROM a")
    lake.create_stream_table("c", "SELECT a.amount - b.amount AS difference FROM a JOIN b USING (id)")
    lake.pause("b")
    report = lake.alter_stream_table("a", query="SELECT id, amount + 1 AS amount FROM sales")
    assert report["c"].reason.startswith("WAITING_FOR_FRONTIER")
    assert rows(lake, "c") == [(0,), (0,)]
    lake.sql("INSERT INTO sales VALUES (3, 30)")
    lake.refresh()
    assert rows(lake, "c") == [(0,), (0,)]
    assert lake.check("c")
    lake.resume("b")
    lake.refresh()
    assert rows(lake, "c") == [(0,), (0,), (0,)]
    for name in "abc":
        assert lake.check(name)


def test_a_node_created_late_pulls_its_inputs_to_agreement(shop: anabranch.Lake) -> None:
    shop.sql("INSERT INTO sales VALUES ('east', 2, 5)")
    shop.refresh("revenue_by_region")
    assert shop.frontier("revenue_by_region").sources == shop.frontier("revenue_by_product").sources, "one group"
    shop.create_stream_table("regions", "SELECT region FROM revenue_by_region")
    shop.sql("INSERT INTO sales VALUES ('west', 2, 5)")
    report = shop.create_stream_table(
        "late", "SELECT r.region, s.by_product FROM regions r CROSS JOIN exec_summary s CROSS JOIN sales t"
    )
    frontier = shop.frontier("late").sources
    for name in (*ALL, "regions"):
        assert shop.frontier(name).sources == frontier
        assert shop.check(name)
    assert shop.check("late")
    assert any("creates a diamond dependency" in each for each in report.notices)
    late = next(each for each in shop.diamond_groups() if each.convergence == "late")
    assert set(late.members) == {*ALL, "regions"}
    assert late.last_moved == report.snapshot


def test_a_drop_respects_the_graph(shop: anabranch.Lake) -> None:
    with pytest.raises(AnabranchError) as refused:
        shop.drop_stream_table("revenue_by_region")
    assert refused.value.code == "TABLE_IS_READ"
    assert "exec_summary" in refused.value.detail
    shop.drop_stream_table("revenue_by_region", cascade=True)
    assert [row["name"] for row in shop.status().to_pylist()] == ["revenue_by_product"]
    assert repr(shop.dependency_tree("revenue_by_product")) == "revenue_by_product\n  sales"
    assert len(shop.diamond_groups()) == 0
