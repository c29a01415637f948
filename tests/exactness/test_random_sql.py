"""Random queries as stream tables: after every tick each equals its settled query run by Spark on a plain model.

Graphs of some twenty stream tables, refreshed together; one job of the oracle a tick for all of them.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

import pytest

import anabranch
from anabranch.observe.report import Action
from tests.exactness.generate import CONSTRUCTS
from tests.exactness.graph import Graph
from tests.exactness.model import Model
from tests.exactness.queries import random_query
from tests.exactness.shapes import Made
from tests.exactness.sources import SCHEMAS
from tests.exactness.tally import Tally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NODES, TICKS = 18, 3
GRAPHS = 4
"""As many queries as there are constructs, so that each is on top of one."""
MANY_NODES, MANY_TICKS = 20, 10
DEEP = (1, 2, 2)
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""On a dozen rows compiling a plan costs more than running it; the long run compiles."""


def test_every_construct_is_in_many_queries() -> None:
    found = Counter(name for seed in range(300) for name in random_query(seed, DEEP).constructs)
    assert {name for name in CONSTRUCTS if found[name] < 5} == set()
    on_top = {sorted(CONSTRUCTS)[seed % len(CONSTRUCTS)] for seed in range(GRAPHS * NODES)}
    assert on_top == set(CONSTRUCTS)


@pytest.mark.parametrize("number", range(GRAPHS))
def test_graph(spark: SparkSession, number: int) -> None:
    seeds = range(number * NODES, (number + 1) * NODES)
    run_graph(spark, {f"n{seed}": random_query(seed) for seed in seeds}, TICKS, Tally(), INTERPRETED)


@pytest.mark.soak
@pytest.mark.parametrize(("graphs", "wanted"), [(30, (50, 50, 20)), (150, (250, 250, 100))])
def test_many_graphs(spark: SparkSession, graphs: int, wanted: tuple[int, int, int]) -> None:
    """600 and 3,000 queries through ten ticks each, and each construct moved often enough."""
    tally = Tally()
    for number in range(graphs):
        first = 1_000 + graphs * 1_000 + number * MANY_NODES
        made = {f"n{seed}": random_query(seed, DEEP) for seed in range(first, first + MANY_NODES)}
        run_graph(spark, made, MANY_TICKS, tally, {})
    print(tally)
    assert tally.too_few(*wanted) == {}, str(tally)


def test_small_steps_and_one_big_step_agree(spark: SparkSession) -> None:
    """Half of the nodes are refreshed after every change, their twins only at the end."""
    rng = Random("steps")
    seeds = range(7, 71, 16)
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


def run_graph(spark: SparkSession, made: dict[str, Made], ticks: int, tally: Tally, settings: dict[str, str]) -> None:
    """One graph through its ticks; every query has to be made and moved differentially, and be right each time."""
    rng = Random(f"graph {next(iter(made))}")
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
