"""The decision of a tick: per node what is done and why, a pure function of state, pin and time.

    decide(state, pin, now, requested)  ->  one Decision per node, inputs before readers

What `explain` and the history show is the same value that a refresh performs.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from anabranch.graph.frontier import Disagreement, Frontier
from anabranch.schedule.due import due_nodes, self_moving_nodes, unheld_nodes
from anabranch.schedule.schedules import Manual
from anabranch.schedule.settle import Settlement, Situation, settle
from anabranch.schedule.state import GraphState, Hold, HoldKind, NodeState, Pin


class Action(StrEnum):
    """MOVE: work out the change and commit it. NO_DATA: nothing changed below; only the frontier may advance."""

    MOVE = "MOVE"
    NO_DATA = "NO_DATA"
    WAIT = "WAIT"
    HELD = "HELD"
    NOT_DUE = "NOT_DUE"


@dataclass(frozen=True)
class Decision:
    """What happens to one node in one tick. `order`: inputs before readers. `target`: for MOVE and NO_DATA."""

    node: str
    action: Action
    reason: str
    text: str
    order: int
    target: Frontier | None = None
    pulled_by: str | None = None

    @property
    def advances(self) -> bool:
        """Whether the node ends the tick at its target."""
        return self.action in (Action.MOVE, Action.NO_DATA)


def decide(state: GraphState, pin: Pin, now: datetime, requested: frozenset[str] | None = None) -> tuple[Decision, ...]:
    """What to do now. `requested` limits the tick to what was asked for, and to what has to move along."""
    unheld = unheld_nodes(state, now, requested or frozenset())
    due = due_nodes(state, now, requested)
    situation = Situation(state, pin, unheld, self_moving_nodes(state, unheld), requested or frozenset())
    return decisions_of(situation, settle(situation, due), requested)


def decisions_of(situation: Situation, settlement: Settlement, requested: Set[str] | None) -> tuple[Decision, ...]:
    """A settlement as one decision per node."""
    return tuple(
        _decision(situation, settlement, situation.state.nodes[node], order, requested)
        for order, node in enumerate(situation.state.shape.graph.order)
    )


def after_failures(state: GraphState, decisions: tuple[Decision, ...], failed: Set[str]) -> tuple[Decision, ...]:
    """What may still be committed when these nodes failed during the tick.

    A failed node stays as it was, and so does every node whose target was worked out from it: the convergences of its
    diamonds among them. Everything else keeps its target, which does not depend on them.
    """
    stays: dict[str, str] = {}
    result = []
    for decision in decisions:
        node = state.nodes[decision.node]
        blame = next((table for table in node.inputs if table in stays), None)
        if decision.advances and node.id in failed:
            stays[node.id] = node.id
            decision = replace(decision, action=Action.HELD, reason="FAILED", text="the refresh failed", target=None)
        elif decision.advances and blame is not None:
            stays[node.id] = stays[blame]
            text = f'"{state.names[stays[blame]]}" failed in this tick'
            decision = replace(decision, action=Action.WAIT, reason="UPSTREAM_FAILED", text=text, target=None)
        result.append(decision)
    return tuple(result)


def _decision(
    situation: Situation,
    settlement: Settlement,
    node: NodeState,
    order: int,
    requested: Set[str] | None,
) -> Decision:
    names = situation.state.names
    if node.id not in situation.unheld:
        reason, text = held_reason(node.hold)
        return Decision(node.id, Action.HELD, reason, text, order)
    pulled_by = settlement.pulled_by.get(node.id)
    if node.id in settlement.changed:
        reason, text = _why_it_moves(node, pulled_by, names, requested)
        return Decision(node.id, Action.MOVE, reason, text, order, settlement.targets[node.id], pulled_by)
    if node.id in settlement.targets:
        text = "nothing below it changed"
        return Decision(node.id, Action.NO_DATA, "NO_CHANGES", text, order, settlement.targets[node.id], pulled_by)
    if node.id in settlement.waits:
        text = waiting_text(situation.state, settlement.waits[node.id], situation.unheld)
        reason = "SOURCE_MISSING" if settlement.waits[node.id].kind == "gone" else "WAITING_FOR_FRONTIER"
        return Decision(node.id, Action.WAIT, reason, text, order, None, pulled_by)
    if node.id in settlement.waits_for_group:
        text = "its diamond group moves when all scheduled nodes of the group are due"
        return Decision(node.id, Action.WAIT, "WAITING_FOR_GROUP", text, order)
    if requested is not None:
        return Decision(node.id, Action.NOT_DUE, "NOT_REQUESTED", "it was not asked for", order)
    if isinstance(node.schedule, Manual):
        return Decision(node.id, Action.NOT_DUE, "MANUAL", "it is refreshed only when asked for", order)
    return Decision(node.id, Action.NOT_DUE, "NOT_DUE", f"its schedule is {node.schedule.text}", order)


def _why_it_moves(
    node: NodeState, pulled_by: str | None, names: dict[str, str], requested: Set[str] | None
) -> tuple[str, str]:
    if node.must_refresh:
        return node.must_refresh, "its rows have to be worked out again"
    if node.frontier is None:
        return "FIRST_REFRESH", "it was never refreshed"
    if node.immediate:
        return "FOREIGN_WRITE", "a source was written without it"
    if pulled_by is not None:
        return "MOVES_ALONG", f'it moves together with "{names[pulled_by]}"'
    if requested is not None and node.id in requested:
        return "REQUESTED", "it was asked for"
    return "DUE", f"its schedule is {node.schedule.text}"


def held_reason(hold: Hold | None) -> tuple[str, str]:
    """The code and the text of a hold."""
    if hold is None:
        return HoldKind.GATED, ""
    default = {
        HoldKind.PAUSED: "it is paused",
        HoldKind.SUSPENDED: "it failed too often in a row",
        HoldKind.BACKING_OFF: "it failed and is tried again later",
        HoldKind.GATED: "it is gated",
    }[hold.kind]
    return hold.kind.value, hold.text or default


def waiting_text(state: GraphState, disagreement: Disagreement, unheld: Set[str]) -> str:
    """Which inputs disagree, and which held nodes below them are the cause."""
    if disagreement.kind in ("missing", "gone"):
        return f"its input {disagreement.text(state.names)}"
    text = f"its inputs disagree: {disagreement.text(state.names)}"
    graph = state.shape.graph
    named = [table for table, _ in disagreement.values if table in state.nodes]
    below = {table for each in named for table in (each, *graph.ancestors(each))}
    held = [
        f'"{state.names[node]}" ({held_reason(state.nodes[node].hold)[0]})'
        for node in graph.order
        if node in below and node not in unheld
    ]
    return f"{text}; held: {', '.join(held)}" if held else text
