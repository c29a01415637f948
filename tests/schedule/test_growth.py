"""Decisions about many nodes at once take time in proportion to the graph."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from anabranch.graph.dag import Graph
from anabranch.schedule.decide import Action, Decision, decide
from anabranch.schedule.plan import plan_definitions
from anabranch.schedule.schedules import parse_schedule
from anabranch.schedule.state import GraphState, NodeState, Pin
from anabranch.store.protocol import Version
from tests.graph.shapes import many_sources, two_tiers, wide

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
Plan = Callable[[GraphState, Pin], tuple[Decision, ...]]


def define_all(state: GraphState, pin: Pin) -> tuple[Decision, ...]:
    return plan_definitions(state, dict.fromkeys(state.nodes, "CREATED"), frozenset(), pin, NOW)


def move_all(state: GraphState, pin: Pin) -> tuple[Decision, ...]:
    return decide(state, pin, NOW)


def seconds_per_size(plan: Plan, graph: Graph) -> float:
    """The least processor time of three, by nodes and edges; every node is new and moves."""
    pin = Pin(Version(2), dict.fromkeys(graph.sources, Version(2)))
    best = float("inf")
    for _ in range(3):
        nodes = (NodeState(each, each, inputs, parse_schedule("2s")) for each, inputs in graph.inputs.items())
        state = GraphState.of(nodes)
        gc.collect()
        gc.disable()
        try:
            started = time.process_time()
            decided = plan(state, pin)
            best = min(best, time.process_time() - started)
        finally:
            gc.enable()
        assert all(each.action is Action.MOVE for each in decided)
    return best / (len(graph.inputs) + sum(len(tables) for tables in graph.inputs.values()))


@pytest.mark.parametrize("make", [many_sources, two_tiers, wide], ids=lambda make: make.__name__)
@pytest.mark.parametrize("plan", [define_all, move_all], ids=lambda plan: plan.__name__)
def test_eight_times_the_graph_takes_about_eight_times_as_long(plan: Plan, make: Callable[[int], Graph]) -> None:
    """Quadratic time would be 8 times as much per node and edge."""
    assert seconds_per_size(plan, make(1600)) <= 3 * seconds_per_size(plan, make(200))
