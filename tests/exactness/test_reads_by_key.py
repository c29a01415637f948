"""The random queries once more, with tables that are read as large ones are: by scans for keys, or by key indexes.

The tables of tests are small, and small tables are read as a whole. Here nothing is. A fault that this found:
filters of several stream tables over one change were worked out beside a time window, which drops rows without a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from anabranch import Lake, inputs
from anabranch.spark.moved import Moved
from anabranch.store import ducklake, few, local, pick
from anabranch.store.ducklake import DuckLakeStore
from tests.exactness.lively import GRAPHS, MOVED, TICKS, changes_of, chosen_queries
from tests.exactness.run_graph import run_graph
from tests.exactness.tally import Tally

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from anabranch.observe.report import Report

NODES = 10


def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """No table is kept at hand."""
    monkeypatch.setattr(inputs, "SMALL_TABLE_ROWS", -1)
    monkeypatch.setattr(ducklake, "few_rows", lambda *_: None)


def all_are_large(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """No table is read as a whole by the driver, and files with more rows are worth an index."""
    for module in (few, ducklake):
        monkeypatch.setattr(module, "is_medium", lambda *_: False)
    for module in (local, pick):
        monkeypatch.setattr(module, "LARGE", rows)


@pytest.fixture
def picks(monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """Nothing is small any more; how often rows were asked of an index, in vain and with success."""
    nothing_is_small(monkeypatch)
    all_are_large(monkeypatch, 0)
    found: Counter[bool] = Counter()
    original = DuckLakeStore.pick

    def counted(store: DuckLakeStore, *arguments: object) -> pa.Table | None:
        rows = original(store, *arguments)  # type: ignore[arg-type]
        found[rows is not None] += 1
        return rows

    monkeypatch.setattr(DuckLakeStore, "pick", counted)
    return found


@pytest.mark.parametrize(("room", "ticks"), [(4_000_000_000, 2), (0, 1)])
def test_graph(
    spark: SparkSession, picks: Counter[bool], monkeypatch: pytest.MonkeyPatch, room: int, ticks: int
) -> None:
    monkeypatch.setenv("ANABRANCH_KEY_INDEX_MAX_BYTES", str(room))
    made = dict(list(chosen_queries(0).items())[:NODES])
    run_graph(spark, made, ticks, Tally(), rng=changes_of(0), moved=MOVED)
    assert picks[False]
    assert bool(picks[True]) is bool(room), "rows were found by an index, if there could be one"


@pytest.mark.soak
@pytest.mark.parametrize("number", range(GRAPHS))
def test_all_graphs(spark: SparkSession, picks: Counter[bool], number: int) -> None:
    run_graph(spark, chosen_queries(number), TICKS, Tally(), rng=changes_of(number), moved=MOVED)
    assert picks[True]


AFTER_THE_MOVE = {
    "below_average": "SELECT d.brand, l.part, l.quantity FROM lines l JOIN parts d ON l.part = d.part"
    " WHERE l.quantity < (SELECT avg(x.quantity) FROM lines x WHERE x.part = l.part)",
    "often_sold": "SELECT d.part, d.brand, l.quantity FROM parts d JOIN lines l ON d.part = l.part WHERE d.part IN"
    " (SELECT part FROM lines GROUP BY part HAVING sum(quantity) > 12)",
    "least": "SELECT d.brand, l.part, l.shop FROM lines l JOIN parts d ON l.part = d.part"
    " WHERE l.quantity = (SELECT min(x.quantity) FROM lines x WHERE x.part = l.part AND x.shop = l.shop)",
    "copies": "SELECT part, quantity FROM lines WHERE quantity > 0",
    "of_copies": "SELECT d.brand, c.part, c.quantity FROM parts d JOIN copies c ON d.part <=> c.part",
    "to_copies": "SELECT c.part, c.quantity, d.brand FROM copies c LEFT JOIN parts d ON d.part = c.part",
}
"""Each reads by keys what moves in the same tick: sums, averages and extremes of its own, and another's copies."""

CHANGES = [
    ["UPDATE lines SET quantity = quantity + 5 WHERE part = 3", "UPDATE parts SET brand = 'new' WHERE part IN (3, 4)"],
    ["DELETE FROM lines WHERE part = 5", "UPDATE parts SET brand = 'gone' WHERE part IN (5, 6)"],
    [
        "INSERT INTO lines VALUES (900, 1, 7), (900, 1, 7), (900, 2, 7), (7, 1, 8), (7, 1, 8), (NULL, 1, 2)",
        "INSERT INTO lines VALUES (NULL, 1, 2)",
        "INSERT INTO parts VALUES (900, 'born'), (900, 'born'), (NULL, 'of no part')",
    ],
    [
        "DELETE FROM lines WHERE part = 900 AND shop = 1",
        "DELETE FROM lines WHERE part IS NULL",
        "DELETE FROM parts WHERE part = 7",
    ],
    ["UPDATE lines SET part = NULL, quantity = 1 WHERE part = 8", "INSERT INTO lines VALUES (5, 1, 3), (5, NULL, 3)"],
]
"""Groups that change, die, are born twice over, lose their copies, move to no key and come back."""


@pytest.fixture
def shop(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Nothing is small, rows come up to three times, and stream tables read what moves in the same tick."""
    nothing_is_small(monkeypatch)
    lake.sql("CREATE TABLE lines (part BIGINT, shop BIGINT, quantity BIGINT)")
    lake.sql("CREATE TABLE parts (part BIGINT, brand STRING)")
    copies = "SELECT id, explode(sequence(1, 1 + id % 3)) AS copy FROM range(400)"
    lake.append("lines", lake.sql(f"SELECT id % 100 AS part, id % 2 AS shop, id % 7 AS quantity FROM ({copies})"))
    lake.append("parts", lake.sql("SELECT id AS part, concat('brand ', id % 9) AS brand FROM range(100)"))
    for name, query in AFTER_THE_MOVE.items():
        lake.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
    return lake


def refreshed(lake: Lake, statements: list[str], ahead: Sequence[str]) -> Report:
    """The tick after these changes, some tables a tick ahead; all were moved differentially and are right."""
    for statement in statements:
        lake.sql(statement)
    for name in ahead:
        lake.refresh(name)
    report = lake.refresh()
    for name in AFTER_THE_MOVE:
        assert report[name].action == ("NO_DATA" if name in ahead else "DIFFERENTIAL"), report[name].error
        result = lake.check(name)
        assert result, f"{name} after {statements}: {result}"
    return report


@pytest.mark.parametrize("ahead", [(), ("copies",)])
def test_what_has_moved_is_picked(shop: Lake, monkeypatch: pytest.MonkeyPatch, ahead: Sequence[str]) -> None:
    """Through the index: the rows that the lake has, less those that go, plus those that come."""
    all_are_large(monkeypatch, 20)
    scans = [refreshed(shop, statements, ahead).table_scans for statements in CHANGES]
    assert scans[0] > 0, "what is missed here has an index in the next tick"
    assert max(scans[1:]) <= len(ahead), "what an earlier tick has moved is Spark's, and so are the keys in it"


@pytest.mark.parametrize("ahead", [(), ("copies",)])
def test_what_has_moved_is_read_as_a_whole(shop: Lake, monkeypatch: pytest.MonkeyPatch, ahead: Sequence[str]) -> None:
    """By the driver, where that is not much to read."""
    monkeypatch.setattr(Moved, "after", lambda *_: pytest.fail("Spark reads it"))
    for statements in CHANGES:
        refreshed(shop, statements, ahead)
