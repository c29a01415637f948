"""Spark's types for expressions of every kind, and its complaints in one line."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from anabranch.algebra.expression import Expression, Outer, column, expression
from anabranch.algebra.relation import Column
from anabranch.errors import QueryError
from anabranch.spark.analyze import SparkAnalyzer
from anabranch.spark.jobs import count_jobs

COLUMNS = (
    Column("a b", "int"),
    Column("d", "decimal(12,2)"),
    Column("xs", "array<struct<q r:int,s:string>>"),
    Column("m", "map<string,double>"),
)
A, D, XS, M = (each.value for each in COLUMNS)


@pytest.fixture
def analyzer(spark: SparkSession) -> SparkAnalyzer:
    return SparkAnalyzer(spark)


def test_types_of_expressions_of_every_kind(analyzer: SparkAnalyzer) -> None:
    cases = {
        expression("{} + 1", "", A): "int",
        expression("{} * 2", "", D): "decimal(14,2)",
        expression("sum({})", "", D): "decimal(22,2)",
        expression("count(DISTINCT {}) FILTER (WHERE {} > 1)", "", D, A): "bigint",
        expression("rank() OVER (PARTITION BY {} ORDER BY {})", "", A, D): "int",
        expression("explode({})", "", XS): "struct<q r:int,s:string>",
        expression("inline({})", "", XS): "struct<q r:int,s:string>",
        expression("posexplode({})", "", M): "struct<pos:int,key:string,value:double>",
        expression("transform({}, x -> x.s)", "", XS): "array<string>",
        expression("NULL", ""): "void",
        Expression((Outer("d"), " = ", *A.parts), ""): "boolean",
    }
    for together in (list(cases), list(cases)[:2], list(cases)[2:4], list(cases)[:6]):
        assert analyzer.types(together, COLUMNS) == [cases[each] for each in together]
    assert analyzer.types([], COLUMNS) == []
    assert analyzer.types([expression("current_date()", "")], ()) == ["date"]


def test_schema_of_a_query(analyzer: SparkAnalyzer) -> None:
    assert analyzer.schema("SELECT 1 AS `x y`, array(1.5) AS b") == (
        Column("x y", "int"),
        Column("b", "array<decimal(2,1)>"),
    )


def test_no_job_runs(spark: SparkSession, analyzer: SparkAnalyzer) -> None:
    with count_jobs(spark) as count:
        analyzer.types([expression("sum({})", "", D), A], COLUMNS)
        analyzer.schema("SELECT id FROM range(10)")
    assert count.jobs == 0


@pytest.mark.parametrize(
    ("sql", "condition", "place"),
    [
        ("SELECT 1 +", "PARSE_SYNTAX_ERROR", "line 1, position 10"),
        ("SELECT 1,\n  missing FROM range(1)", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "line 2, position 2"),
        ("SELECT * FROM nowhere", "TABLE_OR_VIEW_NOT_FOUND", "line 1, position 14"),
    ],
)
def test_errors_of_queries_are_short(
    analyzer: SparkAnalyzer, capfd: pytest.CaptureFixture[str], sql: str, condition: str, place: str
) -> None:
    with pytest.raises(QueryError) as caught:
        analyzer.schema(sql)
    assert caught.value.code == condition
    assert caught.value.detail == place
    assert "\n" not in caught.value.message
    assert "SQLSTATE" not in caught.value.message
    assert capfd.readouterr().err == ""


def test_errors_name_the_expression(analyzer: SparkAnalyzer) -> None:
    with pytest.raises(QueryError, match="UNRESOLVED_ROUTINE") as caught:
        analyzer.types([A, expression("nosuch({})", "", column("a b", "int"))], COLUMNS)
    assert caught.value.detail == "in nosuch(`a b`)"
