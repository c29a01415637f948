"""docs/coverage.md says what the code does now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.delta.parts import Strategy
from tests.exactness.coverage import PAGE, page, strategies_shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_page_is_up_to_date(spark: SparkSession) -> None:
    assert PAGE.read_text() == page(spark), "run: python -m tests.exactness.coverage"


def test_every_strategy_has_an_example() -> None:
    assert {each.value for each in Strategy} <= strategies_shown(PAGE.read_text())
