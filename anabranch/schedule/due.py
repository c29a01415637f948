"""Which nodes are due, and when the next one will be.

due(n)  <=>  n is asked for, or its schedule's next time has come, or it was never filled
due(n)   =   some unheld reader of n is due, where n is `calculated`
"""

from __future__ import annotations

from datetime import datetime

from anabranch.schedule.schedules import Calculated, Manual, next_due
from anabranch.schedule.state import GraphState, HoldKind, NodeState


def unheld_nodes(state: GraphState, now: datetime, requested: frozenset[str] = frozenset()) -> frozenset[str]:
    """Nodes that may move. To ask for a node ends its back-off, not a pause, a suspension or a gate."""
    return frozenset(node.id for node in state.nodes.values() if not _is_held(node, now, requested))


def due_nodes(state: GraphState, now: datetime, requested: frozenset[str] | None) -> frozenset[str]:
    """Due nodes, held ones included; `requested` limits a tick to what was asked for."""
    due: set[str] = set()
    unheld = unheld_nodes(state, now, requested or frozenset())
    for node_id in reversed(state.shape.graph.order):
        node = state.nodes[node_id]
        if node.frontier is None or node_id in (requested or ()):
            due.add(node_id)
        elif isinstance(node.schedule, Calculated):
            if any(reader in due and reader in unheld for reader in state.shape.graph.readers[node_id]):
                due.add(node_id)
        elif requested is None:
            at = next_due(node.schedule, node.refreshed_at, now)
            if at is not None and at <= now:
                due.add(node_id)
    return frozenset(due)


def self_moving_nodes(state: GraphState, unheld: frozenset[str]) -> frozenset[str]:
    """Nodes that become due by themselves: not manual, nor calculated for manual or held readers only."""
    found: set[str] = set()
    for node_id in reversed(state.shape.graph.order):
        match state.nodes[node_id].schedule:
            case Manual():
                continue
            case Calculated():
                if any(reader in found and reader in unheld for reader in state.shape.graph.readers[node_id]):
                    found.add(node_id)
            case _:
                found.add(node_id)
    return frozenset(found)


def next_wake(state: GraphState, now: datetime) -> datetime | None:
    """After a tick at `now`: when to look again. What is due and could not move is tried a period later."""
    times: list[datetime] = []
    for node in state.nodes.values():
        if _is_held(node, now, frozenset()):
            if node.hold is not None and node.hold.kind is HoldKind.BACKING_OFF and node.hold.until is not None:
                times.append(node.hold.until)
            continue
        at = next_due(node.schedule, node.refreshed_at, now)
        if at is not None and at <= now:
            at = next_due(node.schedule, now, now)
        if at is not None:
            times.append(at)
    return min(times, default=None)


def _is_held(node: NodeState, now: datetime, requested: frozenset[str]) -> bool:
    if node.hold is None or not node.hold.active(now):
        return False
    return not (node.hold.kind is HoldKind.BACKING_OFF and node.id in requested)
