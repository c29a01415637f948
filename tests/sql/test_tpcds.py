"""The 99 TPC-DS queries: each is kept differentially. Texts and schemas come from DuckDB's tpcds extension."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from anabranch.algebra.relation import Column
from anabranch.compile import compile_query
from anabranch.spark.analyze import SparkAnalyzer
from anabranch.sql.analyzer import TableBinding
from tests import tpcds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def queries() -> dict[int, str]:
    return tpcds.queries()


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> dict[str, TableBinding]:
    """The tables without any rows."""
    with tpcds.benchmark() as connection:
        connection.execute("CALL dsdgen(sf = 0)")
        found = tpcds.schemas(connection)
    columns = {table: [Column(name, type) for name, type in each.items()] for table, each in found.items()}
    for table, each in columns.items():
        values = ", ".join(f"CAST(NULL AS {column.type}) AS {column.name}" for column in each)
        spark.sql(f"SELECT {values} WHERE false").createOrReplaceTempView(table)
    return {table: TableBinding(table, tuple(each)) for table, each in columns.items()}


@pytest.mark.parametrize("number", range(1, 100))
def test_query(spark: SparkSession, tables: dict[str, TableBinding], queries: dict[int, str], number: int) -> None:
    program = compile_query(queries[number], lambda parts: tables.get(parts[-1].lower()), SparkAnalyzer(spark))
    assert program.refusals == ()
    assert program.kernel is not None
