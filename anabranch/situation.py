"""From the lake to what the scheduler decides on: its nodes as states, the pinned versions of all tables."""

from __future__ import annotations

from datetime import UTC, datetime

from anabranch.definitions import Condition, StreamTable
from anabranch.engine import Engine
from anabranch.pinned import Pinned
from anabranch.schedule.schedules import parse_schedule
from anabranch.schedule.state import (
    ClockUse,
    Consistency,
    GraphState,
    GroupSchedule,
    Hold,
    HoldKind,
    NodeState,
    Pin,
)
from anabranch.sql.clock import instant_in


def graph_state(engine: Engine, pinned: Pinned) -> GraphState:
    """All stream tables as the scheduler sees them."""
    names = {table: info.name for table, info in pinned.sources.items()}
    return GraphState.of((node_state(engine, pinned, node) for node in pinned.nodes.values()), names)


def node_state(engine: Engine, pinned: Pinned, node: StreamTable) -> NodeState:
    """One stream table as the scheduler sees it; a new one has no frontier and no condition yet."""
    condition = pinned.conditions.get(node.id, Condition())
    refreshed_at = max(engine.looked_at.get(node.id, 0.0), condition.refreshed_at or 0.0) or None
    return NodeState(
        id=node.id,
        name=node.name,
        inputs=node.inputs,
        schedule=parse_schedule(node.schedule),
        mode=node.refresh_mode.value,
        generation=node.generation,
        frontier=pinned.frontiers.get(node.id),
        refreshed_at=_instant(refreshed_at),
        hold=_hold(pinned, node, condition),
        consecutive_errors=condition.consecutive_errors,
        consistency=Consistency(node.diamond_consistency or engine.settings.text("diamond_consistency")),
        group_schedule=GroupSchedule(node.diamond_schedule_policy or engine.settings.text("diamond_schedule_policy")),
        clock=ClockUse(node.clock) if node.clock else None,
        must_refresh=condition.needs_full,
    )


def pin_of(engine: Engine, pinned: Pinned, now: datetime) -> Pin:
    """The version of every table at the pinned snapshot, and the time that queries see."""
    tables = {source: source for source in pinned.sources}
    tables |= {
        node.id: pinned.part(node.shown.table).id for node in pinned.nodes.values() if node.id in pinned.frontiers
    }
    versions = {table: engine.store.version_of(stored, pinned.version) for table, stored in tables.items()}
    return Pin(pinned.version, versions, instant_in(pinned.time_zone or engine.time_zone, now))


def _hold(pinned: Pinned, node: StreamTable, condition: Condition) -> Hold | None:
    missing = [table for table in node.inputs if table not in pinned.nodes and table not in pinned.sources]
    if missing:
        names = ", ".join(node.input_names.get(table, table) for table in missing)
        return Hold(HoldKind.GATED, f"SOURCE_DROPPED: it reads {names}, which is no longer there")
    if condition.paused:
        return Hold(HoldKind.PAUSED)
    if condition.suspended:
        text = condition.last_error["message"] if condition.last_error else ""
        return Hold(HoldKind.SUSPENDED, f"it failed {condition.consecutive_errors} times in a row: {text}")
    if condition.retry_at is not None:
        return Hold(HoldKind.BACKING_OFF, until=_instant(condition.retry_at))
    return None


def _instant(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
