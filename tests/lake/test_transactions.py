"""`with lake.transaction()`: several writes, one snapshot, or nothing."""

from __future__ import annotations

import threading

import pytest

from anabranch import AnabranchError, Lake
from anabranch.errors import ConflictError
from tests.lake.tools import bag, head, queried, rows


@pytest.fixture
def sales(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE sales (id BIGINT, amount INT)")
    lake.append("sales", [(1, 10), (2, 20)])
    return lake


def test_several_writes_are_one_snapshot_and_see_each_other(sales: Lake) -> None:
    before = head(sales)
    with sales.transaction():
        sales.sql("INSERT INTO sales VALUES (3, 30)")
        sales.sql("UPDATE sales SET amount = amount + 1 WHERE id >= 2")
        assert rows(sales, "sales") == bag((1, 10), (2, 21), (3, 31))
        sales.sql("DELETE FROM sales WHERE amount = 31")
        sales.append("sales", [{"id": 4}])
        sales.apply("sales", insert=[(5, 5)], delete=[(1, 10)])
        assert queried(sales, "SELECT sum(amount) FROM sales") == bag((26,))
        assert head(sales) == before
    assert head(sales) == before + 1
    assert rows(sales, "sales") == bag((2, 21), (4, None), (5, 5))
    assert rows(sales, "sales", before) == bag((1, 10), (2, 20))


def test_an_exception_leaves_the_lake_as_it_was(sales: Lake) -> None:
    def fail_half_way() -> None:
        with sales.transaction():
            sales.sql("DELETE FROM sales")
            sales.sql("CREATE TABLE other AS SELECT * FROM sales")
            raise ZeroDivisionError

    before = head(sales)
    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert head(sales) == before
    assert rows(sales, "sales") == bag((1, 10), (2, 20))
    with pytest.raises(AnabranchError, match="other"):
        sales.table("other")


def test_a_refused_statement_does_not_end_the_transaction(sales: Lake) -> None:
    with sales.transaction():
        sales.sql("INSERT INTO sales VALUES (3, 30)")
        with pytest.raises(AnabranchError):
            sales.sql("INSERT INTO sales VALUES ('x', 'y')")
    assert rows(sales, "sales") == bag((1, 10), (2, 20), (3, 30))


def test_definitions_inside_are_seen_inside(sales: Lake) -> None:
    before = head(sales)
    with sales.transaction():
        sales.sql("CREATE TABLE totals AS SELECT sum(amount) AS total FROM sales")
        sales.sql("ALTER TABLE sales ADD COLUMN note STRING")
        sales.sql("UPDATE sales SET note = 'large' WHERE amount > (SELECT total / 2 FROM totals)")
        sales.sql("ALTER TABLE sales RENAME COLUMN note TO remark")
        sales.sql("ALTER TABLE sales DROP COLUMN amount")
        sales.sql("INSERT INTO totals SELECT count(*) FROM sales WHERE remark IS NULL")
        sales.sql("CREATE TABLE gone (a INT)")
        sales.sql("DROP TABLE gone")
    assert head(sales) == before + 1
    assert rows(sales, "sales") == bag((1, None), (2, "large"))
    assert rows(sales, "totals") == bag((30,), (1,))


def test_nothing_done_makes_no_snapshot(sales: Lake) -> None:
    before = head(sales)
    with sales.transaction():
        sales.sql("DELETE FROM sales WHERE id = 99")
        sales.append("sales", [])
    assert head(sales) == before


def test_what_is_a_commit_of_its_own_is_refused_inside(sales: Lake) -> None:
    sales.create_stream_table("totals", "SELECT sum(amount) AS total FROM sales")
    refused = [
        sales.refresh,
        lambda: sales.create_stream_table("more", "SELECT * FROM sales"),
        lambda: sales.drop_stream_table("totals"),
        lambda: sales.alter_stream_table("totals", schedule="5s"),
        lambda: sales.sql("CREATE VIEW v AS SELECT 1 AS one"),
        sales.compact,
        lambda: sales.expire("0s"),
        lambda: sales.transaction().__enter__(),
    ]
    with sales.transaction():
        for each in refused:
            with pytest.raises(AnabranchError) as error:
                each()
            assert error.value.code == "TRANSACTION_OPEN"
        sales.sql("INSERT INTO sales VALUES (3, 30)")
    assert rows(sales, "sales") == bag((1, 10), (2, 20), (3, 30))


def test_a_transaction_belongs_to_its_thread(sales: Lake) -> None:
    seen = []
    with sales.transaction():
        sales.sql("INSERT INTO sales VALUES (3, 30)")
        other = threading.Thread(target=lambda: seen.append(rows(sales, "sales")))
        other.start()
        other.join()
    assert seen == [bag((1, 10), (2, 20))]


def test_a_transaction_that_lost_the_race_fails_and_changes_nothing(sales: Lake) -> None:
    def lose() -> None:
        with sales.transaction():
            sales.sql("UPDATE sales SET amount = 0 WHERE id = 1")
            other = threading.Thread(target=lambda: sales.sql("UPDATE sales SET amount = amount + 5"))
            other.start()
            other.join()

    with pytest.raises(ConflictError):
        lose()
    assert rows(sales, "sales") == bag((1, 15), (2, 25))


def test_inserts_of_others_do_not_disturb_a_transaction_that_inserts(sales: Lake) -> None:
    with sales.transaction():
        sales.append("sales", [(3, 30)])
        other = threading.Thread(target=lambda: sales.append("sales", [(4, 40)]))
        other.start()
        other.join()
        assert rows(sales, "sales") == bag((1, 10), (2, 20), (3, 30))
    assert rows(sales, "sales") == bag((1, 10), (2, 20), (3, 30), (4, 40))
