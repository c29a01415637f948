"""The 99 TPC-DS queries as stream tables: none is ever wrong, and at least sixty have rows that change often."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.exactness.tpcds_page import page, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WANTED = 60


@pytest.mark.soak
def test_all_queries_through_their_ticks(spark: SparkSession, tmp_path: Path) -> None:
    outcomes = run(spark, tmp_path)
    assert {each.number: each.trouble for each in outcomes if each.trouble} == {}
    assert sum(each.is_lively for each in outcomes) >= WANTED, page(outcomes)
