"""The small pieces between the lake and the page, each as a function of values."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from anabranch.errors import StateError
from anabranch.observe.report import Action, NodeReport, Report
from anabranch.observe.ticks import REMEMBERED, TickLog, TickLost, TickSeen
from anabranch.observe.web.actions import MOST_WAITING, Actions
from anabranch.observe.web.backend import ticks_of
from anabranch.observe.web.cells import LONGEST_CELL, cell_text
from anabranch.observe.web.collect import instant
from anabranch.observe.web.events import Streams, stream
from anabranch.observe.web.model import HistoryEntry, LakeView, SchedulerView
from anabranch.observe.web.pages import Visitor, errors_page, graph_page, pending_page, ticks_page
from anabranch.observe.web.timeline import HALF, timeline
from anabranch.observe.web.watch import Watcher
from tests.web.synthetic import SyntheticBackend, before, shop

NOW = datetime(2026, 5, 1, 10, tzinfo=UTC)


def test_cells_of_every_kind() -> None:
    assert cell_text(None) is None
    assert cell_text("") == ""
    assert cell_text(True) == "true"
    assert cell_text(Decimal("1.50")) == "1.50"
    assert cell_text(b"\x01\xff") == "0x01ff"
    assert cell_text(NOW) == "2026-05-01 10:00:00+00:00"
    assert (
        cell_text({"a": [1, Decimal("2.5"), None], "b": date(2026, 5, 1)})
        == '{"a": [1, "2.5", null], "b": "2026-05-01"}'
    )
    assert cell_text("x" * 999) == "x" * (LONGEST_CELL - 1) + "…"


def test_instants_of_the_catalog() -> None:
    for text in ("2026-05-01 10:00:00+00", "2026-05-01 10:00:00", "2026-05-01 12:00:00+02:00"):
        assert instant(text) == "2026-05-01T10:00:00+00:00"
    assert instant(None) is None


def history_row(tick: str, name: str, snapshot: int, **details: Any) -> dict[str, Any]:
    return {
        "tick_id": tick,
        "node_id": name,
        "node_name": name,
        "started_at": NOW.isoformat(),
        "action": "DIFFERENTIAL",
        "reason": "CHANGED",
        "rows_inserted": 1,
        "rows_deleted": 0,
        "seconds": 0.1,
        "fused": "not_fused" not in details,
        "snapshot": snapshot,
        "details": json.dumps(details) if details else None,
    }


def test_history_rows_become_ticks() -> None:
    """Those of this process with the commit's seconds, others with what they recorded, old ones with nothing."""
    rows = [
        history_row("two", "b", 9, tick_jobs=3, tick_seconds={"plan": 0.1}),
        history_row("two", "a", 9, tick_jobs=3, tick_seconds={"plan": 0.1}, not_fused="FULL"),
        history_row("one", "a", 8, tick_jobs=2, tick_seconds={"plan": 0.2}, error={"code": "X", "message": "no"}),
        history_row("old", "a", 7),
    ]
    report = Report(9, 0.5, 3, {}, {"plan": 0.1, "commit": 0.4})
    two, one, old = ticks_of(rows, {"two": TickSeen("two", NOW, report)})
    assert (two.snapshot, two.spark_jobs, two.seconds) == (9, 3, {"plan": 0.1, "commit": 0.4})
    assert [(each.name, each.not_fused) for each in two.nodes] == [("a", "FULL"), ("b", None)]
    assert two.fused == ("b",)
    assert one.nodes[0].error is not None
    assert (one.seconds, one.nodes[0].error.code) == ({"plan": 0.2}, "X")
    assert (old.spark_jobs, old.seconds) == (None, {})


def test_the_log_of_ticks_counts_all_and_remembers_some() -> None:
    log = TickLog()
    nodes = {name: NodeReport(name, Action.DIFFERENTIAL, "CHANGED") for name in ("a", "b")}
    for number in range(REMEMBERED + 5):
        log.add(TickSeen(str(number), NOW, Report(number, 0.5, 2, nodes)))
    log.add(TickLost(NOW, "CATALOG_BUSY", "busy"))
    assert len(log.seen()) == REMEMBERED
    assert log.totals.ticks == REMEMBERED + 5
    assert log.totals.refreshes == {"DIFFERENTIAL": 2 * (REMEMBERED + 5)}
    assert (log.totals.spark_jobs, log.totals.lost_ticks) == (2 * (REMEMBERED + 5), 1)
    assert [each.code for each in log.lost()] == ["CATALOG_BUSY"]


def test_bars_fit_whatever_was_measured() -> None:
    assert timeline(()).bars == ()
    entries = [
        HistoryEntry("t", "n", before(9), 1, "FULL", "r", rows, 0, seconds, False)
        for seconds, rows in ((0.0, 0), (0.001, 1), (3600.0, 10**9))
    ]
    found = timeline(entries)
    assert found.bars[0].seconds_height == HALF
    assert all(0 <= bar.rows_height <= HALF for bar in found.bars)
    assert [bar.x for bar in found.bars] == sorted(bar.x for bar in found.bars)
    assert found.most_rows == 10**9


class Unsteady(SyntheticBackend):
    """A lake that cannot be reached now and then."""

    away = False

    def state(self) -> tuple[int, ...]:
        if self.away:
            raise OSError("away")
        return super().state()


def test_the_watcher_sees_changes_and_survives_an_outage() -> None:
    backend = Unsteady(shop())
    watcher = Watcher(backend)
    watcher.start()
    try:
        first = watcher.view
        backend.away = True
        backend.change("late", rows=5)
        time.sleep(0.6)
        assert watcher.view is first
        backend.away = False
        until = time.monotonic() + 20
        while watcher.view is first:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert watcher.view.revision > first.revision
        assert watcher.seen(first.revision) is first
        assert watcher.seen(999) is None
    finally:
        watcher.stop()


def in_thread(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """The result of a coroutine, run beside the main thread: there the browser of other tests has its event loop."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(work())))
    thread.start()
    thread.join(30)
    assert found
    return found[0]


def test_a_stream_tells_changes_and_ends_with_the_watcher() -> None:
    backend = SyntheticBackend(shop())
    watcher, streams = Watcher(backend), Streams()

    async def listen() -> list[str]:
        told = []
        async for event in stream(watcher, streams, watcher.view.revision):
            told.append(event)
            assert streams.open == 1
            if len(told) == 1:
                backend.change("late", rows=5)
                watcher.look_now()
            else:
                watcher.stop()
        return told

    told = in_thread(listen)
    assert streams.open == 0
    data = json.loads(told[1].partition("data: ")[2])
    assert [card["name"] for card in data["cards"]] == ["late"]


def test_too_many_actions_are_refused() -> None:
    actions = Actions()
    release = threading.Event()

    async def crowd() -> list[Any]:
        waiting = [asyncio.ensure_future(actions.perform(release.wait)) for _ in range(MOST_WAITING)]
        await asyncio.sleep(0.1)
        with pytest.raises(StateError, match="TOO_MANY_ACTIONS"):
            await actions.perform(lambda: None)
        release.set()
        return await asyncio.gather(*waiting)

    assert in_thread(crowd) == [True] * MOST_WAITING
    actions.close()


def test_an_empty_lake_has_pages() -> None:
    empty = LakeView("/empty", 1, before(0), SchedulerView("STOPPED"))
    assert "Nothing here yet" in graph_page(empty, Visitor())
    assert "Nothing waits" in pending_page(empty, Visitor())
    assert "No stream table fails" in errors_page(empty, Visitor())
    assert "No tick has committed yet" in ticks_page(empty, Visitor(), ())
