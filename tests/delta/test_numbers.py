"""Merged sums and averages are Spark's own, digit by digit and type by type."""

from __future__ import annotations

from decimal import Decimal, localcontext
from random import Random
from typing import TYPE_CHECKING

import pytest

from anabranch.algebra.expression import Expression, column
from anabranch.delta.numbers import (
    final_average,
    final_sum,
    is_mergeable_average,
    is_mergeable_sum,
    sum_type,
    weighted,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MERGEABLE = {
    "int": ("bigint", "double"),
    "bigint": ("bigint", "double"),
    "decimal(12,2)": ("decimal(22,2)", "decimal(16,6)"),
    "decimal(27,10)": ("decimal(37,10)", "decimal(31,14)"),
    "decimal(38,6)": ("decimal(38,6)", "decimal(38,10)"),
}
"""For each type the types of SUM and AVG."""


def text(value: Expression) -> str:
    return value.text(lambda hole: hole.name)


@pytest.mark.parametrize("type", MERGEABLE)
def test_mergeable(type: str) -> None:
    total, mean = MERGEABLE[type]
    assert is_mergeable_sum(type, total)
    assert is_mergeable_average(type, mean)


@pytest.mark.parametrize("type", ["double", "float", "string", "interval day to second", "decimal(38,18)"])
def test_not_mergeable(type: str) -> None:
    """Floating-point sums depend on their order; weight * value would lose digits of a scale that wide."""
    assert not is_mergeable_sum(type, "decimal(38,18)" if type.startswith("decimal") else type)
    assert not is_mergeable_average(type, "double")


def test_averages_that_would_overflow_on_the_way_are_not_merged() -> None:
    assert is_mergeable_sum("decimal(38,0)", "decimal(38,0)")
    assert not is_mergeable_average("decimal(38,0)", "decimal(38,4)")


def random_value(rng: Random, type: str) -> object:
    if rng.random() < 0.1:
        return None
    if not type.startswith("decimal"):
        return rng.randint(-(2**31), 2**31 - 1)
    precision, scale = (int(digits) for digits in type[8:-1].split(","))
    largest = 10 ** min(precision, rng.choice((2, 9, 18, precision - 7))) - 1
    with localcontext() as context:
        context.prec = 50
        return Decimal(rng.randint(-largest, largest)).scaleb(-scale)


@pytest.mark.parametrize("type", MERGEABLE)
def test_as_spark_computes_them(spark: SparkSession, type: str) -> None:
    """Rows with weights 1, -3, 5, -2, which add up to one, against SUM and AVG over the rows themselves."""
    rng = Random(type)
    rows = [(group, random_value(rng, type)) for group in range(60) for _ in range(rng.choice((1, 2, 3, 7, 49)))]
    spark.createDataFrame(rows, f"g int, x {type}").createOrReplaceTempView("numbers_given")
    spark.createDataFrame([(1,), (-3,), (5,), (-2,)], "w bigint").createOrReplaceTempView("numbers_weights")
    total, mean = MERGEABLE[type]
    kept, present = column("kept", sum_type(type)), column("present", "bigint")
    added = text(weighted(column("x", type), column("w", "bigint")))
    (row,) = spark.sql(
        f"""
        WITH merged AS (
            SELECT g, SUM(coalesce({added}, 0)) AS kept, SUM(CASE WHEN x IS NOT NULL THEN w ELSE 0 END) AS present
            FROM numbers_given CROSS JOIN numbers_weights GROUP BY g
        ), finished AS (
            SELECT g, {text(final_sum(kept, present, total))} AS total,
                {text(final_average(kept, present, type, mean))} AS mean
            FROM merged
        ), wanted AS (SELECT g, SUM(x) AS total, AVG(x) AS mean FROM numbers_given GROUP BY g)
        SELECT count(*) AS groups, count_if(f.total <=> w.total AND f.mean <=> w.mean) AS alike,
            max(typeof(f.total)) AS total_type, max(typeof(f.mean)) AS mean_type
        FROM finished f JOIN wanted w ON f.g = w.g
        """
    ).collect()
    assert (row.groups, row.alike, row.total_type, row.mean_type) == (60, 60, total, mean)
