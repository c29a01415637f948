"""One graph of random stream tables through its ticks: all moved differentially, and all right each time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

import anabranch
from anabranch.errors import AnabranchError
from anabranch.observe.report import Action
from anabranch.spark.session import configure, exclude_unsound_rules
from tests.exactness.graph import Graph
from tests.exactness.model import Model
from tests.exactness.shapes import Made
from tests.exactness.sources import SCHEMAS
from tests.exactness.tally import Tally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class WrongError(AssertionError):
    """A stream table that was refused, was not moved differentially, or is not what its query says."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name} {message}")
        self.name = name


def run_graph(
    spark: SparkSession,
    made: Mapping[str, Made],
    ticks: int,
    tally: Tally,
    *,
    compiled: bool = False,
    rng: Random | None = None,
    moved: tuple[int, int] = (1, 4),
) -> None:
    """Raises WrongError for the first stream table that is not as it should be.

    A query that itself raises (a division by zero), on the first rows or on changed ones, is set aside.
    `compiled`: stream tables are filled by plans that Spark compiles, as it does by itself.
    """
    rng = rng or Random(f"graph {next(iter(made))}")
    with open_graph(spark, rng, compiled, moved) as graph:
        create(graph, made)
        check(graph, "when created")
        for number in range(ticks):
            change, report = graph.tick(rng)
            for name in list(graph.settled):
                each = report[name]
                if each.action is Action.FAILED and graph.raises(name):
                    graph.set_aside(name)
                elif each.action not in (Action.DIFFERENTIAL, Action.NO_DATA):
                    raise WrongError(name, f"in tick {number + 1}: {each} {each.error}\n{made[name].text}")
                else:
                    tally.add(made[name], change, each)
            check(graph, f"after tick {number + 1} of {change}")


def create(graph: Graph, made: Mapping[str, Made]) -> None:
    """Make the stream tables but those whose query raises on the rows there are; WrongError for one that is refused."""
    texts = {name: query.text for name, query in made.items()}
    try:
        graph.create(texts)
    except AnabranchError as error:
        runnable = {name: text for name, text in texts.items() if not graph.raises(f"({text})")}
        if len(runnable) < len(texts):
            graph.create(runnable)
            return
        name = (error.place or "").split(":")[0]
        raise WrongError(name, f"is refused: {error}\n{made[name].text if name in made else ''}") from error


def check(graph: Graph, when: str) -> None:
    """Raises WrongError for a stream table that is not what its query says."""
    for name, (missing, unexpected) in graph.wrong().items():
        raise WrongError(name, f"{when}: {graph.settled[name]}\nmissing {missing}\nunexpected {unexpected}")


def oracle_session(spark: SparkSession) -> SparkSession:
    """A session of its own for what stream tables are compared with."""
    oracle = spark.newSession()
    exclude_unsound_rules(oracle)
    configure(oracle, {**INTERPRETED, **IN_ONE_PARTITION})
    return oracle


@contextmanager
def open_graph(
    spark: SparkSession, rng: Random, compiled: bool = False, moved: tuple[int, int] = (1, 4)
) -> Iterator[Graph]:
    """A lake with random sources, and an oracle beside it."""
    oracle = oracle_session(spark)
    with tempfile.TemporaryDirectory() as folder, anabranch.connect(folder, spark=spark) as lake:
        if not compiled:
            configure(lake._engine.session, INTERPRETED)
        graph = Graph(lake, Model.random(SCHEMAS, rng, moved), oracle)
        graph.create_sources()
        yield graph


INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""On a dozen rows compiling a plan costs more than running it."""
IN_ONE_PARTITION = {"spark.sql.shuffle.partitions": "1", "spark.sql.autoBroadcastJoinThreshold": "-1"}
"""Then nothing has to be shuffled, and a union of many queries is one task."""
