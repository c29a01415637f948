"""Several queries at once belong to the thread that asked for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from anabranch.spark.quiet import quietly
from anabranch.spark.side_by_side import side_by_side

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_failures_on_other_threads_are_as_quiet(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    texts = ["SELECT 1 DIV id FROM range(1)", "SELECT 2 DIV id FROM range(1)"]
    with quietly(), pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        list(side_by_side(spark, lambda text: spark.sql(text).toArrow(), texts))
    assert capfd.readouterr().err == ""
