"""From an open lake to what the page shows. Reads the catalog only: no Spark job, and safe beside a running tick."""

from __future__ import annotations

import os
import socket
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from anabranch.algebra.relation import Column
from anabranch.definitions import Condition, StreamTable
from anabranch.engine import Engine
from anabranch.graph.frontier import CLOCK, Frontier
from anabranch.manage import SCHEDULER
from anabranch.observe.graph import diamonds_at
from anabranch.observe.sizes import Sizes
from anabranch.observe.tables import pending_rows, waits_of
from anabranch.observe.web.model import (
    ColumnView,
    DiamondView,
    ErrorView,
    FrontierLine,
    LakeView,
    LastRefresh,
    LostTick,
    NodeView,
    PendingView,
    SchedulerView,
    SourceView,
)
from anabranch.pinned import Pinned
from anabranch.scheduler import Scheduler, holder
from anabranch.store.protocol import Version


@dataclass(frozen=True)
class _Around:
    """What is known of all nodes together: by id what each waits for; by name the rest."""

    waits: Mapping[str, str]
    pending: Mapping[str, int]
    members: Mapping[str, tuple[str, ...]]
    ends: Mapping[str, list[str]]

    @staticmethod
    def of(waits: Mapping[str, str], pending: Iterable[PendingView], diamonds: Iterable[DiamondView]) -> _Around:
        rows: Counter[str] = Counter()
        for each in pending:
            rows[each.name] += each.changed_rows_at_most
        members, ends = {}, defaultdict(list)
        for diamond in diamonds:
            members[diamond.convergence] = diamond.members
            for name in diamond.members:
                ends[name].append(diamond.convergence)
        return _Around(waits, rows, members, ends)


class Collector:
    """Makes views of one lake; what does not change is asked once."""

    def __init__(self, engine: Engine, scheduler: Scheduler) -> None:
        self._engine = engine
        self._scheduler = scheduler
        self._sizes = Sizes(engine.store)
        self._last: dict[str, LastRefresh] = {}
        self._read_to: Version | None = None

    def collect(self, revision: int = 0) -> LakeView:
        """The lake as it is now."""
        engine, pinned = self._engine, self._engine.pin()
        self._read_history(pinned.version)
        pending = tuple(PendingView(**row) for row in pending_rows(pinned, self._sizes))
        diamonds = tuple(DiamondView(**vars(each)) for each in diamonds_at(engine, pinned))
        around = _Around.of(waits_of(engine, pinned), pending, diamonds)
        return LakeView(
            engine.path,
            pinned.version.number,
            datetime.now(UTC).isoformat(),
            self._scheduler_view(pinned),
            tuple(self._source(pinned, table) for table in sorted(pinned.sources, key=pinned.name_of)),
            tuple(self._node(pinned, node, around) for node in pinned.nodes.values()),
            diamonds,
            pending,
            tuple(LostTick(each.at.isoformat(), each.code, each.message, each.hint) for each in engine.ticks.lost()),
            engine.ticks.totals,
            revision,
        )

    def _read_history(self, upto: Version) -> None:
        """Take in the newest refresh of each node, reading on from where the last look ended."""
        if self._read_to == upto:
            return
        store = self._engine.store
        rows = store.last_history() if self._read_to is None else store.history(since=self._read_to)
        for row in reversed(rows.sort_by([("snapshot", "descending")]).to_pylist()):
            self._last[row["node_id"]] = LastRefresh(
                row["started_at"],
                row["action"],
                row["reason"],
                row["rows_inserted"],
                row["rows_deleted"],
                row["seconds"],
                bool(row["fused"]),
                row["snapshot"],
            )
        self._read_to = upto

    def _source(self, pinned: Pinned, table: str) -> SourceView:
        info = pinned.sources[table]
        version = self._engine.store.version_of(table, pinned.version)
        changed = self._engine.store.first_change_at(table, Version(version.number - 1), pinned.version)
        rows = self._sizes.rows(table, pinned.version)
        return SourceView(table, info.name, rows, version.number, instant(changed), columns_of(info.columns))

    def _node(self, pinned: Pinned, node: StreamTable, around: _Around) -> NodeView:
        condition = pinned.conditions[node.id]
        behind = self._behind_since(pinned, node)
        rows = around.pending.get(node.name, 0)
        return NodeView(
            node.id,
            node.name,
            _state(condition, node.id in around.waits, behind is not None or rows > 0),
            node.refresh_mode.value,
            node.schedule,
            self._sizes.shown_rows(pinned, node),
            tuple(_input_name(pinned, node, table) for table in node.inputs),
            _moment(condition.refreshed_at),
            behind,
            rows,
            self._last.get(node.id),
            around.waits.get(node.id),
            _error(condition.last_error),
            condition.consecutive_errors,
            _moment(condition.retry_at),
            around.members.get(node.name, ()),
            tuple(around.ends.get(node.name, ())),
            node.query.strip(),
            columns_of(node.columns),
        )

    def _behind_since(self, pinned: Pinned, node: StreamTable) -> str | None:
        """When the first change was committed, of all sources below, that the node does not reflect."""
        reflected = pinned.frontiers.get(node.id, Frontier()).sources
        store = self._engine.store
        moments = [
            store.first_change_at(table, reflected[table], pinned.version)
            for table in pinned.graph.sources_below(node.id)
            if table in reflected
            and table in pinned.sources
            and store.version_of(table, pinned.version) > reflected[table]
        ]
        return min((found for found in map(instant, moments) if found is not None), default=None)

    def _scheduler_view(self, pinned: Pinned) -> SchedulerView:
        held_by = holder(self._engine)
        ours = held_by is not None and (held_by.host, held_by.process) == (socket.gethostname(), os.getpid())
        if pinned.documents.get(SCHEDULER) == "paused":
            state = "PAUSED"
        elif ours or (held_by is not None and not self._scheduler.is_running):
            state = "RUNNING"
        else:
            state = "STANDING_BY" if self._scheduler.is_running else "STOPPED"
        text = None if held_by is None else f"process {held_by.process} on {held_by.host}"
        return SchedulerView(state, text, self._scheduler.is_ticking)


