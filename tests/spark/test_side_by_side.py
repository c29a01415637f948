"""Several queries at once belong to the thread that asked for them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from anabranch.spark.quiet import quietly
from anabranch.spark.side_by_side import side_by_side

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXTS = ["SELECT 1 DIV id FROM range(1)", "SELECT 2 DIV id FROM range(1)"]


class Heard(logging.Handler):
    """Remembers what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def heard() -> Heard:
    return Heard()


def fail(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        list(side_by_side(spark, lambda text: spark.sql(text).toArrow(), TEXTS))


def test_failures_on_other_threads_are_as_quiet(spark: SparkSession, heard: Heard) -> None:
    logger = logging.getLogger("SQLQueryContextLogger")
    logger.addHandler(heard)
    try:
        with quietly():
            fail(spark)
        assert heard.records == []
        fail(spark)
        assert heard.records != []
    finally:
        logger.removeHandler(heard)
