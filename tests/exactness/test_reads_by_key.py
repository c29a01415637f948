"""The random queries once more, with tables that are read as large ones are: by scans for keys, or by key indexes.

The tables of tests are small, and small tables are read as a whole. Here nothing is. A fault that this found:
filters of several stream tables over one change were worked out beside a time window, which drops rows without a time.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from anabranch import inputs
from anabranch.store import ducklake, few, local, pick
from anabranch.store.ducklake import DuckLakeStore
from tests.exactness.lively import GRAPHS, MOVED, TICKS, changes_of, chosen_queries
from tests.exactness.run_graph import run_graph
from tests.exactness.tally import Tally

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

NODES = 10


@pytest.fixture
def picks(monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """Nothing is small any more; how often rows were asked of an index, in vain and with success."""
    monkeypatch.setattr(inputs, "SMALL_TABLE_ROWS", -1)
    monkeypatch.setattr(ducklake, "few_rows", lambda *_: None)
    for module in (few, ducklake):
        monkeypatch.setattr(module, "is_medium", lambda *_: False)
    for module in (local, pick):
        monkeypatch.setattr(module, "LARGE", 0)
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
