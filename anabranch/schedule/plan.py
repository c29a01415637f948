"""Creating and altering a node: one commit in which everything that has to move along does.

create n:  n is filled where its inputs are; if they disagree, what lies between the splits and n is pulled
alter n:   n is filled anew under its new definition, and every unheld descendant moves along with the difference
many:      both, for many nodes at once
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from anabranch.errors import StateError
from anabranch.schedule.decide import Decision, decisions_of, waiting_text
from anabranch.schedule.due import self_moving_nodes, unheld_nodes
from anabranch.schedule.settle import Settlement, Situation, settle, walk
from anabranch.schedule.state import GraphState, NodeState, Pin


def plan_creation(state: GraphState, node: NodeState, pin: Pin, now: datetime) -> tuple[Decision, ...]:
    """The decisions of the commit that creates the node, or a refusal when its inputs cannot be brought to agree."""
    state = state.with_nodes(replace(node, must_refresh=node.must_refresh or "CREATED"))
    situation = _situation(state, pin, now, node.id)
    alone = Settlement(pulled_by={node.id: None})
    walk(situation, alone)
    settlement = alone if node.id in alone.targets else settle(situation, {node.id})
    _refuse_if_waiting(situation, settlement, node)
    return decisions_of(situation, settlement, {node.id})


def plan_alter(state: GraphState, altered: NodeState, pin: Pin, now: datetime) -> tuple[Decision, ...]:
    """The decisions of the commit that gives the node its new definition, `altered.generation` being the next one.

    The node itself moves even if it is held: its rows are those of its definition in every snapshot.
    """
    state = state.with_nodes(replace(altered, must_refresh="QUERY_CHANGED"))
    situation = _situation(state, pin, now, altered.id)
    moving = {altered.id} | state.shape.graph.descendants(altered.id)
    situation = replace(situation, forced=frozenset(moving), always=frozenset({altered.id}))
    settlement = settle(situation, moving)
    _refuse_if_waiting(situation, settlement, altered)
    return decisions_of(situation, settlement, moving)


def plan_definitions(
    state: GraphState, reasons: Mapping[str, str], asked: frozenset[str], pin: Pin, now: datetime
) -> tuple[Decision, ...]:
    """The decisions of one commit that makes many definitions: `reasons` says why each of them is filled.

    `state` knows all new definitions. `asked` nodes keep theirs and are brought up to date along with it.
    """
    filled = (
        replace(state.nodes[node], must_refresh=state.nodes[node].must_refresh or reasons[node]) for node in reasons
    )
    state = state.with_nodes(*filled)
    defined = frozenset(reasons)
    moving = defined | asked | state.shape.graph.descendants_of_any(defined)
    unheld = unheld_nodes(state, now) | defined
    situation = Situation(state, pin, unheld, self_moving_nodes(state, unheld), moving, defined)
    settlement = settle(situation, moving)
    for node in defined:
        _refuse_if_waiting(situation, settlement, state.nodes[node])
    return decisions_of(situation, settlement, moving)


def _situation(state: GraphState, pin: Pin, now: datetime, node: str) -> Situation:
    unheld = unheld_nodes(state, now) | {node}
    return Situation(state, pin, unheld, self_moving_nodes(state, unheld), frozenset({node}))


def _refuse_if_waiting(situation: Situation, settlement: Settlement, node: NodeState) -> None:
    if node.id in settlement.targets:
        return
    raise StateError(
        "INPUTS_DISAGREE",
        f'stream table "{node.name}" cannot be filled: its inputs do not show one state of their sources',
        waiting_text(situation.state, settlement.waits[node.id], situation.unheld) + ".",
        "Resume or repair the held tables, or refresh the inputs together, then try again.",
    )
