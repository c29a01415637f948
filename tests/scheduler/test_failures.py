"""A member that fails or is held: its convergence waits and says why, the rest goes on, and it catches up at once."""

from __future__ import annotations

import pytest

import anabranch
from anabranch import AnabranchError
from tests.scheduler.shop import SUMMARY, check_every_snapshot, scheduler_of, wait_until

REGION = "SELECT region, SUM(amount) AS revenue FROM sales GROUP BY region"
PRODUCT = "SELECT product_id, SUM(amount / parts) AS revenue FROM sales GROUP BY product_id"


@pytest.fixture
def shop(lake: anabranch.Lake) -> anabranch.Lake:
    """The diamond, its second member failing on sales with no parts; `regions` is another branch."""
    lake.sql("CREATE TABLE sales (region STRING, product_id BIGINT, amount DECIMAL(12,2), parts INT)")
    lake.sql("INSERT INTO sales VALUES ('north', 1, 10, 1), ('south', 2, 20, 1)")
    lake.create_stream_table("revenue_by_region", REGION, "1h")
    lake.create_stream_table("revenue_by_product", PRODUCT, "1h")
    lake.create_stream_table("exec_summary", SUMMARY, "1h")
    lake.create_stream_table("regions", "SELECT COUNT(*) AS n FROM revenue_by_region", "1h")
    return lake


def totals(lake: anabranch.Lake) -> tuple[float, ...]:
    (row,) = lake.table("exec_summary").collect()
    return tuple(float(value) for value in row)


def test_a_failing_member(shop: anabranch.Lake, folder: str) -> None:
    shop.sql("INSERT INTO sales VALUES ('east', 3, 5, 0)")
    for attempt in (1, 2, 3):
        report = shop.refresh()
        assert report["revenue_by_product"].action == "FAILED"
        assert report["revenue_by_product"].reason == "DIVIDE_BY_ZERO"
        assert report["exec_summary"].action == "SKIPPED"
        assert status(shop, "revenue_by_product")["consecutive_errors"] == attempt
        if attempt == 1:
            assert report["revenue_by_region"].action == report["regions"].action == "DIFFERENTIAL"
    assert totals(shop) == (30, 30)
    suspended = status(shop, "revenue_by_product")
    assert suspended["state"] == "SUSPENDED"
    assert "zero" in suspended["error"].lower()
    report = shop.refresh()
    assert report["revenue_by_product"].reason.startswith("SUSPENDED")
    assert report["exec_summary"].reason.startswith("WAITING_FOR_FRONTIER")
    assert "revenue_by_product" in report["exec_summary"].reason

    shop.sql("INSERT INTO sales VALUES ('west', 4, 7, 1)")
    shop.sql("UPDATE sales SET parts = 1 WHERE parts = 0")
    shop.refresh()
    assert totals(shop) == (30, 30)
    shop.resume("revenue_by_product")
    report = shop.refresh()
    assert report["exec_summary"].action == "DIFFERENTIAL"
    assert totals(shop) == (42, 42)
    assert status(shop, "revenue_by_product")["consecutive_errors"] == 0
    for name in ("revenue_by_region", "revenue_by_product", "exec_summary", "regions"):
        assert shop.check(name)
    check_every_snapshot(shop, folder, whole=False)


def test_a_failed_node_backs_off_and_the_scheduler_goes_on(shop: anabranch.Lake) -> None:
    for name in ("revenue_by_region", "revenue_by_product", "exec_summary", "regions"):
        shop.alter_stream_table(name, schedule="200ms")
    shop.sql("INSERT INTO sales VALUES ('east', 3, 5, 0)")
    with scheduler_of(shop):
        assert wait_until(lambda: status(shop, "revenue_by_product")["state"] == "SUSPENDED", 120)
        shop.sql("INSERT INTO sales VALUES ('west', 4, 7, 1)")
        assert wait_until(lambda: shop.table("regions").collect()[0][0] == 4, 60)
        shop.sql("DELETE FROM sales WHERE parts = 0")
        shop.resume("revenue_by_product")
        assert wait_until(lambda: totals(shop) == (37, 37), 60)
    started = [row["started_at"] for row in shop.history().to_pylist() if row["action"] == "FAILED"]
    assert len(started) == 3


def test_a_paused_member(shop: anabranch.Lake, folder: str) -> None:
    shop.pause("revenue_by_product")
    shop.sql("INSERT INTO sales VALUES ('east', 3, 5, 1)")
    report = shop.refresh()
    assert report["revenue_by_region"].action == report["regions"].action == "DIFFERENTIAL"
    assert report["revenue_by_product"].reason.startswith("PAUSED")
    assert report["exec_summary"].reason.startswith("WAITING_FOR_FRONTIER")
    assert '"revenue_by_product" (PAUSED)' in report["exec_summary"].reason
    assert totals(shop) == (30, 30)
    assert status(shop, "revenue_by_product")["state"] == "PAUSED"
    assert status(shop, "exec_summary")["state"] == "WAITING"
    assert '"revenue_by_product" (PAUSED)' in str(status(shop, "exec_summary")["waiting_for"])
    assert "WAIT, WAITING_FOR_FRONTIER" in shop.explain("exec_summary")["next tick"]
    shop.resume("revenue_by_product")
    shop.refresh()
    assert totals(shop) == (35, 35)
    check_every_snapshot(shop, folder, whole=False)


def test_a_node_cannot_be_created_where_its_inputs_cannot_agree(shop: anabranch.Lake) -> None:
    shop.pause("revenue_by_product")
    shop.sql("INSERT INTO sales VALUES ('east', 3, 5, 1)")
    shop.refresh()
    query = "SELECT r.revenue FROM revenue_by_region r JOIN revenue_by_product p ON r.revenue = p.revenue"
    with pytest.raises(AnabranchError) as refused:
        shop.create_stream_table("both", query)
    assert refused.value.code == "INPUTS_DISAGREE"
    assert "PAUSED" in refused.value.detail
    shop.resume("revenue_by_product")
    shop.create_stream_table("both", query)
    assert shop.check("both")
    assert shop.frontier("both").sources == shop.frontier("revenue_by_product").sources


def test_the_scheduler_as_a_whole_is_paused_and_drained(shop: anabranch.Lake) -> None:
    shop.alter_stream_table("regions", schedule="100ms")
    shop.alter_stream_table("revenue_by_region", schedule="calculated")
    shop.pause()
    with scheduler_of(shop):
        shop.sql("INSERT INTO sales VALUES ('east', 3, 5, 1)")
        assert not wait_until(lambda: shop.table("regions").collect()[0][0] == 3, 3)
        shop.resume()
        assert wait_until(lambda: shop.table("regions").collect()[0][0] == 3, 60)
        assert shop.drain(60)
        shop.sql("INSERT INTO sales VALUES ('west', 3, 5, 1)")
        assert not wait_until(lambda: shop.table("regions").collect()[0][0] == 4, 3)


def status(lake: anabranch.Lake, name: str) -> dict[str, object]:
    return next(row for row in lake.status().to_pylist() if row["name"] == name)
