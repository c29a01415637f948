"""AUTO: differential or full, whichever costs less for a change of this size.

    cost(DIFFERENTIAL) = a curve over the rows of the change     cost(FULL) = a curve over the rows of the inputs

The choice made last for changes of this size stays until the other is cheaper by more than the margin, so noise makes
nothing flap. Rarely, and where it may not be much worse, the other way is tried, so that no estimate goes stale. Before
anything was measured, a change beyond a share of the inputs is too large for differential.

A full refresh hands on the difference, as small as a differential one would, so readers gain nothing from an expensive
choice below them; but a node refreshed in full leaves the fused job, and its readers with it: see `choose_together`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import log2

from anabranch.graph.dag import Graph
from anabranch.schedule.cost import CostCurve


class Way(StrEnum):
    """How a node is refreshed."""

    DIFFERENTIAL = "DIFFERENTIAL"
    FULL = "FULL"

    @property
    def other(self) -> Way:
        return Way.FULL if self is Way.DIFFERENTIAL else Way.DIFFERENTIAL


@dataclass(frozen=True)
class AutoSettings:
    """When to choose what.

    `margin`: how many times cheaper the other way must be, a little more after each switch, up to `largest_margin`.
    `too_large`: share of the inputs, while nothing is measured and they have more than `few_rows`. `explore_every`: one
    in so many choices tries the other way, if it is at most `explore_within` times as expensive; a way that was
    measured only once, a slow start maybe, is tried again within `second_try_within`. `row_factor`: what one changed
    row is thought to cost, in rows read by a full refresh.
    """

    margin: float = 1.25
    largest_margin: float = 1.5
    too_large: float = 0.3
    few_rows: int = 10_000
    explore_every: int = 50
    explore_within: float = 2.0
    second_try_within: float = 5.0
    row_factor: float = 0.25


@dataclass(frozen=True)
class Habit:
    """The last choice for changes of one size, and how often it was given up for the other."""

    way: Way
    switches: int = 0

    def margin(self, settings: AutoSettings) -> float:
        return max(settings.margin, min(settings.largest_margin, settings.margin + 0.08 * self.switches))

    def after(self, way: Way) -> Habit:
        return self if way is self.way else Habit(way, self.switches + 1)


@dataclass(frozen=True)
class CostModel:
    """What is known of one node: two curves, per size of change a habit, and how many choices since the last try."""

    differential: CostCurve = field(default_factory=CostCurve)
    full: CostCurve = field(default_factory=CostCurve)
    habits: Mapping[int, Habit] = field(default_factory=dict)
    since_try: int = 0


@dataclass(frozen=True)
class Choice:
    """The way chosen and why; estimates in seconds, None where nothing is known."""

    way: Way
    reason: str
    text: str
    differential_seconds: float | None = None
    full_seconds: float | None = None


def choose(model: CostModel, changed_rows: int, input_rows: int, settings: AutoSettings | None = None) -> Choice:
    """Differential or full for a change of about so many rows, over inputs of so many."""
    settings = settings or AutoSettings()
    full = model.full.seconds(input_rows, 0.0)
    differential = model.differential.seconds(changed_rows, _prior_per_row(full, input_rows, settings))
    if differential is None or full is None:
        return _unmeasured(changed_rows, input_rows, differential, full, settings)
    habit = model.habits.get(_size_of_habit(changed_rows))
    costs = {Way.DIFFERENTIAL: differential, Way.FULL: full}
    cheaper = min(costs, key=costs.__getitem__)
    keeps_habit = habit is not None and costs[habit.way] <= costs[cheaper] * habit.margin(settings)
    way = habit.way if habit and keeps_habit else cheaper
    estimate = f"differential {differential:.3g} s, full {full:.3g} s for about {changed_rows} changed rows"
    if _worth_a_try(model, way, costs, changed_rows, input_rows, settings):
        return Choice(way.other, "EXPLORING", f"tried to keep the estimate fresh: {estimate}", differential, full)
    reason = "COST_FULL_CHEAPER" if way is Way.FULL else "COST_DIFFERENTIAL_CHEAPER"
    return Choice(way, reason, f"estimated {estimate}", differential, full)


def _worth_a_try(
    model: CostModel,
    way: Way,
    costs: Mapping[Way, float],
    changed_rows: int,
    input_rows: int,
    settings: AutoSettings,
) -> bool:
    """Whether the other way is tried: its one measurement may have been a slow start, or it is long ago."""
    other = way.other
    seen = model.full.seen(input_rows) if other is Way.FULL else model.differential.seen(changed_rows)
    if seen == 1:
        return costs[other] <= costs[way] * settings.second_try_within
    return model.since_try >= settings.explore_every and costs[other] <= costs[way] * settings.explore_within


def choose_together(
    choices: Mapping[str, Choice], graph: Graph, seconds_outside_the_fused_job: float = 0.1
) -> dict[str, Choice]:
    """The choices of one tick, a full refresh kept only where it saves more than it costs its readers.

    A node in full runs on its own, and so do the moving nodes computed from it that would have been fused; each costs
    so many seconds more. Nodes whose readers are outside already cost nothing more.
    """
    result = dict(choices)
    outside: set[str] = set()
    for node in graph.order:
        choice = result.get(node)
        if choice is None:
            continue
        if any(table in outside for table in graph.inputs[node]):
            outside.add(node)
        if choice.reason == "COST_FULL_CHEAPER" and node not in outside:
            leaving = {node, *(each for each in graph.descendants(node) if each in result)} - outside
            saved = (choice.differential_seconds or 0.0) - (choice.full_seconds or 0.0)
            extra = len(leaving) * seconds_outside_the_fused_job
            if saved <= extra:
                text = f"full saves {saved:.3g} s here and costs the fused job {extra:.3g} s; {choice.text}"
                choice = result[node] = replace(choice, way=Way.DIFFERENTIAL, reason="KEEPS_OTHERS_FUSED", text=text)
        if choice.way is Way.FULL:
            outside.add(node)
    return result


def measured(model: CostModel, way: Way, changed_rows: int, input_rows: int, seconds: float) -> CostModel:
    """The model after a refresh that took so long."""
    if way is Way.FULL:
        return replace(model, full=model.full.with_sample(input_rows, seconds))
    return replace(model, differential=model.differential.with_sample(changed_rows, seconds))


def remembered(model: CostModel, choice: Choice, changed_rows: int) -> CostModel:
    """The model after a choice was followed. A try of the other way starts the count anew and changes no habit."""
    if choice.reason == "EXPLORING":
        return replace(model, since_try=0)
    size = _size_of_habit(changed_rows)
    habit = model.habits.get(size, Habit(choice.way)).after(choice.way)
    return replace(model, habits={**model.habits, size: habit}, since_try=model.since_try + 1)


def model_to_json(model: CostModel) -> str:
    """The model as text, the same for equal models."""
    document = {
        "differential": model.differential.to_document(),
        "full": model.full.to_document(),
        "habits": {str(size): [habit.way.value, habit.switches] for size, habit in model.habits.items()},
        "since_try": model.since_try,
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def model_from_json(text: str) -> CostModel:
    """The model that `model_to_json` wrote."""
    document = json.loads(text)
    return CostModel(
        CostCurve.from_document(document["differential"]),
        CostCurve.from_document(document["full"]),
        {int(size): Habit(Way(way), switches) for size, (way, switches) in document["habits"].items()},
        document["since_try"],
    )


def _size_of_habit(changed_rows: int) -> int:
    """Sizes that share a habit: within a fifth of each other, so that the margin is wider than what they differ by."""
    return round(4 * log2(changed_rows + 1))


def _prior_per_row(full: float | None, input_rows: int, settings: AutoSettings) -> float:
    return settings.row_factor * full / max(input_rows, 1) if full is not None else 0.0


def _unmeasured(
    changed_rows: int, input_rows: int, differential: float | None, full: float | None, settings: AutoSettings
) -> Choice:
    """One of the two was never done: the share of the inputs that changed decides."""
    share = changed_rows / max(input_rows, 1)
    text = f"about {changed_rows} of {input_rows} input rows changed, and not both ways were measured yet"
    if share > settings.too_large and input_rows > settings.few_rows:
        return Choice(Way.FULL, "CHANGE_TOO_LARGE", text, differential, full)
    return Choice(Way.DIFFERENTIAL, "CHANGE_IS_SMALL", text, differential, full)
