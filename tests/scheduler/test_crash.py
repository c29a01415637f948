"""A scheduler killed at any moment loses nothing and repeats nothing; two refreshers at once do neither."""

from __future__ import annotations

import signal
import threading
import time
from random import Random
from typing import TYPE_CHECKING

import pytest

import anabranch
from anabranch.scheduler import holder
from tests.scheduler.scheduler_process import start_scheduler
from tests.scheduler.shop import (
    Writer,
    change_schedules,
    check_every_snapshot,
    in_threads,
    make_diamond,
    random_sales,
    wait_until,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.scheduler.conftest import Opener

MEMBERS = ("revenue_by_region", "revenue_by_product", "exec_summary")


def test_a_killed_scheduler_loses_nothing(spark: SparkSession, lake: anabranch.Lake, folder: str) -> None:
    kill_many_times(spark, lake, folder, times=3)


@pytest.mark.soak
def test_fifty_killed_schedulers_lose_nothing(spark: SparkSession, lake: anabranch.Lake, folder: str) -> None:
    kill_many_times(spark, lake, folder, times=50)


def kill_many_times(spark: SparkSession, lake: anabranch.Lake, folder: str, times: int) -> None:
    """Each is killed after its first tick, anywhere within the time that the next ones take."""
    make_diamond(lake)
    change_schedules(lake, 0.1)
    rng = Random(times)
    writer = Writer(lake, 5)
    before = lake.history().num_rows
    with in_threads(writer):
        for _ in range(times):
            process = start_scheduler(spark, folder)
            try:
                time.sleep(rng.uniform(0, 1.5 * seconds_until_a_tick(lake)))
            finally:
                process.kill()
                process.wait(30)
    lake.refresh()
    looked_at = check_every_snapshot(lake, folder)
    ticks = lake.history().num_rows - before
    print(f"\n{times} kills, {writer.commits} writes, {ticks} refreshes of nodes, {looked_at} snapshots looked at")
    for name in MEMBERS:
        assert lake.check(name)


def seconds_until_a_tick(lake: anabranch.Lake) -> float:
    rows, started = lake.history().num_rows, time.monotonic()
    assert wait_until(lambda: lake.history().num_rows > rows, 300)
    return time.monotonic() - started


def test_sigterm_ends_the_scheduler_cleanly_and_another_takes_over(
    spark: SparkSession, lake: anabranch.Lake, folder: str
) -> None:
    make_diamond(lake)
    change_schedules(lake, 0.1)
    first, second = start_scheduler(spark, folder), start_scheduler(spark, folder)
    try:
        assert wait_until(lambda: holder(lake._engine) is not None, 60)
        assert {first.pid, second.pid} > {holder(lake._engine).process}  # type: ignore[union-attr]
        leading, standing_by = (first, second) if holder(lake._engine).process == first.pid else (second, first)  # type: ignore[union-attr]
        lake.append("sales", random_sales(Random(1), 3))
        time.sleep(0.3)
        leading.send_signal(signal.SIGTERM)
        assert leading.wait(60) == 0
        assert leading.stdout.read() == "ended\n"  # type: ignore[union-attr]
        assert wait_until(lambda: (held := holder(lake._engine)) is not None and held.process == standing_by.pid, 60)
        lake.append("sales", random_sales(Random(2), 3))
        newest = lake._engine.store.head()
        assert wait_until(lambda: lake._engine.store.head() > newest, 60)
    finally:
        for process in (first, second):
            process.terminate()
            process.wait(60)
    lake.refresh()
    check_every_snapshot(lake, folder)


def test_two_refreshers_at_once(lake: anabranch.Lake, open_lake: Opener, folder: str) -> None:
    make_diamond(lake)
    other = open_lake()
    rng = Random(3)
    for _ in range(3):
        lake.append("sales", random_sales(rng, 4))
        threads = [threading.Thread(target=each.refresh) for each in (lake, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    check_every_snapshot(lake, folder)
    for name in MEMBERS:
        assert lake.check(name)
