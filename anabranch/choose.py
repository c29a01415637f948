"""How a node is refreshed in this tick, and why."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.auto import Estimate
from anabranch.compile import Program
from anabranch.definitions import RefreshMode, StreamTable, why_redefined
from anabranch.engine import Engine
from anabranch.errors import RefreshError
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
        old = inputs.replaced.get(node.id)
        return Choice(Action.FULL, "FIRST_REFRESH" if old is None else why_redefined(old, node))
    needs_full = pinned.conditions[node.id].needs_full
    if needs_full:
        return Choice(Action.FULL, needs_full)
    if node.refresh_mode is RefreshMode.FULL:
        return Choice(Action.FULL, "REFRESH_MODE_FULL")
    if node.clock and inputs.clock(node) != node.clock_at(pinned.frontiers[node.id].clock) and program.is_differential:
        return Choice(Action.FULL, "CLOCK_MOVED")
    if not program.is_differential:
        return Choice(Action.FULL, f"NOT_DIFFERENTIABLE: {program.refusals[0].construct}")
    if any(pinned.fields(table, columns) != dict(columns) for table, columns in node.fields_read.items()):
        return Choice(Action.FULL, "SOURCE_SCHEMA_CHANGED")
    for table, since in inputs.since(node).items():
        if not inputs.can_read(table, since):
            return Choice(Action.FULL, "CHANGE_FEED_EXPIRED")
    return Choice(Action.DIFFERENTIAL, "CHANGED")


def check_columns(inputs: TickInputs, node: StreamTable) -> None:
    """Fail a node that reads a column its source no longer has."""
    pinned = inputs.pinned
    for table, columns in node.fields_read.items():
        missing = [name for name, field in pinned.fields(table, columns).items() if field is None]
        if missing:
            info = pinned.sources[table]
            names = dict(zip(info.field_ids, (each.name for each in info.columns), strict=True))
            renamed = names.get(columns[missing[0]])
            raise RefreshError(
                "SOURCE_COLUMN_MISSING",
                f'stream table "{node.name}" reads column {missing[0]!r} of {info.name!r}, which is no longer there',
                (f"it is named {renamed!r} now; " if renamed else "")
                + f"existing columns: {', '.join(each.name for each in info.columns)}",
                "add the column again, or change the query with alter_stream_table",
            )
