"""AUTO on simulated streams: right where it matters, steady where it does not."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest

from anabranch.graph.dag import Graph
from anabranch.schedule.auto import (
    AutoSettings,
    Choice,
    CostModel,
    Way,
    choose,
    choose_together,
    measured,
    model_from_json,
    model_to_json,
    remembered,
)
from anabranch.schedule.cost import CostCurve


@dataclass(frozen=True)
class Engine:
    """The true costs of a node, with noise of a shared machine: usually some per cent, sometimes threefold."""

    overhead: float
    per_changed_row: float
    full_overhead: float
    per_input_row: float
    noise: float = 0.15

    def cost(self, way: Way, changed: int, rows: int) -> float:
        if way is Way.FULL:
            return self.full_overhead + self.per_input_row * rows
        return self.overhead + self.per_changed_row * changed

    def measure(self, way: Way, changed: int, rows: int, chance: random.Random) -> float:
        outlier = chance.uniform(2, 4) if chance.random() < 0.03 else 1.0
        return self.cost(way, changed, rows) * chance.lognormvariate(0, self.noise) * outlier


ENGINES = {
    "scan bound": Engine(0.4, 4e-6, 0.3, 5e-7),
    "cheap full": Engine(1.0, 1e-5, 0.2, 2e-8),
    "dear full": Engine(0.1, 2e-6, 2.0, 5e-6),
    "steep differential": Engine(0.05, 1e-4, 0.5, 1e-6),
}
STREAMS = {
    "small": lambda chance: int(chance.lognormvariate(6, 1)),
    "small and huge": lambda chance: int(chance.lognormvariate(14 if chance.random() < 0.3 else 6, 0.7)),
    "all sizes": lambda chance: int(10 ** chance.uniform(0, 6.5)),
}


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_cheaper_way_is_chosen_where_it_matters_and_never_flaps(engine: str, stream: str) -> None:
    right = wrong = 0
    for seed in range(5):
        chance, costs, rows = random.Random(seed), ENGINES[engine], 2_000_000
        model = measured(CostModel(), Way.FULL, 0, rows, costs.measure(Way.FULL, 0, rows, chance))
        for tick in range(400):
            changed = STREAMS[stream](chance)
            estimated = int(changed * chance.uniform(1.0, 1.2))
            rows += changed // 50
            choice = choose(model, estimated, rows)
            model = remembered(model, choice, estimated)
            model = measured(model, choice.way, estimated, rows, costs.measure(choice.way, changed, rows, chance))
            if tick < 40:
                continue
            spent, spared = (costs.cost(way, changed, rows) for way in (choice.way, choice.way.other))
            right += spared > 1.5 * spent
            wrong += spent > 1.5 * spared
        assert all(habit.switches <= 3 for habit in model.habits.values())
    assert wrong <= 0.1 * (right + wrong), (right, wrong)


def test_before_anything_was_measured_the_share_of_changed_rows_decides() -> None:
    assert choose(CostModel(), 10, 1000).way is Way.DIFFERENTIAL
    choice = choose(CostModel(), 90_000, 100_000)
    assert (choice.way, choice.reason) == (Way.FULL, "CHANGE_TOO_LARGE")
    assert choose(CostModel(), 900, 1000).way is Way.DIFFERENTIAL, "with few rows either way is quick"
    assert choose(CostModel(), 0, 0).way is Way.DIFFERENTIAL


def model_with(differential: float, full: float, changed: int = 100, rows: int = 10_000) -> CostModel:
    model = CostModel()
    for _ in range(3):
        model = measured(model, Way.DIFFERENTIAL, changed, rows, differential)
        model = measured(model, Way.FULL, changed, rows, full)
    return model


def test_a_choice_says_its_estimates_and_its_reason() -> None:
    choice = choose(model_with(2.0, 1.0), 100, 10_000)
    assert (choice.way, choice.reason) == (Way.FULL, "COST_FULL_CHEAPER")
    assert choice.text == "estimated differential 2 s, full 1 s for about 100 changed rows"
    assert (choice.differential_seconds, choice.full_seconds) == (2.0, 1.0)


def test_within_the_margin_the_last_choice_stays() -> None:
    model = model_with(1.2, 1.0)
    assert choose(model, 100, 10_000).way is Way.FULL
    kept = remembered(model, Choice(Way.DIFFERENTIAL, "COST_DIFFERENTIAL_CHEAPER", ""), 100)
    assert choose(kept, 100, 10_000).way is Way.DIFFERENTIAL
    assert choose(kept, 100, 10_000, AutoSettings(margin=1.1)).way is Way.FULL


def test_the_other_way_is_tried_rarely_and_only_if_not_much_worse() -> None:
    def explored(model: CostModel) -> int:
        count = 0
        for _ in range(200):
            choice = choose(model, 100, 10_000)
            count += choice.reason == "EXPLORING"
            model = remembered(model, choice, 100)
        return count

    assert explored(model_with(1.0, 1.6)) == 3
    assert explored(model_with(1.0, 9.0)) == 0


def test_a_slow_start_is_not_held_against_a_way_for_ever() -> None:
    """The first differential refresh compiles its code; the second, tried soon, shows what it really takes."""
    model = replace(model_with(9.0, 1.0), differential=CostCurve().with_sample(5_000, 3.0))
    choice = choose(model, 5_000, 10_000)
    assert (choice.way, choice.reason) == (Way.DIFFERENTIAL, "EXPLORING")
    model = measured(remembered(model, choice, 5_000), Way.DIFFERENTIAL, 5_000, 10_000, 0.5)
    assert choose(model, 5_000, 10_000).way is Way.DIFFERENTIAL
    far_worse = replace(model, differential=CostCurve().with_sample(5_000, 30.0))
    assert choose(far_worse, 5_000, 10_000).way is Way.FULL


def test_one_outlier_changes_nothing() -> None:
    model = measured(model_with(1.0, 2.0), Way.DIFFERENTIAL, 100, 10_000, 60.0)
    assert choose(model, 100, 10_000).way is Way.DIFFERENTIAL


def test_a_full_refresh_costs_more_as_the_inputs_grow() -> None:
    curve = CostCurve().with_sample(1_000, 1.0).with_sample(16_000, 4.0)
    assert curve.seconds(900, 0.0) == 1.0
    assert curve.seconds(100, 0.0) == 0.1
    assert curve.seconds(8_500, 0.0) == 2.5
    assert curve.seconds(31_000, 0.0) == pytest.approx(7.0)
    assert CostCurve().seconds(5, 0.0) is None


def test_many_small_samples_do_not_push_out_a_large_one() -> None:
    curve = CostCurve().with_sample(1_000_000, 9.0)
    for _ in range(1000):
        curve = curve.with_sample(10, 0.1)
    assert curve.seconds(1_000_000, 0.0) == 9.0
    assert curve.count == 10


def test_text_form_is_exact() -> None:
    model = remembered(model_with(2.0, 1.0), Choice(Way.FULL, "COST_FULL_CHEAPER", ""), 100)
    assert model_from_json(model_to_json(model)) == model


def test_a_small_saving_does_not_break_up_the_fused_job() -> None:
    graph = Graph({"a": ("s",), "b": ("a",), "c": ("b",)})
    small = Choice(Way.FULL, "COST_FULL_CHEAPER", "", differential_seconds=0.5, full_seconds=0.3)
    free = Choice(Way.FULL, "COST_FULL_CHEAPER", "", differential_seconds=0.4, full_seconds=0.3)
    large = Choice(Way.FULL, "COST_FULL_CHEAPER", "", differential_seconds=5.0, full_seconds=0.3)
    stays = Choice(Way.DIFFERENTIAL, "COST_DIFFERENTIAL_CHEAPER", "")
    kept = choose_together({"a": small, "b": stays, "c": stays}, graph)
    assert (kept["a"].way, kept["a"].reason) == (Way.DIFFERENTIAL, "KEEPS_OTHERS_FUSED")
    broken = choose_together({"a": large, "b": free, "c": stays}, graph)
    assert [choice.way for choice in broken.values()] == [Way.FULL, Way.FULL, Way.DIFFERENTIAL]
