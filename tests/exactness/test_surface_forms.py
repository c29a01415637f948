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
    # Subqueries as grouping keys, under aliases, in ON of an outer join, with aggregates of the query around them.
    "in_as_key": "SELECT a IN (SELECT a FROM o) AS k, max(b) AS m FROM t GROUP BY a IN (SELECT a FROM o)",
    "not_in_as_key": (
        "SELECT a NOT IN (SELECT c FROM o) AS k, max(b) AS m FROM t "
        "GROUP BY a NOT IN (SELECT c FROM o) HAVING a NOT IN (SELECT c FROM o)"
    ),
    "in_three_times": (
        "SELECT a IN (SELECT a FROM o) AS k, max(CASE WHEN a IN (SELECT a FROM o) THEN b END) AS m "
        "FROM t WHERE a IN (SELECT a FROM o) OR b = 1 GROUP BY a"
    ),
    "subquery_under_an_alias": (
        "SELECT CASE WHEN a IN (SELECT a FROM o) THEN 'y' ELSE 'n' END AS k, count(*) AS n FROM t GROUP BY k"
    ),
    "both_sides_in_left": (
        "SELECT t.a, b, c FROM t LEFT JOIN o ON t.a = o.a AND (b IN (SELECT c FROM o) OR c IN (SELECT b FROM t))"
    ),
    "both_sides_in_full": (
        "SELECT t.a, b, c FROM t FULL JOIN o "
        "ON t.a = o.a AND (b NOT IN (SELECT c FROM o) OR EXISTS (SELECT 1 FROM t AS u WHERE u.b = o.c))"
    ),
    "outer_aggregate": (
        "SELECT a, count(*) AS n FROM t GROUP BY a HAVING EXISTS (SELECT 1 FROM o WHERE o.a = t.a AND c > max(t.b) + 1)"
    ),
    "exists_after_some": "SELECT a FROM t WHERE EXISTS (SELECT c FROM o WHERE o.a = t.a OFFSET 1)",
    "subquery_in_lateral": "SELECT t.a, e.col FROM t, LATERAL explode(array((SELECT min(c) FROM o), t.b)) AS e",
    "subquery_in_a_generator": "SELECT col + 1 AS c FROM explode(array(1, (SELECT max(c) FROM o)))",
    "subquery_on_lateral": (
        "SELECT t.a, l.c FROM t LEFT JOIN LATERAL (SELECT c FROM o WHERE o.a = t.a) AS l ON c > (SELECT min(c) FROM o)"
    ),
    "subquery_on_lateral_inner": (
        "SELECT t.a, l.c FROM t JOIN LATERAL (SELECT c FROM o WHERE o.a = t.a) AS l ON c < (SELECT max(c) FROM o) + b"
    ),
    # Stars, fields, names, limits, order of joined strings.
    "outer_star": "SELECT t.a, l.x, l.y FROM t, LATERAL (SELECT t.*) AS l(x, y)",
    "star_of_a_struct": "SELECT to_json(struct(r.*, a AS e)) AS j FROM (SELECT a, (a, b) AS r FROM t)",
    "star_except_a_field": "SELECT * EXCEPT (r.col2) FROM (SELECT a, struct(a, b AS col2) AS r FROM t)",
    "alias_of_a_field": "SELECT r.p, p + 1 AS d FROM (SELECT struct(a AS p, b) AS r FROM t)",
    "key_by_its_text": "SELECT a + 1 AS k, count(*) AS n FROM (SELECT a + 1, a FROM t) GROUP BY `(a + 1)`, a + 1",
    "sorted_by_an_output": "SELECT t.a, c FROM t JOIN o ON t.a = o.a ORDER BY a, c LIMIT 2 + 1",
    "keywords_as_names": (
        "SELECT start, end, CASE end WHEN 1 THEN end ELSE start END values "
        "FROM (SELECT a AS start, b AS end FROM t) WHERE end >= 1"
    ),
    "joined_in_order": (
        "SELECT a, listagg(string(b), ',') WITHIN GROUP (ORDER BY b DESC) OVER (PARTITION BY a) AS l FROM t"
    ),
    "pivoted_struct": (
        "SELECT * FROM (SELECT a, (a, b) AS r FROM t) PIVOT (count(*) FOR r IN ((1, 1) AS x, (2, 2) AS y))"
    ),
    "pivoted_strings": (
        "SELECT * FROM (SELECT a % 2 AS g, a, b, string(a) AS s FROM t) PIVOT "
        "(max(s) AS m, count(*) FILTER (WHERE a > 1) AS n, count(1) AS k, first(a) AS f FOR b IN (1, 2))"
    ),
    "path_into_a_call": "SELECT parse_json(concat('{\"k\": ', a, '}')):k::int AS v FROM t",
    # Generators of the list come before windows, QUALIFY and ORDER BY, but after windows over groups.
    "generated_then_sorted": "SELECT a, explode(array(a, b)) AS e FROM t ORDER BY a DESC, e LIMIT 3",
    "generated_and_shadowing": "SELECT b, explode(array(a, b)) AS a FROM t ORDER BY a DESC, b LIMIT 3 OFFSET 1",
    "sorted_by_their_own_name": "SELECT explode(array(a, b)) FROM t ORDER BY col LIMIT 4",
    "sorted_by_place": "SELECT a, posexplode(array(a, b)) AS (p, e) FROM t ORDER BY p DESC, e, a LIMIT 3",
    "generated_then_qualified": (
        "SELECT a, explode(array(a, b)) AS e FROM t QUALIFY row_number() OVER (PARTITION BY e ORDER BY a) = 1"
    ),
    "generated_then_counted": "SELECT a, explode(array(a, b)) AS e FROM t QUALIFY count(*) OVER (PARTITION BY a) > 2",
    "generated_with_a_window": "SELECT a, explode(array(a, b)) AS e, count(*) OVER (PARTITION BY a) AS n FROM t",
    "generated_twice_used": "SELECT explode(array(a, b)) AS e, e + 1 AS f, sum(b) OVER (PARTITION BY a) AS s FROM t",
    "generated_and_asked_for": (
        "SELECT a, explode(array(a, b)) AS e FROM t QUALIFY e IN (SELECT a FROM o) AND sum(e) OVER (PARTITION BY a) > 1"
    ),
    "generated_from_groups": (
        "SELECT a, explode(array(count(*), sum(b))) AS e, rank() OVER (ORDER BY count(*), a) AS r FROM t GROUP BY a"
    ),
    "generated_from_groups_qualified": (
        "SELECT a, explode(array_sort(collect_list(b))) AS e FROM t GROUP BY a "
        "QUALIFY row_number() OVER (PARTITION BY a ORDER BY e) = 1"
    ),
    # Aliases of subqueries where rows are filtered; maps inside of keys.
    "alias_of_a_subquery_in_having": "SELECT a, (SELECT count(*) FROM o) AS n FROM t GROUP BY a HAVING n > 1",
    "alias_of_in_in_having": "SELECT a, a IN (SELECT a FROM o) AS i FROM t GROUP BY a HAVING NOT i OR count(*) > 1",
    "alias_of_in_below_having": "SELECT a, a IN (SELECT a FROM o) AS i FROM t GROUP BY a HAVING NOT i",
    "alias_of_a_sum_in_having": "SELECT a, sum(b) + (SELECT min(c) FROM o) AS s FROM t GROUP BY a HAVING s > 2",
    "alias_of_a_subquery_in_qualify": (
        "SELECT a, b, (SELECT max(c) FROM o WHERE o.a = t.a) AS n FROM t "
        "QUALIFY n > 1 AND row_number() OVER (PARTITION BY a ORDER BY b) = 1"
    ),
    "maps_in_a_key": "SELECT array(map(a, b)) AS k, count(*) AS n FROM t WHERE a > 0 GROUP BY array(map(a, b))",
    "maps_in_a_struct": (
        "SELECT k.m[1] AS x, count(*) AS n FROM "
        "(SELECT struct(map(a, map(b, a)) AS m, b) AS k FROM t WHERE a > 0 AND b > 0) GROUP BY k"
    ),
    # Aliases inside of subqueries that filter; a structure that may be NULL, made of what may not.
    "alias_in_a_subquery_of_having": (
        "SELECT a AS k, sum(b) AS s FROM t GROUP BY a HAVING s IN (SELECT c - 1 FROM o WHERE o.a >= k)"
    ),
    "alias_in_exists_of_having": (
        "SELECT a + 1 AS k, count(*) AS n FROM t GROUP BY a HAVING EXISTS (SELECT 1 FROM o WHERE o.a = k AND c > n)"
    ),
    "alias_in_a_subquery_of_qualify": (
        "SELECT a, sum(b) OVER (PARTITION BY a) AS s FROM t QUALIFY EXISTS (SELECT 1 FROM o WHERE o.c = s)"
    ),
    "structs_that_may_be_null": (
        "SELECT t.a, r, CASE WHEN b > 1 THEN named_struct('x', 1, 'y', 'z') END AS s "
        "FROM t LEFT JOIN (SELECT a, array(named_struct('one', 1)) AS r FROM o WHERE c > 5) AS q ON q.a = t.a"
    ),
    "star_without_columns": "SELECT t.*, o.* EXCEPT (a, c, xs), c FROM t JOIN o ON t.a = o.a",
    "limit_of_one_row": "SELECT sum(b) AS s FROM t LIMIT 1",
    "limit_all": "SELECT a, b FROM t LIMIT ALL",
    # Sessions below an aggregate that does not mind duplicates are merged all the same.
    "least_of_sessions": (
        "SELECT e, min(s) AS s, max(e) AS m FROM (SELECT session_window.start AS s, session_window.end AS e, count(*) "
        "FROM (SELECT timestamp_seconds(a * 60) AS at FROM t) GROUP BY session_window(at, '90 seconds')) GROUP BY e"
    ),
    # What is kept meanwhile has a type that a lake cannot hold.
    "interval_as_key": "SELECT string(k) AS k, count(*) AS n FROM (SELECT make_dt_interval(a) AS k FROM t) GROUP BY k",
    "sum_of_intervals": "SELECT a, extract(DAY FROM sum(make_dt_interval(b))) AS d FROM t GROUP BY a",
    "in_by_collation": (
        "SELECT a, chr(64 + a) COLLATE UTF8_LCASE IN (SELECT chr(96 + c) FROM o WHERE c < 9) AS i FROM t"
    ),
    "least_by_collation": (
        "SELECT count(DISTINCT x COLLATE UTF8_LCASE) AS n, string(max(x COLLATE UTF8_LCASE)) AS m "
        "FROM (SELECT chr(64 + a + 32 * (b % 2)) AS x FROM t)"
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
