"""Texts that come together are planned as one query and give what each gives alone, whichever of them are asked for."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from anabranch.algebra.relation import Column
from anabranch.spark.jobs import count_jobs
from anabranch.spark.prepared import GROUPS, TRIED, PreparedQueries
from anabranch.spark.side_by_side import apportioned
from anabranch.spark.texts import Text
from tests.spark.asked import Asked, numbers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLUS = [f"SELECT x + {number} AS x FROM {{0}}" for number in range(9)]


@pytest.fixture
def asked(spark: SparkSession) -> Iterator[Asked]:
    made = Asked(spark)
    yield made
    made.prepared.close()


def found(asked: Asked, texts: list[Text]) -> list[list[int]]:
    return [table.column("x").to_pylist() for table in asked.together(texts)]


def test_texts_that_come_together_take_few_jobs(asked: Asked) -> None:
    for value in (1, 2, 3):
        with count_jobs(asked.spark) as count:
            rows = found(asked, [asked.text(sql, numbers(value)) for sql in PLUS])
        assert rows == [[value + number] for number in range(9)]
    assert count.jobs == GROUPS
    assert len(asked.prepared) == 9


def test_a_text_that_is_not_asked_for_gets_no_rows(asked: Asked) -> None:
    """Neither what it got last time, nor a place among the results."""
    for _ in range(3):
        found(asked, [asked.text(sql, numbers(1, 2)) for sql in PLUS])
    assert found(asked, [asked.text(PLUS[number], numbers(7)) for number in (8, 3)]) == [[15], [10]]
    assert asked.handed_over == 9
    assert found(asked, [asked.text(sql, numbers()) for sql in PLUS]) == [[] for _ in PLUS]


def test_a_text_that_raises_over_no_rows_does_not_fail_the_others(asked: Asked) -> None:
    """Nobody asked for it; from then on each is planned for itself."""
    asked.spark.conf.set("spark.sql.ansi.enabled", "true")
    raising = "SELECT 6 DIV COUNT(x) AS x FROM {0}"
    for value in (1, 2, 3):
        both = [asked.text(raising, numbers(value)), asked.text(PLUS[1], numbers(value))]
        assert found(asked, both) == [[6], [value + 1]]
    for value in (4, 5, 6):
        assert found(asked, [asked.text(PLUS[1], numbers(value))]) == [[value + 1]]
    assert found(asked, [asked.text(raising, numbers(1))]) == [[6]]
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        found(asked, [asked.text(raising, numbers()), asked.text(PLUS[1], numbers(1))])
    assert len(asked.prepared) == 2


def test_one_that_cannot_be_run_twice_leaves_the_others_prepared(asked: Asked) -> None:
    texts = ["SELECT x + rand() * 0 AS x FROM {0}", *PLUS[:3]]
    for _ in range(3):
        rows = found(asked, [asked.text(sql, numbers(5)) for sql in texts])
        assert rows == [[5], [5], [6], [7]]
    assert len(asked.prepared) == 3


def test_a_query_of_which_little_is_asked_is_planned_anew(asked: Asked) -> None:
    for _ in range(2):
        found(asked, [asked.text(sql, numbers(1)) for sql in PLUS])
    before = set(asked.prepared._queries)
    for value in range(4 * TRIED):
        assert found(asked, [asked.text(PLUS[4], numbers(value))]) == [[value + 4]]
    (query,) = {asked.prepared._by_key[key] for key in asked.prepared._by_key if "+ 4 " in key.text}
    assert query not in before
    assert len(query.keys) == 1


def test_any_of_many_texts_over_any_rows_give_what_each_gives_alone(asked: Asked) -> None:
    """Of several types and widths, with and without rows, in any order, some twice."""
    pick = random.Random(7)
    pairs = Column("k", "string"), Column("v", "double")
    queries = [
        ("SELECT k, SUM(v) AS v, COUNT(*) AS n FROM {0} GROUP BY k", "k string, v double, n bigint"),
        ("SELECT v, k FROM {0} WHERE v > 1.0D", "v double, k string"),
        ("SELECT COUNT(v) AS n FROM {0}", "n bigint"),
        ("SELECT a.k FROM {0} AS a LEFT ANTI JOIN {1} AS b ON a.k = b.k", "k string"),
        ("SELECT a.k, b.v FROM {0} AS a JOIN {1} AS b ON a.k <=> b.k", "k string, v double"),
        ("SELECT k, v, CAST(v AS DECIMAL(9,2)) AS d, 1L AS n FROM {0}", "k string, v double, d decimal(9,2), n bigint"),
    ]

    def some_rows() -> tuple[tuple[Column, ...], pa.Table]:
        many = pick.choice((0, 1, 5))
        keys = [pick.choice(("a", "b", "ä", None)) for _ in range(many)]
        values = [pick.choice((0.5, 1.5, -0.0, None)) for _ in range(many)]
        return pairs, pa.table({"k": pa.array(keys, pa.string()), "v": pa.array(values, pa.float64())})

    def columns(text: str) -> tuple[Column, ...]:
        return tuple(Column(*each.split(" ", 1)) for each in text.split(", "))

    for _ in range(12):
        chosen = [pick.choice(queries) for _ in range(pick.randrange(1, 9))]
        rows = [(some_rows(), some_rows()) for _ in chosen]
        texts = [
            asked.text(sql, *given[: sql.count("{")], columns=columns(types))
            for (sql, types), given in zip(chosen, rows, strict=True)
        ]
        alone = Asked(asked.spark)
        for table, (sql, types), given in zip(asked.together(texts), chosen, rows, strict=True):
            text = alone.text(sql, *given[: sql.count("{")], columns=columns(types))
            assert sorted(map(repr, table.to_pylist())) == sorted(map(repr, alone.together([text])[0].to_pylist()))
    assert len(asked.prepared) == len(queries)


def test_sizes_are_apportioned() -> None:
    assert apportioned({"a": 5, "b": 1, "c": 4, "d": 2}, 2) == [["a", "b"], ["c", "d"]]
    assert apportioned({"a": 1}, 3) == [["a"]]
    assert apportioned({}, 0) == []


def test_texts_that_do_not_fit_leave_those_that_are_kept(asked: Asked) -> None:
    asked.prepared = PreparedQueries(most=4)
    for _ in range(4):
        for some in (PLUS[:3], PLUS[3:6]):
            found(asked, [asked.text(sql, numbers(1)) for sql in some])
    assert len(asked.prepared) == 4
    assert asked.handed_over == 6 + 3 * 2
