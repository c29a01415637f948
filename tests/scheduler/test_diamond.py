"""The sales diamond under load: no reader ever sees the two totals differ."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import anabranch
from anabranch.schedule import settle, state
from tests.scheduler.shop import (
    FAILING_PRODUCT,
    WITHIN_THE_SUMMARY,
    Disturber,
    Reader,
    Writer,
    change_schedules,
    check_every_snapshot,
    in_threads,
    make_diamond,
    outside_reader,
    scheduler_of,
    unit_of,
    wait_until,
)

if TYPE_CHECKING:
    from tests.scheduler.conftest import Opener


def test_no_reader_sees_unequal_totals(open_lake: Opener, folder: str) -> None:
    run_under_load(open_lake(), folder, seconds=12.0)


@pytest.mark.soak
def test_no_reader_sees_unequal_totals_for_two_minutes(open_lake: Opener, folder: str) -> None:
    run_under_load(open_lake(), folder, seconds=120.0)


def ticks_since(lake: anabranch.Lake, before: int) -> set[int]:
    return {row["snapshot"] for row in lake.history().to_pylist() if row["snapshot"] > before}


def run_under_load(lake: anabranch.Lake, folder: str, seconds: float) -> None:
    make_diamond(lake)
    change_schedules(lake, unit_of(lake))
    writers, readers = [Writer(lake, seed) for seed in (1, 2)], [Reader(lake)]
    before = lake._engine.store.head().number
    with (
        outside_reader(folder, seconds) as outside,
        scheduler_of(lake),
        in_threads(*writers, *readers),
    ):
        time.sleep(seconds)
        wait_until(lambda: len(ticks_since(lake, before)) >= 3, 180)
    reads, wrong = outside
    looked_at = check_every_snapshot(lake, folder)
    ticks = ticks_since(lake, before)
    print(
        f"\n{seconds:.0f} s: {sum(each.commits for each in writers)} writes, {len(ticks)} ticks, "
        f"{readers[0].reads} reads through Anabranch, {reads} by DuckDB, {looked_at} snapshots looked at"
    )
    assert wrong == []
    assert readers[0].wrong == []
    assert len(ticks) >= 3
    assert min(reads, readers[0].reads, *(each.commits for each in writers)) > 0
    for name in ("revenue_by_region", "revenue_by_product", "exec_summary"):
        assert lake.check(name)


def test_a_branch_that_is_paused_and_fails_under_load(open_lake: Opener, folder: str) -> None:
    run_disturbed(open_lake(), folder, rounds=1)


@pytest.mark.soak
def test_a_branch_that_is_paused_and_fails_under_load_for_long(open_lake: Opener, folder: str) -> None:
    run_disturbed(open_lake(), folder, rounds=6)


def run_disturbed(lake: anabranch.Lake, folder: str, rounds: int) -> None:
    """The summary may be behind its members now; within itself it is equal in every snapshot."""
    make_diamond(lake, product=FAILING_PRODUCT)
    change_schedules(lake, (unit := unit_of(lake)) / 4)
    disturber = Disturber(lake, "revenue_by_product", 2 * unit)
    writer, reader = Writer(lake, 1), Reader(lake, WITHIN_THE_SUMMARY)
    with (
        outside_reader(folder, 12 * unit * rounds, WITHIN_THE_SUMMARY) as outside,
        scheduler_of(lake),
        in_threads(disturber, writer, reader),
    ):
        assert wait_until(lambda: disturber.failed >= rounds, 60 * unit * rounds)
    assert [outside[1], reader.wrong] == [[], []]
    lake.sql("DELETE FROM sales WHERE product_id < 0")
    lake.resume("revenue_by_product")
    lake.refresh()
    looked_at = check_every_snapshot(lake, folder, whole=False)
    print(
        f"\n{disturber.paused} pauses, {disturber.failed} failures, {writer.commits} writes, {reader.reads} reads "
        f"through Anabranch, {outside[0]} by DuckDB, {looked_at} snapshots looked at"
    )
    for name in ("revenue_by_region", "revenue_by_product", "exec_summary"):
        assert lake.check(name)
    frontiers = [lake.frontier(name).sources for name in ("revenue_by_product", "exec_summary")]
    assert frontiers[0] == frontiers[1], "one tick caught up"


def test_without_the_agreement_check_totals_do_differ(lake: anabranch.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    make_diamond(lake)
    change_schedules(lake, unit := unit_of(lake))
    switch_agreement_off(monkeypatch)
    reader = Reader(lake, WITHIN_THE_SUMMARY)
    with scheduler_of(lake), in_threads(Writer(lake, 1), reader):
        found = wait_until(lambda: bool(reader.wrong), 40 * unit)
    print(f"\n{len(reader.wrong)} of {reader.reads} reads were unequal, the first: {reader.wrong[:1]}")
    assert found, "the run above could not have failed"


def switch_agreement_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes move on their own schedules, whatever their inputs reflect."""
    shape_of = state._shape_of.__wrapped__

    def shape_without_groups(described: tuple[object, ...]) -> state.Shape:
        found = shape_of(described)
        return state.Shape(found.graph, (), {}, {})

    monkeypatch.setattr(settle, "agree", lambda *_: None)
    monkeypatch.setattr(state, "_shape_of", shape_without_groups)
