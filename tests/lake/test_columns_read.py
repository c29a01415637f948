"""Only the columns that queries read are looked at: a change of others is none of a stream table's business."""

from __future__ import annotations

import pytest

from anabranch import Lake
from anabranch import work as work_module
from anabranch.algebra.relation import Relation
from anabranch.choose import Choice
from anabranch.delta.state import Guarded, Part
from anabranch.node_work import plans_of
from tests.lake.tools import bag, rows


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE sales (id BIGINT, product BIGINT, amount BIGINT, note STRING)")
    lake.sql("CREATE TABLE products (product BIGINT, name STRING, stock BIGINT)")
    lake.sql("INSERT INTO sales VALUES (1, 1, 10, 'a'), (2, 1, 5, 'b'), (3, 2, 7, NULL), (3, 2, 7, NULL)")
    lake.sql("INSERT INTO products VALUES (1, 'pen', 3), (2, 'ink', 4)")
    lake.create_stream_table(
        "named", "SELECT name, SUM(amount) AS amount FROM sales JOIN products USING (product) GROUP BY name"
    )
    lake.create_stream_table("counted", "SELECT COUNT(*) AS sales FROM sales")
    return lake


def test_a_change_of_other_columns_leaves_nothing_to_do(shop: Lake) -> None:
    with shop.transaction():
        shop.sql("UPDATE sales SET note = 'c'")
        shop.sql("UPDATE products SET stock = stock + 1")
    report = shop.refresh()
    assert report.spark_jobs == 0
    assert {each.name: (each.rows_inserted, each.rows_deleted) for each in report.nodes.values()} == {
        "named": (0, 0),
        "counted": (0, 0),
    }
    assert shop.check("named")
    assert shop.check("counted")
    assert {each.action for each in shop.refresh().nodes.values()} == {"NO_DATA"}


def test_terms_of_sources_whose_change_is_not_read_are_not_generated(
    shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[frozenset[str]] = []

    def noted(part: Part, choice: Choice, changed: frozenset[str]) -> Relation | Guarded | None:
        asked.append(changed)
        return plans_of(part, choice, changed)

    monkeypatch.setattr(work_module, "plans_of", noted)
    with shop.transaction():
        shop.sql("UPDATE sales SET amount = amount + 1 WHERE id = 1")
        shop.sql("UPDATE products SET stock = 0")
    shop.refresh()
    pinned = shop._engine.pin()
    sources = {pinned.name_of(table) for changed in asked for table in changed if table in pinned.sources}
    assert sources == {"sales"}
    assert rows(shop, "named") == bag(("pen", 16), ("ink", 14))


def test_a_row_that_moves_is_counted_although_no_column_of_it_is_read(shop: Lake) -> None:
    with shop.transaction():
        shop.sql("DELETE FROM sales WHERE id = 3")
        shop.sql("INSERT INTO sales VALUES (9, 2, 1, 'new')")
    shop.refresh()
    assert rows(shop, "counted") == bag((3,))
    assert rows(shop, "named") == bag(("pen", 15), ("ink", 1))


def test_a_query_that_shows_a_table_as_it_is_reads_all_of_it(shop: Lake) -> None:
    shop.create_stream_table("copied", "SELECT * FROM products", refresh_mode="DIFFERENTIAL")
    shop.sql("UPDATE products SET stock = 9 WHERE name = 'pen'")
    report = shop.refresh()
    assert (report["copied"].action, report["copied"].rows_inserted, report["named"].rows_inserted) == (
        "DIFFERENTIAL",
        1,
        0,
    )
    assert rows(shop, "copied") == bag((1, "pen", 9), (2, "ink", 4))


def test_a_column_that_one_query_reads_is_there_for_it_alone(shop: Lake) -> None:
    shop.create_stream_table("notes", "SELECT id, upper(note) AS note FROM sales WHERE note IS NOT NULL")
    shop.sql("UPDATE sales SET note = 'z' WHERE id = 2")
    report = shop.refresh()
    assert {each.name for each in report.nodes.values() if each.rows_inserted or each.rows_deleted} == {"notes"}
    assert rows(shop, "notes") == bag((1, "A"), (2, "Z"))
