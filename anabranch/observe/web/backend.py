"""What the web page asks of a lake. Pages and API know only this, so that most of their tests need no lake."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from anabranch import manage
from anabranch.engine import Engine
from anabranch.observe.explain import explain
from anabranch.observe.report import Report
from anabranch.observe.ticks import TickSeen
from anabranch.observe.web.cells import cell_text
from anabranch.observe.web.collect import Collector, frontier_lines
from anabranch.observe.web.model import (
    ErrorView,
    FirstRows,
    FrontierLine,
    HistoryEntry,
    LakeView,
    NodeView,
    Section,
    SourceView,
    TickView,
)
from anabranch.refresh import refresh
from anabranch.scheduler import Scheduler
from anabranch.store.protocol import MAIN, TableName

_ROWS_PER_TICK = 40
"""How many history rows are read for each tick that is asked for, at first; a larger graph reads on."""


@dataclass(frozen=True)
class Refreshed:
    """What a refresh that was asked for did."""

    snapshot: int
    seconds: float
    spark_jobs: int | None
    nodes: tuple[HistoryEntry, ...]


class Backend(Protocol):
    """A lake, as the page sees it. Every method may be called from any thread."""

    def collect(self, revision: int) -> LakeView:
        """Everything at a glance."""

    def state(self) -> tuple[int, ...]:
        """Numbers that differ when there is something new to collect; cheap."""

    def frontier(self, node: NodeView) -> tuple[FrontierLine, ...]:
        """What a stream table reflects of its sources."""

    def history(self, node: NodeView | None, limit: int) -> tuple[HistoryEntry, ...]:
        """The newest refreshes of one stream table or of all."""

    def ticks(self, limit: int) -> tuple[TickView, ...]:
        """The newest ticks."""

    def explain(self, node: NodeView) -> tuple[Section, ...]:
        """How and why a stream table is refreshed. May wait for a tick."""

    def first_rows(self, table: NodeView | SourceView, limit: int) -> FirstRows:
        """A few rows, read without a Spark job."""

    def pause(self, *names: str) -> None:
        """Hold stream tables; none: the scheduler."""

    def resume(self, *names: str) -> None:
        """Let stream tables go on; none: the scheduler."""

    def refresh(self, *names: str) -> Refreshed:
        """One tick, now."""


class LakeBackend:
    """The answers of an open lake."""

    def __init__(self, engine: Engine, scheduler: Scheduler) -> None:
        self._engine = engine
        self._scheduler = scheduler
        self._collector = Collector(engine, scheduler)

    def collect(self, revision: int) -> LakeView:
        return self._collector.collect(revision)

    def state(self) -> tuple[int, ...]:
        ticks, scheduler = self._engine.ticks, self._scheduler
        return self._engine.store.head().number, ticks.revision, int(scheduler.is_running)

    def frontier(self, node: NodeView) -> tuple[FrontierLine, ...]:
        return frontier_lines(self._engine, node.name)

    def history(self, node: NodeView | None, limit: int) -> tuple[HistoryEntry, ...]:
        rows = self._engine.store.history(limit, node.id if node else None).to_pylist()
        return tuple(history_entry(row) for row in rows)

    def ticks(self, limit: int) -> tuple[TickView, ...]:
        wanted = limit * _ROWS_PER_TICK
        while True:
            rows = self._engine.store.history(wanted).to_pylist()
            found = ticks_of(rows, self._engine.ticks.seen())
            is_all = len(rows) < wanted
            complete = found if is_all else found[:-1]
            if is_all or len(complete) >= limit:
                return complete[:limit]
            wanted *= 4

    def explain(self, node: NodeView) -> tuple[Section, ...]:
        return tuple(Section(title, text) for title, text in explain(self._engine, node.name).sections)

    def first_rows(self, table: NodeView | SourceView, limit: int) -> FirstRows:
        version = self._engine.store.head()
        rows = self._engine.store.first_rows(TableName(MAIN, table.name), version, limit)
        cells = (tuple(cell_text(value) for value in row.values()) for row in rows.to_pylist())
        return FirstRows(version.number, tuple(rows.column_names), tuple(cells))

    def pause(self, *names: str) -> None:
        manage.hold(self._engine, names, paused=True)

    def resume(self, *names: str) -> None:
        manage.hold(self._engine, names, paused=False)
        self._scheduler.resume()

    def refresh(self, *names: str) -> Refreshed:
        return refreshed(refresh(self._engine, names))


def refreshed(report: Report) -> Refreshed:
    """A report as the API gives it."""
    nodes = (
        HistoryEntry(
            "",
            each.name,
            "",
            report.snapshot,
            each.action.value,
            each.reason,
            each.rows_inserted,
            each.rows_deleted,
            each.seconds,
            each.fused,
            each.not_fused,
            _error(each.error),
        )
        for each in report.values()
    )
    return Refreshed(report.snapshot, report.seconds, report.spark_jobs, tuple(nodes))


def history_entry(row: Mapping[str, Any]) -> HistoryEntry:
    """A row of the history as a value."""
    details = json.loads(row["details"] or "{}")
    return HistoryEntry(
        row["tick_id"],
        row["node_name"],
        row["started_at"],
        row["snapshot"],
        row["action"],
        row["reason"],
        row["rows_inserted"],
        row["rows_deleted"],
        row["seconds"],
        bool(row["fused"]),
        details.get("not_fused"),
        _error(details.get("error")),
    )


def ticks_of(rows: Iterable[Mapping[str, Any]], seen: Mapping[str, TickSeen]) -> tuple[TickView, ...]:
    """History rows, newest first, as ticks; what this process has seen of a tick tells its commit's seconds too."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["tick_id"], []).append(row)
    found = []
    for tick, members in groups.items():
        details = json.loads(members[0]["details"] or "{}")
        seconds = dict(details.get("tick_seconds") or {})
        if tick in seen:
            seconds = dict(seen[tick].report.timings)
        nodes = tuple(history_entry(row) for row in reversed(members))
        jobs = details.get("tick_jobs")
        found.append(TickView(tick, members[0]["started_at"], members[0]["snapshot"], jobs, seconds, nodes))
    return tuple(found)


def _error(described: Mapping[str, Any] | None) -> ErrorView | None:
    if described is None:
        return None
    return ErrorView(*(str(described.get(each) or "") for each in ("code", "message", "detail", "hint")))
