"""Large appends are written by executors; the driver learns the files' names and nothing else."""

from __future__ import annotations

import psutil
import pytest

from anabranch.store.ducklake import DuckLakeStore
from anabranch.store.transaction import Transaction

from .tools import create, outsider

MEGABYTE = 1024 * 1024


def _append(store: DuckLakeStore, rows: int) -> None:
    table = create(store, "t", "id bigint; s string; d decimal(20,4); l array<int>")
    expressions = ("id", "concat('row ', id) AS s", "cast(id / 7 AS decimal(20,4)) AS d", "array(1, 2) AS l")
    frame = store.spark.range(0, rows, 1, 4).selectExpr(*expressions)
    before = psutil.Process().memory_info().rss
    work = Transaction(store)
    work.write("t", inserts=frame)
    version = work.commit()
    grown = psutil.Process().memory_info().rss - before
    print(f"\n{rows} rows appended: the driver's memory grew by {grown / MEGABYTE:.0f} MB")
    assert grown < 100 * MEGABYTE, f"{grown / MEGABYTE:.0f} MB for {rows} rows"
    assert store.row_count(table, version) == rows
    sums = store.read(table, version).selectExpr("sum(id)", "count(DISTINCT s)").collect()[0]
    assert tuple(sums) == (rows * (rows - 1) // 2, rows)
    with outsider(store.staging.parent) as client:
        assert client.execute("SELECT count(*), max(id) FROM t").fetchall() == [(rows, rows - 1)]


def test_a_large_append_leaves_the_drivers_memory_flat(store: DuckLakeStore) -> None:
    _append(store, 300_000)


@pytest.mark.soak
def test_ten_million_rows(store: DuckLakeStore) -> None:
    _append(store, 10_000_000)
