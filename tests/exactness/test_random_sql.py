"""Random queries as stream tables: after every tick each equals its settled query run by Spark on a plain model.

Graphs of twenty stream tables, refreshed together; one job of the oracle a tick for all of them.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

from anabranch.observe.report import Action
from tests.exactness.generate import CONSTRUCTS
from tests.exactness.lively import GRAPHS, MOVED, OFTEN, TICKS, changes_of, chosen_queries
from tests.exactness.queries import balanced_queries, random_query
from tests.exactness.run_graph import check, create, open_graph, run_graph
from tests.exactness.shapes import Made
from tests.exactness.soak import GRAPHS as MANY_GRAPHS
from tests.exactness.soak import shortcomings
from tests.exactness.tally import Tally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BALANCED_GRAPHS, NODES, MANY_TICKS = 15, 20, 10
DEPTHS = (0, 1, 1, 2)


def balanced_graph(number: int) -> dict[str, Made]:
    made = balanced_queries(BALANCED_GRAPHS * NODES, DEPTHS)
    return {f"n{place}": made[place] for place in range(number, BALANCED_GRAPHS * NODES, BALANCED_GRAPHS)}


@pytest.fixture(scope="module")
def tallies() -> dict[int, Tally]:
    """What each graph moved, once it was run."""
    return {}


def lively_graph(spark: SparkSession, number: int, tallies: dict[int, Tally]) -> Tally:
    """Run the graph, unless it was run, and say what it moved."""
    if number not in tallies:
        found = Tally()
        run_graph(spark, chosen_queries(number), TICKS, found, rng=changes_of(number), moved=MOVED)
        tallies[number] = found
    return tallies[number]


def test_every_construct_is_in_many_queries() -> None:
    found = Counter(name for seed in range(300) for name in random_query(seed, (1, 2, 2)).constructs)
    assert {name for name in CONSTRUCTS if found[name] < 5} == set()
    balanced = Counter(name for made in balanced_queries(BALANCED_GRAPHS * NODES, DEPTHS) for name in made.constructs)
    assert min(balanced[name] for name in CONSTRUCTS) >= 6


def test_there_are_300_queries() -> None:
    assert sum(len(chosen_queries(number)) for number in range(GRAPHS)) >= 300
    assert TICKS >= 5


@pytest.mark.parametrize("number", range(GRAPHS))
def test_graph(spark: SparkSession, number: int, tallies: dict[int, Tally]) -> None:
    lively_graph(spark, number, tallies)


def test_every_construct_was_moved_often(spark: SparkSession, tallies: dict[int, Tally]) -> None:
    found = Tally.sum(lively_graph(spark, number, tallies) for number in range(GRAPHS))
    assert found.too_few(*OFTEN) == {}, str(found)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(BALANCED_GRAPHS))
def test_balanced_graph(spark: SparkSession, number: int) -> None:
    run_graph(spark, balanced_graph(number), MANY_TICKS, Tally())


def test_3000_queries_were_run() -> None:
    """What `make soak` has left: ten ticks of each, none wrong, and every construct moved often."""
    assert MANY_GRAPHS * NODES >= 3_000
    assert shortcomings() == []


def test_small_steps_and_one_big_step_agree(spark: SparkSession) -> None:
    """Half of the nodes are refreshed after every change, their twins only at the end."""
    rng = Random("steps")
    made = {f"{seed}": random_query(seed) for seed in range(7, 71, 8)}
    with open_graph(spark, rng) as graph:
        create(graph, {f"{step}{seed}": query for seed, query in made.items() for step in ("small", "big")})
        for _ in range(3):
            graph.write(graph.model.random_change(rng))
            graph.lake.refresh(*(f"small{seed}" for seed in made))
        report = graph.lake.refresh()
        assert {each.action for each in report.values()} <= {Action.DIFFERENTIAL, Action.NO_DATA}
        check(graph, "after small steps and one big step")
