"""The 22 TPC-H queries, translated and put together again, give Spark's own rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import duckdb_extension_tpch
import pytest

from anabranch.algebra.relation import Column
from anabranch.spark.analyze import SparkAnalyzer
from anabranch.sql.translate import TableBinding, translate
from tests.sql.surface import surface_sql
from tests.sql.test_translate import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def benchmark() -> duckdb.DuckDBPyConnection:
    folder = Path(duckdb_extension_tpch.__path__[0])
    connection = duckdb.connect()
    connection.execute(f"LOAD '{next(folder.rglob('tpch.duckdb_extension'))}'")
    return connection


def queries() -> list[str]:
    with benchmark() as connection:
        return [text for (text,) in connection.execute("SELECT query FROM tpch_queries() ORDER BY query_nr").fetchall()]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, TableBinding]:
    folder = tmp_path_factory.mktemp("tpch")
    bindings: dict[str, TableBinding] = {}
    with benchmark() as connection:
        connection.execute("CALL dbgen(sf = 0.001)")
        for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            connection.execute(f"COPY {name} TO '{folder / name}.parquet' (FORMAT parquet)")
            frame = spark.read.parquet(f"{folder / name}.parquet")
            frame.createOrReplaceTempView(name)
            columns = tuple(Column(each.name, each.dataType.simpleString()) for each in frame.schema.fields)
            bindings[name] = TableBinding(name, columns)
    return bindings


@pytest.mark.parametrize("number", range(1, 23))
def test_query(spark: SparkSession, tables: dict[str, TableBinding], number: int) -> None:
    query = queries()[number - 1]
    analyzer = SparkAnalyzer(spark)
    translation = translate(query, lambda parts: tables.get(parts[-1].lower()), analyzer)
    assert translation.refusals == ()
    again = surface_sql(translation.relation)
    assert [each.type for each in analyzer.schema(again)] == [each.type for each in translation.columns]
    assert rows(spark, again) == rows(spark, query)
