"""How a node is refreshed in this tick, and why."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.auto import Estimate
from anabranch.compile import Program
from anabranch.definitions import RefreshMode, StreamTable
from anabranch.engine import Engine
from anabranch.inputs import TickInputs
from anabranch.observe.report import Action


@dataclass(frozen=True)
class Choice:
    """An action and the reason for it, which starts with a stable code word; for AUTO, what it was chosen from."""

    action: Action
    reason: str
    estimate: Estimate | None = None


def choose(engine: Engine, inputs: TickInputs, node: StreamTable, program: Program) -> Choice:
    """Differential where the query and the history of its inputs allow it; else full, with the reason."""
    pinned = inputs.pinned
    if inputs.is_new(node):
        return Choice(Action.FULL, "QUERY_CHANGED" if node.id in inputs.replaced else "FIRST_REFRESH")
    needs_full = pinned.conditions[node.id].needs_full
    if needs_full:
        return Choice(Action.FULL, needs_full)
    if node.refresh_mode is RefreshMode.FULL:
        return Choice(Action.FULL, "REFRESH_MODE_FULL")
    if node.clock and inputs.clock(node) != node.clock_at(pinned.frontiers[node.id].clock) and program.is_differential:
        return Choice(Action.FULL, "CLOCK_MOVED")
    if not program.is_differential:
        return Choice(Action.FULL, f"NOT_DIFFERENTIABLE: {program.refusals[0].construct}")
    for table, columns in node.fields_read.items():
        info = pinned.sources[table]
        now = dict(zip((each.name for each in info.columns), info.field_ids, strict=True))
        if any(now.get(name) != field for name, field in columns.items()):
            return Choice(Action.FULL, "SOURCE_SCHEMA_CHANGED")
    for table, since in inputs.since(node).items():
        if not inputs.can_read(table, since):
            return Choice(Action.FULL, "CHANGE_FEED_EXPIRED")
    return Choice(Action.DIFFERENTIAL, "CHANGED")
