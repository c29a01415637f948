"""Random queries as stream tables: after every tick each equals its settled query run by Spark on a plain model.

Graphs of some twenty stream tables, refreshed together; one job of the oracle a tick for all of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

import pytest

import anabranch
from anabranch.observe.report import Action
from tests.exactness.graph import Graph
from tests.exactness.model import Model
from tests.exactness.queries import random_query
from tests.exactness.sources import SCHEMAS
from tests.exactness.tally import Tally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NODES = 20
TICKS = 5
GRAPHS = 15
MANY_GRAPHS, MANY_TICKS = 150, 10
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""On a dozen rows compiling a plan costs more than running it; the long run compiles."""


@pytest.fixture(scope="module")
def tally() -> Tally:
    return Tally()


@pytest.mark.parametrize("number", range(GRAPHS))
def test_graph(spark: SparkSession, tally: Tally, number: int) -> None:
    run_graph(spark, range(number * NODES, (number + 1) * NODES), TICKS, tally, INTERPRETED)


def test_every_construct_was_moved(tally: Tally) -> None:
    assert tally.too_few(changed=50, retracted=50, both_sides=20) == {}, str(tally)


@pytest.mark.soak
def test_many_graphs(spark: SparkSession) -> None:
    tally = Tally()
    for number in range(MANY_GRAPHS):
        first = 10_000 + number * NODES
        run_graph(spark, range(first, first + NODES), MANY_TICKS, tally, {})
    print(tally)
    assert tally.too_few(changed=500, retracted=500, both_sides=200) == {}, str(tally)


KEPT_SEEDS: dict[str, int] = {}
"""Queries that were once kept wrongly, by what was wrong."""


@pytest.mark.parametrize("name", KEPT_SEEDS)
def test_kept_seeds(spark: SparkSession, name: str) -> None:
    run_graph(spark, [KEPT_SEEDS[name]], TICKS, Tally(), {})


def test_small_steps_and_one_big_step_agree(spark: SparkSession) -> None:
    """Half of the nodes are refreshed after every change, their twins only at the end."""
    rng = Random("steps")
    seeds = range(7, 300, 29)
    with _graph(spark, rng, INTERPRETED) as graph:
        for seed in seeds:
            query = random_query(seed).text
            assert graph.create(f"small{seed}", query), graph.refusals
            assert graph.create(f"big{seed}", query), graph.refusals
        for _ in range(3):
            graph.write(graph.model.random_change(rng))
            graph.lake.refresh(*(f"small{seed}" for seed in seeds))
        report = graph.lake.refresh()
        assert {each.action for each in report.values()} <= {Action.DIFFERENTIAL, Action.NO_DATA}
        assert graph.wrong() == {}


def run_graph(spark: SparkSession, seeds: Sequence[int], ticks: int, tally: Tally, settings: dict[str, str]) -> None:
    """One graph through its ticks; every query has to be made and moved differentially, and be right each time."""
    rng = Random(f"graph {seeds[0]}")
    made = {f"n{seed}": random_query(seed) for seed in seeds}
    with _graph(spark, rng, settings) as graph:
        for name, query in made.items():
            assert graph.create(name, query.text), f"{name}: {query.text}\n{graph.refusals[name]}"
        _check(graph, "when created")
        for number in range(ticks):
            change, report = graph.tick(rng)
            for name, query in made.items():
                each = report[name]
                assert each.action in (Action.DIFFERENTIAL, Action.NO_DATA), f"{each} {each.error}\n{query.text}"
                tally.add(query, change, each)
            _check(graph, f"after tick {number + 1} of {change}")


def _check(graph: Graph, when: str) -> None:
    for name, (missing, unexpected) in graph.wrong().items():
        pytest.fail(f"{name} {when}: {graph.settled[name]}\nmissing {missing}\nunexpected {unexpected}")


@contextmanager
def _graph(spark: SparkSession, rng: Random, settings: dict[str, str]) -> Iterator[Graph]:
    oracle = spark.newSession()
    with tempfile.TemporaryDirectory() as folder, anabranch.connect(folder, spark=spark) as lake:
        for key, value in settings.items():
            oracle.conf.set(key, value)
            lake._engine.session.conf.set(key, value)
        graph = Graph(lake, Model.random(SCHEMAS, rng), oracle)
        graph.create_sources()
        yield graph
