"""The 99 TPC-DS queries: each is kept differentially. Texts and schemas come from DuckDB's tpcds extension."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import duckdb_extension_tpcds
import pytest

from anabranch.algebra.relation import Column
from anabranch.compile import compile_query
from anabranch.spark.analyze import SparkAnalyzer
from anabranch.sql.analyzer import TableBinding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_TYPES = {"integer": "int", "varchar": "string"}


def benchmark() -> duckdb.DuckDBPyConnection:
    folder = Path(duckdb_extension_tpcds.__path__[0])
    connection = duckdb.connect()
    connection.execute(f"LOAD '{next(folder.rglob('tpcds.duckdb_extension'))}'")
    return connection


@pytest.fixture(scope="module")
def queries() -> dict[int, str]:
    """The queries by number; where DuckDB quotes a name like this: \", Spark wants `."""
    with benchmark() as connection:
        found = connection.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall()
    return {number: text.strip().rstrip(";").replace('"', "`") for number, text in found}


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> dict[str, TableBinding]:
    """The tables without any rows."""
    columns: dict[str, list[Column]] = {}
    with benchmark() as connection:
        connection.execute("CALL dsdgen(sf = 0)")
        found = (
            "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal ORDER BY column_index"
        )
        for table, name, type in connection.execute(found).fetchall():
            columns.setdefault(table, []).append(Column(name, SPARK_TYPES.get(type.lower(), type.lower())))
    for table, each in columns.items():
        values = ", ".join(f"CAST(NULL AS {column.type}) AS {column.name}" for column in each)
        spark.sql(f"SELECT {values} WHERE false").createOrReplaceTempView(table)
    return {table: TableBinding(table, tuple(each)) for table, each in columns.items()}


@pytest.mark.parametrize("number", range(1, 100))
def test_query(spark: SparkSession, tables: dict[str, TableBinding], queries: dict[int, str], number: int) -> None:
    program = compile_query(queries[number], lambda parts: tables.get(parts[-1].lower()), SparkAnalyzer(spark))
    assert program.refusals == ()
    assert program.kernel is not None
