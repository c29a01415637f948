"""A process killed at any step of a refresh, a write or upkeep: a tick is committed or it never happened.

In every run a refresh is killed while executors write; test_kill_commit.py kills it, and writes, at every step of the
commit, and tests/store/test_crash.py everything at every step without Spark. The long tests do it all with Spark.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

import pytest

import anabranch
from anabranch import Lake
from anabranch.store.crashpoints import CRASH_POINTS
from tests.lake.tools import counted, outsider, seen_by
from tests.lake.worker import LOOP, OPERATIONS, Workers, expected, make_shop, revenue_of, top_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = {"fused_refresh_max_delta_rows": 1}
"""So that executors write the files of a refresh, too."""
STEPS = {
    "refresh": [point for point in CRASH_POINTS if point.startswith(("stage.", "commit."))],
    "append": [point for point in CRASH_POINTS if point.startswith("commit.")],
    "append_by_executors": [point for point in CRASH_POINTS if point.startswith(("stage.", "commit."))],
    "change": [point for point in CRASH_POINTS if point.startswith("commit.")],
    "compact": [point for point in CRASH_POINTS if point.startswith("compact.")],
    "expire": [point for point in CRASH_POINTS if point.startswith("expire.")],
}


class Shop:
    """A lake whose processes are killed, and what was asked of it."""

    def __init__(self, lake: Lake, workers: Workers) -> None:
        self.lake = lake
        self.workers = workers
        self.asked: list[tuple[str, int]] = []

    def ask(self, name: str) -> tuple[str, int]:
        self.asked.append((name, len(self.asked) + 1))
        return self.asked[-1]

    def do(self, name: str) -> None:
        """An operation in this process."""
        OPERATIONS[name](self.lake, self.ask(name)[1])

    def check(self) -> None:
        """Every write happened wholly or not at all, in order; every stream table is its query at its frontier.

        A plain DuckDB client reads the rows, and Python works out what they must be: Spark would take longer.
        """
        with outsider(self.lake) as client:
            logged = sorted(number for (number,) in client.execute("SELECT number FROM log").fetchall())
            done = [(name, number) for name, number in self.asked if number in logged]
            assert logged == [number for _, number in done]
            assert seen_by(client, "SELECT * FROM sales") == expected(done)
            for name, query in (("revenue", revenue_of), ("top", top_of)):
                reflected = seen_by(client, f"SELECT * FROM sales AT (VERSION => {self._reflected_by(name)})")
                assert seen_by(client, f"SELECT * FROM {name}") == Counter(query(reflected))
        ticks = self.lake.history().to_pylist()
        assert len({(each["node_name"], each["snapshot"]) for each in ticks}) == len(ticks)

    def _reflected_by(self, name: str) -> int:
        """A snapshot that is kept and shows the sales that the stream table reflects."""
        store = self.lake._engine.store
        ((sales, version),) = self.lake.frontier(name).sources.items()
        kept = (each.version for each in store.snapshots() if each.version >= version)
        return next(each.number for each in kept if store.version_of(sales, each) == version)

    def check_from_scratch(self) -> None:
        """A refresh brings everything up to date, as Spark finds it too."""
        self.lake.refresh()
        self.check()
        sales = counted(self.lake.table("sales"))
        assert counted(self.lake.table("revenue")) == Counter(revenue_of(sales))
        for name in ("revenue", "top"):
            result = self.lake.check(name)
            assert result, result

    def check_nothing_is_left_behind(self) -> None:
        """Once the grace period is over, only the files that the catalog knows are there."""
        context = self.lake._engine.session.sparkContext
        while context.statusTracker().getActiveJobsIds():
            time.sleep(0.1)
        store = self.lake._engine.store
        store._maintainer.grace_seconds = 0.0
        self.lake.compact()
        connection = store._opened.connection
        known = set()
        for table in ("ducklake_data_file", "ducklake_delete_file", "ducklake_files_scheduled_for_deletion"):
            known |= {row[0].rpartition("/")[2] for row in connection.catalog(f"SELECT path FROM {table}")}
        stored = {path.name for path in store._catalog.data.rglob("*") if path.is_file()}
        assert stored == known
        assert list(store.staging.iterdir()) == []


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = str(tmp_path_factory.mktemp("kill") / "shop")
    with anabranch.connect(folder, spark=spark, **SMALL) as lake:
        make_shop(lake)
        workers = Workers(spark, folder, **SMALL)
        yield Shop(lake, workers)
        workers.close()


def kill_at(shop: Shop, name: str, point: str) -> None:
    shop.do("append")
    shop.workers.start([shop.ask(name)], crash_at=point)
    ended = shop.workers.hear("ended")
    assert ended == str(-signal.SIGKILL), f"{point} was not reached by {name}"
    shop.check()


@pytest.mark.parametrize("point", [point for point in STEPS["refresh"] if point.startswith("stage.")])
def test_a_refresh_killed_while_executors_write(shop: Shop, point: str) -> None:
    kill_at(shop, "refresh", point)


def test_nothing_is_left_behind(shop: Shop) -> None:
    """After the kills above."""
    shop.check_nothing_is_left_behind()
    shop.check_from_scratch()


@pytest.mark.soak
@pytest.mark.parametrize(("name", "point"), [(name, point) for name, points in STEPS.items() for point in points])
def test_everything_killed_at_every_named_step(shop: Shop, name: str, point: str) -> None:
    kill_at(shop, name, point)


def kill_at_random(shop: Shop, seeds: range) -> None:
    """Some operations later, and then anywhere within the next ones: by the process's own pace, not by the clock."""
    for seed in seeds:
        chance = Random(seed)
        process = shop.workers.start([shop.ask(LOOP[number % len(LOOP)]) for number in range(seed, seed + 40)])
        shop.workers.hear("ready")
        ready_at = time.monotonic()
        operations = chance.randint(0, 2)
        for _ in range(operations):
            shop.workers.hear("did")
        seconds_each = (time.monotonic() - ready_at) / max(operations, 1)
        time.sleep(chance.uniform(0.0, 2.0 * seconds_each))
        os.kill(process, signal.SIGKILL)
        assert shop.workers.hear("ended") == str(-signal.SIGKILL)
        shop.check()


@pytest.mark.soak
def test_killed_at_many_random_moments(shop: Shop) -> None:
    kill_at_random(shop, range(1000, 1100))
    shop.check_nothing_is_left_behind()
    shop.check_from_scratch()
