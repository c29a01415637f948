"""A sample of random plans on Spark: the interpreter means what Spark does, before lowering and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

import pytest

from anabranch.algebra.interpret import Environment, interpret
from anabranch.algebra.relation import Scan, iterate
from anabranch.algebra.values import EvaluationError
from anabranch.lower.lower import lower
from anabranch.spark.render.render import render
from tests.plans import random_relation, random_tables
from tests.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = range(330, 338)
MANY_SEEDS = range(1_000, 2_000)


@pytest.fixture(scope="module")
def environment(spark: SparkSession) -> Iterator[Environment]:
    """The same small tables for Python and for Spark."""
    tables = random_tables(Random(7))
    for name, table in tables.items():
        rows = [row for row, weight in table.rows.items() for _ in range(weight)]
        columns = ", ".join(f"{each.name} {each.type}" for each in TABLES[name])
        spark.createDataFrame(rows, columns).createOrReplaceTempView(f"plain_{name}")
    yield Environment(tables=tables)
    for name in tables:
        spark.catalog.dropTempView(f"plain_{name}")


def test_random_plans_on_spark(spark: SparkSession, environment: Environment) -> None:
    for seed in SEEDS:
        check(seed, spark, environment)


@pytest.mark.soak
def test_many_random_plans_on_spark(spark: SparkSession, environment: Environment) -> None:
    for seed in MANY_SEEDS:
        check(seed, spark, environment)


def check(seed: int, spark: SparkSession, environment: Environment) -> None:
    relation = random_relation(Random(seed), surface=True)
    try:
        expected = interpret(relation, environment)
    except EvaluationError:
        return
    lowered = lower(relation)
    views = {each: f"plain_{each.table}" for each in iterate(lowered) if isinstance(each, Scan)}
    found = Counter(tuple(row) for row in spark.sql(render(lowered, views).sql).collect())
    assert dict(found) == expected, f"seed {seed}"
