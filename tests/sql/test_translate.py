"""Every query of the corpus, translated and put together again, gives Spark's own schema and rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from anabranch.algebra.relation import iterate
from anabranch.spark.analyze import SparkAnalyzer
from anabranch.sql.translate import TableBinding, Translation, ViewBinding, translate
from tests.sql.data import create_tables
from tests.sql.surface import surface_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = Path(__file__).parent / "queries"
Translate = Any


def corpus() -> Iterator[Any]:
    for path in sorted(QUERIES.glob("*.sql")):
        for number, query in enumerate(re.split(r";\s*\n", path.read_text()), 1):
            if query.strip():
                yield pytest.param(query.strip(), id=f"{path.stem}-{number}")


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> dict[str, TableBinding | ViewBinding]:
    return create_tables(spark)


@pytest.fixture(scope="module")
def analyzer(spark: SparkSession) -> SparkAnalyzer:
    return SparkAnalyzer(spark)


@pytest.fixture(scope="module")
def translated(tables: dict[str, TableBinding | ViewBinding], analyzer: SparkAnalyzer) -> Translate:
    def run(query: str) -> Translation:
        return translate(query, lambda parts: tables.get(parts[-1].lower()), analyzer)

    return run


def plain(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if value != value else round(value, 6)
    if isinstance(value, list | tuple):
        return tuple(plain(each) for each in value)
    if isinstance(value, dict):
        return tuple(sorted(((key, plain(each)) for key, each in value.items()), key=repr))
    return bytes(value) if isinstance(value, bytearray) else value


def rows(spark: SparkSession, query: str) -> Counter[Any]:
    return Counter(plain(tuple(row)) for row in spark.sql(query).collect())


@pytest.mark.parametrize("query", list(corpus()))
def test_corpus(spark: SparkSession, analyzer: SparkAnalyzer, translated: Translate, query: str) -> None:
    translation = translated(query)
    assert translation.refusals == ()
    again = surface_sql(translation.relation)
    assert [each.type for each in analyzer.schema(again)] == [each.type for each in translation.columns]
    assert rows(spark, again) == rows(spark, query)


def test_names_are_unique(translated: Translate) -> None:
    relation = translated("SELECT x.a, y.a AS b, x.a AS c FROM t x JOIN t y ON x.a = y.a, t z").relation
    for each in iterate(relation):
        assert len({name.lower() for name in each.names}) == len(each.names)


def test_a_common_table_is_one_object(translated: Translate) -> None:
    relation = translated(
        "WITH q AS (SELECT a, count(*) AS n FROM t GROUP BY a) SELECT x.n FROM q x JOIN q y ON x.a = y.a"
    ).relation
    assert sum(type(each).__name__ == "Aggregate" for each in iterate(relation)) == 1


def test_a_view_is_looked_through(translated: Translate) -> None:
    assert translated("SELECT * FROM counted").tables == {"t"}
    assert translated("SELECT * FROM counted LIMIT 1").tables == {"t"}


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT a FROM t LIMIT 3", "LIMIT_WITHOUT_ORDER"),
        ("SELECT a FROM t OFFSET 3", "LIMIT_WITHOUT_ORDER"),
        ("SELECT a FROM t WHERE a IN (SELECT a FROM u LIMIT 1)", "LIMIT_WITHOUT_ORDER"),
        ("SELECT a FROM t TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
        ("SELECT rand() AS r FROM t", "NONDETERMINISTIC_FUNCTION"),
        ("SELECT a FROM t WHERE uuid() > 'x'", "NONDETERMINISTIC_FUNCTION"),
        ("SELECT current_user AS who FROM t", "NONDETERMINISTIC_FUNCTION"),
        ("SELECT percentile_approx(a, 0.5) FROM t", "APPROXIMATE_AGGREGATE"),
        ("SELECT session_window(ts, b), count(*) FROM t GROUP BY session_window(ts, b)", "SESSION_GAP_VARIES"),
        (
            "SELECT (SELECT count(*) FROM t AS x FULL JOIN t AS y ON x.a = y.a AND y.b = t.b) AS n FROM t",
            "FULL_JOIN_ON_OUTER_COLUMN",
        ),
        ("SELECT TRANSFORM (a) USING 'cat' AS (b STRING) FROM t", "SYNTAX_NOT_UNDERSTOOD"),
    ],
)
def test_refused(translated: Translate, query: str, code: str) -> None:
    translation = translated(query)
    assert code in [each.code for each in translation.refusals]
    assert all(each.reason and each.hint for each in translation.refusals)
    assert "t" in translation.tables


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("SELECT a FROM t ORDER BY a", "ORDER BY without LIMIT is dropped"),
        ("SELECT a FROM t ORDER BY b LIMIT 3", "ordered by all output columns"),
        ("SELECT first(b) FROM t", "the least one"),
        ("SELECT last(b) FROM t", "the greatest one"),
        ("SELECT collect_list(b) FROM t", "the elements are sorted"),
        ("SELECT listagg(b) FROM t", "settled by the element"),
        ("SELECT max_by(a, b) FROM t", "ties are settled"),
        ("SELECT mode(a) FROM t", "ties are settled"),
        ("SELECT row_number() OVER (ORDER BY a) AS r FROM t", "all columns of the input"),
        ("SELECT sum(a) OVER (ORDER BY b ROWS 1 PRECEDING) AS s FROM t", "all columns of the input"),
        ("SELECT first_value(a) OVER (ORDER BY b) AS f FROM t", "all columns of the input"),
        ("SELECT nth_value(a, 2) OVER (ORDER BY b) AS f FROM t", "all columns of the input"),
    ],
)
def test_settled(spark: SparkSession, analyzer: SparkAnalyzer, translated: Translate, query: str, note: str) -> None:
    translation = translated(query)
    assert any(note in each for each in translation.notes)
    again = surface_sql(translation.relation)
    assert [each.type for each in analyzer.schema(again)] == [each.type for each in translation.columns]
    assert rows(spark, again) == rows(spark, again)


def test_settled_answers_are_answers(spark: SparkSession, translated: Translate) -> None:
    """Each settled value is one that Spark might have given."""
    picked = "first(name) AS f, first(id) AS i, last(name) AS l, max_by(name, salary) AS m"
    query = f"SELECT dept, {picked} FROM emp GROUP BY dept"
    people = {row["id"]: row for row in spark.table("emp").collect()}
    for dept, first, identity, last, most in spark.sql(surface_sql(translated(query).relation)).collect():
        assert people[identity]["name"] == first
        assert people[identity]["dept"] == dept
        assert last in {each["name"] for each in people.values() if each["dept"] == dept}
        paid = [each["salary"] for each in people.values() if each["dept"] == dept and each["salary"] is not None]
        chosen = [each["salary"] for each in people.values() if each["name"] == most]
        assert chosen == [max(paid)] if paid else most is None
    listed = spark.sql(surface_sql(translated("SELECT collect_list(a) AS xs FROM t").relation)).first()
    plainly = spark.sql("SELECT collect_list(a) AS xs FROM t").first()
    assert listed is not None
    assert plainly is not None
    assert listed[0] == sorted(plainly[0])


def test_chance_inside_a_function_that_somebody_defined(spark: SparkSession, translated: Translate) -> None:
    bodies = {"__by_clock": "string(now())", "__by_chance": "string(rand())", "__plain": "string(1)"}
    for name, body in bodies.items():
        spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {name}(v INT) RETURNS STRING RETURN concat(v, {body})")
    try:
        codes = {name: [each.code for each in translated(f"SELECT {name}(a) AS x FROM t").refusals] for name in bodies}
    finally:
        for name in bodies:
            spark.sql(f"DROP TEMPORARY FUNCTION {name}")
    refused = ["NONDETERMINISTIC_FUNCTION"]
    assert codes == {"__by_clock": refused, "__by_chance": refused, "__plain": []}


def test_the_clock_is_noticed(translated: Translate) -> None:
    assert translated("SELECT a FROM t WHERE dt > current_date").time_functions == {"current_date"}
    assert translated("SELECT now() AS n, unix_timestamp() AS u FROM t").time_functions == {"now", "unix_timestamp"}
    assert translated("SELECT a FROM t WHERE dt > date_trunc('day', ts)").time_functions == frozenset()
