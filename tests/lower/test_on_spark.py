"""A sample of random plans on Spark: the interpreter means what Spark does, before lowering and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

import pytest

from anabranch.algebra.expression import expression
from anabranch.algebra.interpret import Environment, interpret
from anabranch.algebra.relation import Column, Generate, Scan, Values, iterate
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


KEPT = {1_510: "a NULL repeated twice is two rows; the interpreter had made it no array, so one padded row"}


@pytest.mark.parametrize("seed", KEPT)
def test_plans_that_once_failed_on_spark(spark: SparkSession, environment: Environment, seed: int) -> None:
    check(seed, spark, environment)


def test_null_repeated_on_spark(spark: SparkSession) -> None:
    """The smallest plan of seed 1510: (value, count) by a LATERAL VIEW OUTER of the repeated value."""
    value, count, each = Column("value", "bigint"), Column("count", "bigint"), Column("each", "bigint")
    written = (("NULL", "2"), ("NULL", "0"), ("7", "NULL"), ("7", "-1"), ("7", "2"))
    rows = tuple(tuple(expression(f"CAST({field} AS BIGINT)", "bigint") for field in row) for row in written)
    repeated = expression("explode(array_repeat({}, CAST({} AS INT)))", "bigint", value.value, count.value)
    plan = Generate(Values(rows, (value, count)), repeated, True, (each,))
    expected = {(None, 2, None): 2, (None, 0, None): 1, (7, None, None): 1, (7, -1, None): 1, (7, 2, 7): 2}
    assert interpret(plan, Environment()) == expected
    assert Counter(tuple(row) for row in spark.sql(render(plan, {}).sql).collect()) == expected


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
