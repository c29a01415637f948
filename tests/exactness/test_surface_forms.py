"""Forms of queries that were once refused or kept wrongly: after each tick each is what Spark makes of its text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import anabranch
from anabranch.observe.report import Action
from anabranch.project.apply import apply_project
from anabranch.project.desired import Desired, Place, WantedTable
from anabranch.spark.session import configure
from tests.exactness.run_graph import INTERPRETED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from anabranch import Lake

QUERIES = {
    # Fields of structs are named after the text.
    "renamed_field": "SELECT to_json(struct(x)) AS j FROM (SELECT a AS x FROM t)",
    "aggregates_in_a_struct": "SELECT to_json(struct(max(b), min(b))) AS j FROM t",
    "grouped_fields": "SELECT to_json(struct(x, y)) AS j FROM (SELECT a AS x, sum(b) AS y FROM t GROUP BY a)",
    "merged_key": "SELECT to_json(struct(a)) AS j FROM t FULL JOIN o USING (a)",
    "window_in_a_struct": "SELECT to_json(struct(rank() OVER (ORDER BY a, b), b)) AS j FROM t",
    "key_in_a_struct": "SELECT to_json(struct(a + b, a)) AS j, count(*) AS n FROM t GROUP BY a + b, a",
    "subquery_in_a_struct": "SELECT to_json(struct((SELECT max(c) FROM o), b)) AS j FROM t",
    "type_of_a_struct": "SELECT typeof(struct(max(b), count(*))) AS j FROM t",
    "field_of_a_struct": "SELECT max(struct(y, x)).x AS m FROM (SELECT a AS x, b AS y FROM t)",
    "row_of_aggregates": "SELECT a, (max(b), min(b)) AS r FROM t GROUP BY a",
    "zipped": "SELECT to_json(arrays_zip(ys, zs)) AS z FROM (SELECT xs AS ys, array(a) AS zs FROM o)",
    "star_in_a_struct": "SELECT to_json(struct(q.*, *)) AS j FROM (SELECT b AS a FROM t) AS q",
    "stars_in_structs": "SELECT to_json(struct(*)) AS j FROM (SELECT b AS a, a AS b FROM t)",
    "fields_of_fields": (
        "SELECT to_json(struct(s.p, s['p'], m['k'], 1 AS one, 2)) AS j "
        "FROM (SELECT named_struct('p', a) AS s, map('k', b) AS m FROM t)"
    ),
    "lambda_in_a_struct": "SELECT to_json(transform(xs, e -> struct(x, e))) AS j FROM (SELECT a AS x, xs FROM o)",
    # NOT IN within a join asks for a row that is equal, not for one that may be.
    "not_in_left": "SELECT t.a, b, c FROM t LEFT JOIN o ON t.a = o.a AND b NOT IN (SELECT c FROM o)",
    "not_in_left_other_side": "SELECT t.a, b, c FROM t LEFT JOIN o ON t.a = o.a AND c NOT IN (SELECT b FROM t)",
    "not_in_right": "SELECT t.a, b, c FROM t RIGHT JOIN o ON t.a = o.a AND c NOT IN (SELECT b FROM t)",
    "not_in_full": "SELECT t.a, b, c FROM t FULL JOIN o ON t.a = o.a AND b NOT IN (SELECT c FROM o)",
    "not_in_anti": "SELECT t.a, b FROM t LEFT ANTI JOIN o ON t.a = o.a AND b NOT IN (SELECT c FROM o)",
    "not_in_both_sides": "SELECT t.a, b, c FROM t JOIN o ON t.a = o.a AND (c = 77 OR b NOT IN (SELECT c FROM o))",
    "not_in_one_side": "SELECT t.a, b, c FROM t JOIN o ON t.a = o.a AND b NOT IN (SELECT c FROM o)",
    "null_in": "SELECT a, NULL IN (SELECT c FROM o) AS n FROM t",
    # Stars, words without a space, ordinals, aliases, maps, named queries.
    "count_of_stars": "SELECT count(t.*, t.*) AS n, count(*, 1) AS m, count(DISTINCT(*)) AS d, count(*) AS r FROM t",
    "star_except": "SELECT coalesce(* EXCEPT (b)) AS v, coalesce(t.* EXCEPT (a), 0) AS w FROM t",
    "not_of_a_key": "SELECT not(a IS NULL) AS n, count(*) AS c FROM t GROUP BY a IS NULL",
    "words_beside_a_key": "SELECT CASE WHEN(a + b)> 2 THEN(a + b)ELSE(a + b)END AS k FROM t GROUP BY a + b",
    "pipe_ordinal": "TABLE t |> AGGREGATE count(*) AS n, sum(b) AS s GROUP BY 1",
    "pivot_alias": (
        "SELECT p.*, o.c FROM (SELECT a, b FROM t) PIVOT (count(*) FOR b IN (1, 2)) AS p LEFT JOIN o ON o.a = p.a"
    ),
    "map_as_key": "SELECT m, count(*) AS n FROM (SELECT map(a, b) AS m FROM t WHERE a > 0) GROUP BY m",
    "correlated_with": (
        "SELECT a, (WITH m AS (SELECT max(c) AS x FROM o WHERE o.a = t.a), n AS (SELECT x + 1 AS y FROM m) "
        "SELECT y FROM n) AS w FROM t"
    ),
}
IN_FULL = "SELECT a, (SELECT max(c) FROM o WHERE o.a = t.a) AS w, EXISTS (SELECT 1 FROM o WHERE o.c = t.b) AS e FROM t"


@pytest.fixture
def small(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    with anabranch.connect(str(tmp_path / "lake"), spark=spark) as lake:
        configure(lake._engine.session, INTERPRETED)
        lake.sql("CREATE TABLE t (a INT, b INT)")
        lake.sql("CREATE TABLE o (a INT, c INT, xs ARRAY<INT>)")
        lake.append("t", [(1, 1), (1, 2), (2, 1), (None, 1), (3, None)])
        lake.append("o", [(1, 5, [1, 2]), (2, 6, None), (3, 7, []), (4, 1, [3]), (1, None, None)])
        yield lake


def test_what_spark_makes_of_the_text(small: Lake) -> None:
    wanted = {
        name: WantedTable(name, query, Place(name), refresh_mode="DIFFERENTIAL") for name, query in QUERIES.items()
    }
    wanted["in_full"] = WantedTable("in_full", IN_FULL, Place("in_full"), refresh_mode="FULL")
    apply_project(small._engine, Desired("forms", wanted))
    _compare(small)
    with small.transaction():
        small.apply("t", insert=[(2, 2), (7, 1), (3, 4)], delete=[(1, 1)])
        small.apply("o", insert=[(1, 1, [3]), (7, 7, [1])], delete=[(2, 6, None)])
    _refresh(small)
    with small.transaction():
        small.apply("t", insert=[(4, 4)], delete=[(3, None), (2, 1)])
        small.apply("o", insert=[(2, 2, None)], delete=[(1, None, None)])
    _refresh(small)


def _refresh(lake: Lake) -> None:
    report = lake.refresh()
    moved = {each.name for each in report.values() if each.action in (Action.DIFFERENTIAL, Action.NO_DATA)}
    assert moved == set(QUERIES), {each.name: each for each in report.values() if each.name not in moved}
    assert report["in_full"].action is Action.FULL
    _compare(lake)


def _compare(lake: Lake) -> None:
    for name, query in {**QUERIES, "in_full": IN_FULL}.items():
        assert _bag(lake.table(name)) == _bag(lake.sql(query)), query


def _bag(rows: DataFrame) -> list[str]:
    return sorted(map(str, rows.collect()))