def frontier_lines(engine: Engine, name: str) -> tuple[FrontierLine, ...]:
    """What a stream table reflects of each source below it, against the newest there is."""
    pinned = engine.pin()
    node = pinned.node(name)
    frontier = pinned.frontiers[node.id]
    lines = []
    for table, at in sorted(frontier.sources.items(), key=lambda each: pinned.name_of(each[0])):
        gone = table not in pinned.sources
        newest = None if gone else engine.store.version_of(table, pinned.version)
        text = "dropped" if newest is None else f"snapshot {newest}"
        behind = newest is None or newest > at
        lines.append(FrontierLine(pinned.name_of(table), f"snapshot {at}", text, behind))
    if frontier.clock is not None:
        lines.append(FrontierLine(CLOCK, frontier.clock, "now", False))
    return tuple(lines)


def columns_of(columns: tuple[Column, ...]) -> tuple[ColumnView, ...]:
    return tuple(ColumnView(each.name, each.type) for each in columns)


def instant(committed_at: str | None) -> str | None:
    """The catalog's way of writing an instant, as ISO 8601 in UTC."""
    if committed_at is None:
        return None
    moment = datetime.fromisoformat(committed_at)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).isoformat()


def _input_name(pinned: Pinned, node: StreamTable, table: str) -> str:
    """The name that an input has now; of one that was dropped, the name it had."""
    is_there = table in pinned.sources or table in pinned.nodes
    return pinned.name_of(table) if is_there else node.input_names.get(table, table)


def _state(condition: Condition, waits: bool, behind: bool) -> str:
    if condition.paused or condition.suspended:
        return "PAUSED" if condition.paused else "SUSPENDED"
    if condition.last_error is not None:
        return "FAILED"
    if waits:
        return "WAITING"
    return "BEHIND" if behind else "FRESH"


def _error(described: Mapping[str, Any] | None) -> ErrorView | None:
    if described is None:
        return None
    return ErrorView(*(str(described.get(each) or "") for each in ("code", "message", "detail", "hint")))


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()
