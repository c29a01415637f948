"""AUTO in a tick: sizes from the catalog, costs from the node's own refreshes, the choice from `schedule/auto.py`.

The size of a change is known for sources and for what moved in earlier ticks. What an input will become in this very
tick is guessed: at most what changes below it, and at most all its rows out and in. The same guess is used to choose
and to remember what the choice has cost, so that a wrong one is at least wrong in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.definitions import StreamTable
from anabranch.engine import Engine
from anabranch.observe.report import Action
from anabranch.schedule.auto import (
    AutoSettings,
    CostModel,
    Way,
    choose,
    choose_together,
    measured,
    model_from_json,
    model_to_json,
    remembered,
)
from anabranch.schedule.auto import Choice as AutoChoice
from anabranch.settings import Settings

if TYPE_CHECKING:
    from anabranch.inputs import TickInputs
    from anabranch.pinned import Pinned


@dataclass(frozen=True)
class Estimate:
    """What a choice was made from."""

    choice: AutoChoice
    changed_rows: int
    input_rows: int

    @property
    def action(self) -> Action:
        return Action.FULL if self.choice.way is Way.FULL else Action.DIFFERENTIAL

    @property
    def reason(self) -> str:
        return f"{self.choice.reason}: {self.choice.text}"


class Auto:
    """Chooses for the nodes of one tick; sizes are asked for once."""

    def __init__(self, engine: Engine, inputs: TickInputs, moving: Collection[str]) -> None:
        self._settings = settings_of(engine.settings)
        self._inputs = inputs
        self._pinned = inputs.pinned
        self._moving = moving
        self._known: dict[tuple[object, ...], int] = {}

    def estimate(self, node: StreamTable) -> Estimate:
        """The way to refresh a node that may go either way."""
        changed, rows = self.changed_rows(node), self.input_rows(node)
        model = model_of(self._pinned.conditions[node.id].costs)
        return Estimate(choose(model, changed, rows, self._settings), changed, rows)

    def changed_rows(self, node: StreamTable) -> int:
        """About how many rows of the node's inputs change."""
        changes = (self._earlier_change(node, table) + self._change_in_this_tick(table) for table in node.inputs)
        return sum(changes)

    def input_rows(self, node: StreamTable) -> int:
        """How many rows the node's inputs have."""
        return sum(self._rows(table) for table in node.inputs)

    def _earlier_change(self, node: StreamTable, table: str) -> int:
        since = self._inputs.since(node).get(table)
        if since is None or not self._inputs.has_changed(node, table):
            return 0
        upstream = self._pinned.nodes.get(table)
        read = self._pinned.frontiers[node.id].generations.get(table)
        is_other = upstream is not None and upstream.generation != read
        if is_other or not self._inputs.can_read(table, since):
            return 2 * self._rows(table)
        return self._once(("change", table, since), lambda: self._inputs.change_size(table, since))

    def _change_in_this_tick(self, table: str) -> int:
        """At most what changes below it, and at most all its rows out and in."""
        if table not in self._moving or table not in self._pinned.nodes:
            return 0
        upstream = self._pinned.nodes[table]
        below = self._once(("below", table), lambda: self.changed_rows(upstream))
        return min(below, 2 * self._rows(table))

    def _rows(self, table: str) -> int:
        return self._once(("rows", table), lambda: self._inputs.row_count(table))

    def _once(self, key: tuple[object, ...], find: Callable[[], int]) -> int:
        if key not in self._known:
            self._known[key] = find()
        return self._known[key]


def together(estimates: Mapping[str, Estimate], pinned: Pinned) -> dict[str, Estimate]:
    """The estimates of a tick that were changed by looking at all of them: a full refresh leaves the fused job."""
    chosen = choose_together({node: each.choice for node, each in estimates.items()}, pinned.graph)
    return {
        node: Estimate(chosen[node], each.changed_rows, each.input_rows)
        for node, each in estimates.items()
        if chosen[node] is not each.choice
    }


def learned(costs: Mapping[str, Any], chosen: Estimate, action: Action, seconds: float) -> dict[str, Any]:
    """What is known of a node after one more refresh; what was done in the end is what has cost."""
    way = Way.FULL if action is Action.FULL else Way.DIFFERENTIAL
    model = measured(model_of(costs), way, chosen.changed_rows, chosen.input_rows, round(seconds, 4))
    if way is chosen.choice.way:
        model = remembered(model, chosen.choice, chosen.changed_rows)
    return dict(json.loads(model_to_json(model)))


def first_fill(input_rows: int, seconds: float) -> dict[str, Any]:
    """Filling a new definition is a first measurement of the full way."""
    return dict(json.loads(model_to_json(measured(CostModel(), Way.FULL, 0, input_rows, round(seconds, 4)))))


def model_of(costs: Mapping[str, Any]) -> CostModel:
    """What a node's condition remembers of costs."""
    return model_from_json(json.dumps(costs)) if costs else CostModel()


def settings_of(settings: Settings) -> AutoSettings:
    """The thresholds as the lake's settings have them."""
    margin = settings.number("auto_switch_margin")
    return AutoSettings(
        margin=margin,
        largest_margin=max(margin, AutoSettings.largest_margin),
        too_large=settings.number("differential_max_change_ratio"),
        explore_every=settings.integer("auto_explore_every"),
    )
