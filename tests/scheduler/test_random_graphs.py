"""Random graphs with real refreshes: in every state each node is its query over one state of the sources."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import refresh, work
from anabranch.inputs import TickInputs
from tests.scheduler.graphs import FEW, RandomGraph, temporary_lake

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from anabranch.definitions import StreamTable
    from anabranch.engine import Engine

SEEDS = st.integers(min_value=0, max_value=2**32)


@FEW
@given(seed=SEEDS)
def test_every_node_is_its_query_over_one_state_of_the_sources(spark: SparkSession, seed: int) -> None:
    run_random_graph(spark, seed, nodes=4, steps=8)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(60))
def test_every_node_is_its_query_over_one_state_of_the_sources_often(spark: SparkSession, seed: int) -> None:
    run_random_graph(spark, seed, nodes=8, steps=25)


def run_random_graph(spark: SparkSession, seed: int, nodes: int, steps: int) -> None:
    with temporary_lake(spark) as lake:
        graph = RandomGraph(lake, Random(seed))
        graph.create_sources()
        for _ in range(nodes):
            graph.create_node()
        happened: list[str] = []
        for number in range(steps):
            happened.append(graph.step())
            if number % 3 == 2 or number == steps - 1:
                assert graph.wrong_nodes() == [], f"seed {seed}, after {happened}"
        lake.resume(*graph.nodes)
        lake.refresh()
        assert graph.wrong_nodes() == [], f"seed {seed}, at the end"
        frontiers = [lake.frontier(name).sources for name in graph.nodes]
        newest = {key: at for frontier in frontiers for key, at in frontier.items()}
        assert all(newest[key] == at for frontier in frontiers for key, at in frontier.items()), "all are up to date"


@FEW
@given(seed=SEEDS)
def test_the_order_of_refreshes_does_not_matter(spark: SparkSession, seed: int) -> None:
    """All at once in one job, one after the other in any topological order, or node by node: the same rows."""
    results = []
    for way in ("fused", "any order", "node by node"):
        with temporary_lake(spark, enable_fused_refresh=way == "fused") as lake, pytest.MonkeyPatch.context() as patch:
            if way == "any order":
                patch.setattr(refresh, "TickWork", shuffled_work(Random(seed)))
            graph = RandomGraph(lake, Random(seed))
            graph.create_sources()
            for _ in range(4):
                graph.create_node()
            for _ in range(2):
                graph.change()
                graph.change()
                if way == "node by node":
                    for name in graph.nodes:
                        lake.refresh(name)
                lake.refresh()
            results.append({name: sorted(lake.table(name).collect()) for name in graph.nodes})
    assert results[0] == results[1] == results[2], f"seed {seed}"


def shuffled_work(rng: Random) -> type[work.TickWork]:
    class Shuffled(work.TickWork):
        """Nodes in another topological order."""

        def __init__(self, engine: Engine, inputs: TickInputs, nodes: Sequence[StreamTable], *more: Any) -> None:
            left, ordered = list(nodes), []
            while left:
                moving = {each.id for each in left}
                free = [each for each in left if not moving.intersection(each.inputs)]
                ordered.append(rng.choice(free))
                left.remove(ordered[-1])
            super().__init__(engine, inputs, ordered, *more)

    return Shuffled
