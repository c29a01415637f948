"""IMMEDIATE: source and derived rows appear in one snapshot, or neither does."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

import anabranch
from anabranch import AnabranchError
from tests.scheduler.shop import plain_client

if TYPE_CHECKING:
    from tests.scheduler.conftest import Opener


@pytest.fixture
def shop(lake: anabranch.Lake) -> anabranch.Lake:
    """Customers and orders, joined and counted at once; `names` reads the join and is IMMEDIATE too."""
    lake.sql("CREATE TABLE customers (id BIGINT, name STRING)")
    lake.sql("CREATE TABLE orders (customer BIGINT, amount BIGINT)")
    query = "SELECT c.name, o.amount FROM customers c JOIN orders o ON o.customer = c.id"
    lake.create_stream_table("named_orders", query, refresh_mode="IMMEDIATE")
    total = "SELECT name, SUM(amount) AS total FROM named_orders GROUP BY name"
    lake.create_stream_table("totals", total, refresh_mode="IMMEDIATE")
    return lake


def rows(lake: anabranch.Lake, name: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in lake.table(name).collect())


def test_a_write_and_what_follows_from_it_are_one_snapshot(shop: anabranch.Lake) -> None:
    before = shop._engine.store.head().number
    shop.append("customers", [(1, "ada"), (2, "bob")])
    shop.append("orders", [(1, 10), (1, 5), (2, 7)])
    assert shop._engine.store.head().number == before + 2
    assert rows(shop, "totals") == [("ada", 15), ("bob", 7)]
    assert rows(shop.snapshot(before + 1), "totals") == []  # type: ignore[arg-type]
    with shop.transaction():
        shop.sql("UPDATE orders SET amount = amount + 1 WHERE customer = 1")
        shop.sql("DELETE FROM orders WHERE customer = 2")
        shop.sql("INSERT INTO customers VALUES (2, 'bobby')")
        shop.sql("INSERT INTO orders VALUES (2, 1)")
    assert shop._engine.store.head().number == before + 3
    assert rows(shop, "totals") == [("ada", 17), ("bob", 1), ("bobby", 1)]
    reasons = {row["reason"] for row in shop.history().to_pylist() if row["snapshot"] == before + 3}
    assert reasons == {"IMMEDIATE"}
    assert shop.check("named_orders")
    assert shop.check("totals")
    report = shop.refresh()
    assert {each.action for each in report.values()} == {"NO_DATA"}


def test_a_write_that_a_node_cannot_follow_is_not_committed(lake: anabranch.Lake) -> None:
    lake.sql("CREATE TABLE shares (total BIGINT, parts BIGINT)")
    lake.create_stream_table("each", "SELECT total, total / parts AS one FROM shares", refresh_mode="IMMEDIATE")
    lake.append("shares", [(10, 2)])
    before = lake._engine.store.head()
    with pytest.raises(AnabranchError) as refused:
        lake.append("shares", [(10, 0)])
    assert refused.value.code == "DIVIDE_BY_ZERO"
    assert "not committed" in refused.value.message
    assert lake._engine.store.head() == before
    assert len(rows(lake, "shares")) == len(rows(lake, "each")) == 1


def test_two_writers_on_two_sides_of_a_join_do_not_miss_each_other(shop: anabranch.Lake, open_lake: Opener) -> None:
    """Each would see the other side as it was, and the pair of their rows would never be made."""
    other = open_lake()
    start = threading.Barrier(2)

    def write(lake: anabranch.Lake, table: str, values: list[tuple[object, ...]]) -> None:
        start.wait()
        for row in values:
            lake.append(table, [row])

    people = [(number, f"customer {number}") for number in range(3)]
    amounts = [(number, 100 + number) for number in range(3)]
    threads = [
        threading.Thread(target=write, args=(shop, "customers", people)),
        threading.Thread(target=write, args=(other, "orders", amounts)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert rows(shop, "totals") == [(f"customer {number}", 100 + number) for number in range(3)]
    assert shop.check("named_orders")


def test_what_an_outside_client_wrote_is_caught_up_by_the_next_write_or_tick(shop: anabranch.Lake, folder: str) -> None:
    client = plain_client(folder, read_only=False)
    client.execute("INSERT INTO customers VALUES (1, 'ada')")
    shop.append("orders", [(1, 10)])
    assert rows(shop, "totals") == [("ada", 10)]
    client.execute("INSERT INTO orders VALUES (1, 20)")
    client.close()
    assert rows(shop, "totals") == [("ada", 10)]
    report = shop.refresh()
    assert report["totals"].action == "DIFFERENTIAL"
    assert rows(shop, "totals") == [("ada", 30)]
    reasons = [row["reason"] for row in shop.history().to_pylist()]
    assert "FOREIGN_WRITE" in reasons
    assert shop.check("totals")


def test_a_scheduled_node_above_an_immediate_one(shop: anabranch.Lake) -> None:
    shop.append("customers", [(1, "ada")])
    query = "SELECT COUNT(*) AS customers, (SELECT SUM(total) FROM totals) AS total FROM customers"
    shop.create_stream_table("overview", query)
    shop.append("orders", [(1, 10)])
    assert rows(shop, "overview") == [(1, None)]
    shop.refresh()
    assert rows(shop, "overview") == [(1, 10)]
    assert shop.check("overview")


def test_what_immediate_refuses(shop: anabranch.Lake) -> None:
    def code(attempt: object) -> str:
        with pytest.raises(AnabranchError) as refused:
            attempt()  # type: ignore[operator]
        return refused.value.code

    shop.create_stream_table("later", "SELECT COUNT(*) AS n FROM orders")
    reads_later = "SELECT n FROM later"
    reads_clock = "SELECT current_date() AS day, amount FROM orders"
    create = shop.create_stream_table
    assert code(lambda: create("a", reads_later, refresh_mode="IMMEDIATE")) == "IMMEDIATE_READS_LATER"
    assert code(lambda: create("a", reads_clock, refresh_mode="IMMEDIATE")) == "IMMEDIATE_READS_CLOCK"
    assert code(lambda: create("a", "SELECT 1 AS x", "2s", "IMMEDIATE")) == "IMMEDIATE_HAS_NO_SCHEDULE"
    assert code(lambda: shop.pause("totals")) == "IMMEDIATE_CANNOT_PAUSE"
    assert code(lambda: shop.alter_stream_table("named_orders", refresh_mode="AUTO")) == "IMMEDIATE_READS_IT"


def test_the_refresh_mode_may_become_immediate_and_back(lake: anabranch.Lake) -> None:
    lake.sql("CREATE TABLE orders (amount BIGINT)")
    lake.create_stream_table("total", "SELECT SUM(amount) AS total FROM orders", "1h")
    lake.append("orders", [(1,)])
    lake.alter_stream_table("total", refresh_mode="IMMEDIATE")
    assert rows(lake, "total") == [(1,)]
    lake.append("orders", [(2,)])
    assert rows(lake, "total") == [(3,)]
    lake.alter_stream_table("total", refresh_mode="DIFFERENTIAL", schedule="1h")
    lake.append("orders", [(4,)])
    assert rows(lake, "total") == [(3,)]
    lake.refresh()
    assert rows(lake, "total") == [(7,)]
