"""What the next tick would do with a stream table: the same decision and the same choice that a refresh performs."""

from __future__ import annotations

from datetime import UTC, datetime

from anabranch.auto import Auto, model_of
from anabranch.choose import Choice, choose
from anabranch.compile import Program
from anabranch.definitions import RefreshMode, StreamTable
from anabranch.engine import Engine
from anabranch.inputs import TickInputs
from anabranch.observe.report import Action
from anabranch.pinned import Pinned
from anabranch.schedule import decide as decisions
from anabranch.schedule.decide import Decision, decide
from anabranch.situation import graph_state, pin_of


def next_tick(engine: Engine, pinned: Pinned, node: StreamTable, program: Program) -> str:
    """The decision if it were asked for now, how it would be worked out, and what that is known to cost."""
    decided = decisions_now(engine, pinned, node)
    decision = next(each for each in decided if each.node == node.id)
    lines = [f"{decision.action}, {decision.reason}: {decision.text}"]
    if decision.action is decisions.Action.MOVE:
        choice = choice_now(engine, pinned, node, program, decided)
        lines.append(f"{choice.action}, {choice.reason}")
    if node.refresh_mode is RefreshMode.AUTO:
        model = model_of(pinned.conditions[node.id].costs)
        lines.append(f"measured so far: {model.differential.count} differential, {model.full.count} full refreshes")
    return "\n".join(lines)


def next_decision(engine: Engine, pinned: Pinned, node: StreamTable) -> str:
    """The decision alone: whether it would move, and why."""
    decision = next(each for each in decisions_now(engine, pinned, node) if each.node == node.id)
    return f"{decision.action}, {decision.reason}: {decision.text}"


def decisions_now(engine: Engine, pinned: Pinned, node: StreamTable) -> tuple[Decision, ...]:
    """What a tick that asks for this node would do with each node."""
    now = datetime.now(UTC)
    return decide(graph_state(engine, pinned), pin_of(engine, pinned, now), now, frozenset({node.id}))


def choice_now(
    engine: Engine, pinned: Pinned, node: StreamTable, program: Program, decided: tuple[Decision, ...]
) -> Choice:
    """How the node would be worked out."""
    clocks = {each.node: each.target.clock for each in decided if each.target and each.target.clock}
    inputs = TickInputs(engine.store, pinned, clocks=clocks)
    choice = choose(engine, inputs, node, program)
    if choice.action is not Action.DIFFERENTIAL or node.refresh_mode is not RefreshMode.AUTO:
        return choice
    moving = {each.node for each in decided if each.action is decisions.Action.MOVE}
    estimate = Auto(engine, inputs, moving).estimate(node)
    return Choice(estimate.action, estimate.reason, estimate)
