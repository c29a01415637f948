"""Who moves: the named cases."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from anabranch.errors import StateError
from anabranch.graph.frontier import THIS_COMMIT, Frontier
from anabranch.schedule.decide import Action, Decision, after_failures, decide
from anabranch.schedule.due import next_wake
from anabranch.schedule.plan import plan_alter, plan_creation
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
from anabranch.store.protocol import Version

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
PAUSED = Hold(HoldKind.PAUSED)


def node(name: str, *inputs: str, every: str | None = None, at: int = 5, **more: object) -> NodeState:
    """A node over the source `sales` alone, all definitions in their first generation."""
    fields = {"refreshed_at": START, "schedule": parse_schedule(every), **more}
    return NodeState(name, name, inputs, **{"frontier": frontier(at), **fields})  # type: ignore[arg-type]


def frontier(at: int, *generations: str) -> Frontier:
    return Frontier({"sales": Version(at)}, dict.fromkeys(generations, 1), {}, None)


def diamond(
    region: str | None = "2s", product: str | None = "2s", summary: str | None = "3s", **more: object
) -> GraphState:
    return GraphState.of(
        [
            node("region", "sales", every=region),
            node("product", "sales", every=product),
            node("summary", "region", "product", every=summary, frontier=frontier(5, "region", "product"), **more),
        ]
    )


def with_changes(state: GraphState, **changes: dict[str, object]) -> GraphState:
    return GraphState({each.id: replace(each, **changes.get(each.id, {})) for each in state.nodes.values()})


def pin(sales: int = 7, **versions: int) -> Pin:
    return Pin(
        Version(9), {"sales": Version(sales), **{k: Version(v) for k, v in versions.items()}}, "2026-05-01T12:00:00"
    )


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def actions(decisions: tuple[Decision, ...]) -> dict[str, str]:
    return {decision.node: decision.action.value for decision in decisions}


def test_the_sales_diamond_moves_as_one_every_two_seconds() -> None:
    state = diamond()
    assert actions(decide(state, pin(), at(1.9))) == dict.fromkeys(state.nodes, "NOT_DUE")
    decisions = decide(state, pin(), at(2))
    assert actions(decisions) == dict.fromkeys(state.nodes, "MOVE")
    assert [d.reason for d in decisions] == ["DUE", "DUE", "MOVES_ALONG"]
    assert decisions[2].target == Frontier(
        {"sales": Version(7)}, {"region": 1, "product": 1}, {"region": THIS_COMMIT, "product": THIS_COMMIT}
    )


def test_the_slowest_policy_waits_until_all_are_due() -> None:
    state = diamond(product="5s", group_schedule=GroupSchedule.SLOWEST)
    decisions = decide(state, pin(), at(3))
    assert actions(decisions) == {"region": "WAIT", "product": "NOT_DUE", "summary": "WAIT"}
    assert decisions[0].reason == "WAITING_FOR_GROUP"
    assert actions(decide(state, pin(), at(5))) == dict.fromkeys(state.nodes, "MOVE")


def test_manual_nodes_do_not_hold_up_the_slowest_policy_and_move_along() -> None:
    state = diamond(product=None, group_schedule=GroupSchedule.SLOWEST)
    assert actions(decide(state, pin(), at(3))) == dict.fromkeys(state.nodes, "MOVE")


def test_a_request_moves_the_group_of_the_node_whatever_its_policy() -> None:
    state = diamond(group_schedule=GroupSchedule.SLOWEST)
    decisions = decide(state, pin(), at(0), frozenset({"region"}))
    assert actions(decisions) == dict.fromkeys(state.nodes, "MOVE")
    assert decisions[0].reason == "REQUESTED"


def test_nothing_changed_is_no_data_for_all() -> None:
    decisions = decide(diamond(), pin(sales=5), at(10))
    assert {d.action for d in decisions} == {Action.NO_DATA}
    assert decisions[0].target == Frontier({"sales": Version(5)}, {}, {"sales": Version(9)})


def test_without_consistency_each_moves_on_its_own_schedule() -> None:
    state = diamond(product="5s", consistency=Consistency.NONE)
    assert actions(decide(state, pin(), at(2))) == {"region": "MOVE", "product": "NOT_DUE", "summary": "NOT_DUE"}


def test_without_consistency_a_due_convergence_pulls_only_when_inputs_would_disagree() -> None:
    state = diamond(region="2s", product="9s", consistency=Consistency.NONE)
    decisions = decide(state, pin(), at(3))
    assert actions(decisions) == dict.fromkeys(state.nodes, "MOVE")
    assert decisions[1].pulled_by == "summary"
    calm = diamond(region="9s", product="9s", consistency=Consistency.NONE)
    assert actions(decide(calm, pin(), at(3))) == {"region": "NOT_DUE", "product": "NOT_DUE", "summary": "NO_DATA"}


def test_a_paused_member_stays_with_the_convergence_and_the_rest_goes_on() -> None:
    state = with_changes(diamond(), product={"hold": PAUSED})
    decisions = decide(state, pin(), at(3))
    assert actions(decisions) == {"region": "MOVE", "product": "HELD", "summary": "WAIT"}
    assert decisions[2].reason == "WAITING_FOR_FRONTIER"
    assert decisions[2].text == (
        'its inputs disagree: of "sales", "region" reflects version 7 and "product" reflects version 5; '
        'held: "product" (PAUSED)'
    )


@pytest.mark.parametrize("consistency", list(Consistency))
def test_nothing_is_pulled_for_a_convergence_that_will_wait(consistency: Consistency) -> None:
    state = diamond(region=None, product=None, summary="1s", consistency=consistency)
    state = state.with_nodes(node("both", "summary", "sales", every="1s"))
    state = with_changes(state, product={"hold": PAUSED}, summary={"schedule": parse_schedule(None)})
    decisions = decide(state, pin(), at(3))
    assert actions(decisions) == {"region": "NOT_DUE", "product": "HELD", "summary": "NOT_DUE", "both": "WAIT"} or (
        actions(decisions) == {"region": "NOT_DUE", "product": "HELD", "summary": "WAIT", "both": "WAIT"}
    )


def test_a_group_drags_along_every_group_that_shares_a_node() -> None:
    state = GraphState.of(
        [
            node("A", "s1"),
            node("B", "s1", "s2", every="2s"),
            node("C", "A", "B"),
            node("D", "s2", "B"),
            node("E", "C", "D"),
        ]
    )
    everything = Pin(Version(9), {"s1": Version(7), "s2": Version(7)})
    assert actions(decide(state, everything, at(2))) == dict.fromkeys("ABCDE", "MOVE")


def test_a_chain_is_no_group_and_moves_where_its_input_is() -> None:
    state = GraphState.of(
        [node("slow", "sales", every="1h"), node("fast", "slow", every="1s", frontier=frontier(5, "slow"))]
    )
    assert actions(decide(state, pin(), at(1))) == {"slow": "NOT_DUE", "fast": "NO_DATA"}


def test_calculated_is_due_when_a_reader_is() -> None:
    state = GraphState.of([node("a", "sales", every="calculated"), node("b", "a", every="4s")])
    assert actions(decide(state, pin(), at(3))) == {"a": "NOT_DUE", "b": "NOT_DUE"}
    assert actions(decide(state, pin(), at(4))) == {"a": "MOVE", "b": "MOVE"}
    assert actions(decide(state, pin(), at(0), frozenset({"b"}))) == {"a": "MOVE", "b": "MOVE"}
    held = with_changes(state, b={"hold": PAUSED})
    assert actions(decide(held, pin(), at(4))) == {"a": "NOT_DUE", "b": "HELD"}


def test_a_request_ends_a_back_off_but_no_pause() -> None:
    backing_off = Hold(HoldKind.BACKING_OFF, until=at(60))
    state = GraphState.of([node("a", "sales", hold=backing_off), node("b", "sales", hold=PAUSED)])
    assert actions(decide(state, pin(), at(1), frozenset({"a", "b"}))) == {"a": "MOVE", "b": "HELD"}
    assert actions(decide(state, pin(), at(1))) == {"a": "HELD", "b": "HELD"}


def test_the_end_of_a_back_off_lets_a_node_move() -> None:
    state = GraphState.of([node("a", "sales", every="1s", hold=Hold(HoldKind.BACKING_OFF, until=at(4)))])
    assert actions(decide(state, pin(), at(3))) == {"a": "HELD"}
    assert actions(decide(state, pin(), at(4))) == {"a": "MOVE"}


def test_immediate_nodes_catch_up_with_foreign_writes_in_any_tick() -> None:
    state = GraphState.of([node("now", "sales", mode="IMMEDIATE"), node("later", "now", "sales", every="1s")])
    decisions = decide(state, pin(), at(1))
    assert actions(decisions) == {"now": "MOVE", "later": "MOVE"}
    assert decisions[0].reason == "FOREIGN_WRITE"
    assert state.shape.groups == ()


def test_time_is_a_source() -> None:
    today, now_ = Frontier({}, {}, {}, "2026-05-01"), Frontier({}, {}, {}, "2026-05-01T11:59:00")
    state = GraphState.of(
        [
            node("today", every="1s", clock=ClockUse.DATE, frontier=today),
            node("now", every="1h", clock=ClockUse.INSTANT, frontier=now_),
            node("both", "today", "now", frontier=Frontier({}, {"today": 1, "now": 1}, {}, "2026-05-01T11:59:00")),
        ]
    )
    decisions = decide(state, pin(), at(1))
    assert actions(decisions) == {"today": "NO_DATA", "now": "MOVE", "both": "MOVE"}
    assert decisions[2].target is not None
    assert decisions[2].target.clock == "2026-05-01T12:00:00"


def test_a_repaired_input_is_new_data_although_no_source_changed() -> None:
    state = GraphState.of(
        [
            node("a", "sales", every="1s", must_refresh="ROW_NOT_THERE"),
            node("b", "a", every="1s", frontier=frontier(5, "a")),
            node("c", "a", every="1h", frontier=replace(frontier(5, "a"), inputs={"a": Version(4)})),
        ]
    )
    decisions = decide(state, pin(sales=5), at(1))
    assert [(d.action.value, d.reason) for d in decisions[:2]] == [("MOVE", "ROW_NOT_THERE"), ("MOVE", "DUE")]
    later = with_changes(state, a={"must_refresh": None})
    assert actions(decide(later, pin(sales=5, a=8), at(3600)))["c"] == "MOVE"
    assert actions(decide(later, pin(sales=5, a=4), at(3600)))["c"] == "NO_DATA"


def test_a_node_that_was_never_filled_is_due_and_its_readers_wait_for_it() -> None:
    state = GraphState.of([node("a", "sales", frontier=None, hold=PAUSED), node("b", "a", every="1s")])
    decisions = decide(state, pin(), at(1))
    assert actions(decisions) == {"a": "HELD", "b": "WAIT"}
    assert '"a" was never refreshed' in decisions[1].text
    free = with_changes(state, a={"hold": None})
    assert actions(decide(free, pin(), at(0))) == {"a": "MOVE", "b": "NOT_DUE"}


def test_a_source_that_is_gone_lets_its_readers_wait() -> None:
    state = GraphState.of([node("a", "dropped", every="1s"), node("b", "sales", every="1s")])
    decisions = decide(state, pin(), at(1))
    assert actions(decisions) == {"a": "WAIT", "b": "MOVE"}
    assert (decisions[0].reason, decisions[0].text) == ("SOURCE_MISSING", 'its input "dropped" is not there any more')


def test_a_failure_leaves_out_what_was_computed_from_it_and_commits_the_rest() -> None:
    state = diamond().with_nodes(node("other", "region", every="2s"))
    decisions = after_failures(state, decide(state, pin(), at(3)), {"product"})
    assert {d.node: (d.action.value, d.reason) for d in decisions} == {
        "region": ("MOVE", "DUE"),
        "product": ("HELD", "FAILED"),
        "summary": ("WAIT", "UPSTREAM_FAILED"),
        "other": ("MOVE", "DUE"),
    }
    assert decisions[2].text == '"product" failed in this tick'


def test_creation_pulls_inputs_that_disagree() -> None:
    state = with_changes(diamond(consistency=Consistency.NONE), product={"frontier": frontier(6)})
    decisions = plan_creation(state, node("new", "region", "product", frontier=None), pin(), at(0))
    assert actions(decisions) == {"region": "MOVE", "product": "MOVE", "summary": "NOT_DUE", "new": "MOVE"}
    assert decisions[-1].reason == "CREATED"


def test_creation_over_inputs_that_agree_pulls_nothing() -> None:
    decisions = plan_creation(diamond(), node("new", "region", "product", frontier=None), pin(), at(0))
    assert [d.node for d in decisions if d.advances] == ["new"]
    assert decisions[-1].target is not None
    assert decisions[-1].target.sources == {"sales": Version(5)}


def test_creation_over_a_held_input_that_disagrees_is_refused() -> None:
    state = with_changes(diamond(), product={"hold": PAUSED})
    with pytest.raises(StateError) as caught:
        plan_creation(state, node("new", "product", "sales", frontier=None), pin(), at(0))
    assert caught.value.code == "INPUTS_DISAGREE"
    assert '"product" (PAUSED)' in caught.value.detail


def test_alter_takes_every_unheld_descendant_along() -> None:
    state = diamond().with_nodes(node("end", "summary", frontier=frontier(5, "region", "product", "summary")))
    altered = replace(state.nodes["region"], generation=2)
    decisions = plan_alter(state, altered, pin(), at(0))
    assert actions(decisions) == dict.fromkeys(state.nodes, "MOVE")
    assert decisions[0].reason == "QUERY_CHANGED"
    assert decisions[-1].target is not None
    assert decisions[-1].target.generations == {"region": 2, "product": 1, "summary": 1}


def test_alter_above_a_paused_descendant_leaves_it_and_its_convergence() -> None:
    state = GraphState.of(
        [
            node("base", "sales"),
            node("left", "base", frontier=frontier(5, "base")),
            node("right", "base", frontier=frontier(5, "base"), hold=PAUSED),
            node("end", "left", "right", frontier=frontier(5, "base", "left", "right")),
        ]
    )
    decisions = plan_alter(state, replace(state.nodes["base"], generation=2), pin(), at(0))
    assert actions(decisions) == {"base": "MOVE", "left": "MOVE", "right": "HELD", "end": "WAIT"}
    assert 'of "sales", "left" reflects version 7' in decisions[-1].text


def test_a_paused_node_that_is_altered_is_filled_anew() -> None:
    state = with_changes(diamond(), region={"hold": PAUSED})
    decisions = plan_alter(state, replace(state.nodes["region"], generation=2), pin(), at(0))
    assert actions(decisions)["region"] == "MOVE"


def left_behind(**more: object) -> GraphState:
    """`middle` read `base` once; `end`, held then, still reflects that."""
    return GraphState.of(
        [
            node("base", "sales"),
            node("middle", "other", generation=2, frontier=Frontier({"other": Version(6)})),
            node("end", "middle", frontier=frontier(4, "base", "middle"), **more),
        ]
    )


def test_what_still_reflects_an_old_definition_is_pulled_for_a_reader_that_disagrees_with_it() -> None:
    state = left_behind().with_nodes(node("late", "sales", "end", every="1s"))
    decisions = decide(state, pin(other=6), at(1))
    assert actions(decisions) == {"base": "NOT_DUE", "middle": "NOT_DUE", "end": "MOVE", "late": "MOVE"}


def test_a_node_is_never_computed_from_an_older_definition_of_itself() -> None:
    state = left_behind(hold=PAUSED)
    with pytest.raises(StateError) as caught:
        plan_alter(state, replace(state.nodes["base"], inputs=("end",), generation=2), pin(other=6), at(0))
    assert 'of "base", "end" reflects definition 1 and "base" reflects definition 2' in caught.value.detail
    free = left_behind()
    decisions = plan_alter(free, replace(free.nodes["base"], inputs=("end",), generation=2), pin(other=6), at(0))
    assert actions(decisions) == {"middle": "NOT_DUE", "end": "MOVE", "base": "MOVE"}


def test_alter_into_a_cycle_is_refused_by_name() -> None:
    with pytest.raises(StateError, match="computed from itself"):
        plan_alter(diamond(), node("region", "summary", generation=2), pin(), at(0))


def test_the_next_wake_is_the_next_due_time_and_a_waiting_node_is_no_busy_loop() -> None:
    state = diamond()
    assert next_wake(state, at(0)) == at(2)
    assert next_wake(state, at(4)) == at(6)
    assert next_wake(with_changes(state, region={"hold": Hold(HoldKind.BACKING_OFF, until=at(1))}), at(0)) == at(1)
    assert next_wake(GraphState.of([node("manual", "sales")]), at(0)) is None


def hundred_nodes() -> GraphState:
    nodes = [node("n0", "sales", every="1s")]
    for index in range(1, 100):
        inputs = {f"n{index - 1}", f"n{max(0, index - 3)}"}
        below = [f"n{i}" for i in range(index)]
        nodes.append(node(f"n{index}", *sorted(inputs), every="1s", frontier=frontier(5, *below)))
    return GraphState.of(nodes)


def test_a_tick_without_changes_takes_milliseconds_for_a_hundred_nodes() -> None:
    """A hundred nodes in a hundred nested diamonds; the bound is far above the 5 ms seen on an idle machine."""
    state = hundred_nodes()
    decide(state, pin(sales=5), at(1))
    started = time.process_time()
    decisions = decide(GraphState(dict(state.nodes)), pin(sales=5), at(1))
    assert time.process_time() - started < 0.1
    assert set(actions(decisions).values()) == {"NO_DATA"}
