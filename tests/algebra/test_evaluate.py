"""SQL in plain Python: three-valued logic, aggregates, windows."""

from __future__ import annotations

from decimal import Decimal

import pytest

from anabranch.algebra.evaluate import aggregate, generator, scalar, window
from anabranch.algebra.expression import Expression, Outer, Ref
from anabranch.algebra.values import Double, EvaluationError

NAMES = ("a", "b", "s")


def written(text: str) -> Expression:
    """Names in backquotes are columns."""
    pieces = text.split("`")
    return Expression(tuple(Ref(each) if place % 2 else each for place, each in enumerate(pieces) if each), "bigint")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`a` + 2 * `a`", 3),
        ("`a` - `b`", None),
        ("`a` = 1", True),
        ("`b` = 1", None),
        ("`b` <=> NULL", True),
        ("`a` IS DISTINCT FROM `b`", True),
        ("`b` IS NOT DISTINCT FROM NULL", True),
        ("`b` IS NULL AND `a` IS NOT NULL", True),
        ("`b` = 1 AND `a` = 2", False),
        ("`b` = 1 OR `a` = 1", True),
        ("`b` = 1 OR `a` = 2", None),
        ("NOT (`b` = 1)", None),
        ("`a` IN (2, 1)", True),
        ("`a` IN (2, NULL)", None),
        ("`a` NOT IN (2, 3)", True),
        ("`b` IN (2)", None),
        ("`a` BETWEEN 0 AND 1", True),
        ("`a` NOT BETWEEN 2 AND `b`", True),
        ("CASE WHEN `b` = 1 THEN 1 WHEN `a` = 1 THEN 2 END", 2),
        ("CASE `a` WHEN 2 THEN 'x' ELSE 'y' END", "y"),
        ("if(`b` = 1, 1, 2)", 2),
        ("coalesce(`b`, `b`, 7)", 7),
        ("nullif(`a`, 1)", None),
        ("least(`b`, 3, `a`)", 1),
        ("greatest(`b`, `b`)", None),
        ("abs(-3)", 3),
        ("-7 % 3", -1),
        ("7 div -2", -3),
        ("CAST(`a` AS STRING)", "1"),
        ("CAST('12' AS BIGINT)", 12),
        ("CAST(2.345 AS DECIMAL(10,2))", Decimal("2.35")),
        ("`s` || 'z'", "xz"),
        ("upper(`s`)", "X"),
        ("size(array(1, `b`))", 2),
        ("array(1, 2)[1]", 2),
        ("1 / 2", Double(0.5)),
        ("`a` <> 1", False),
        ("`a` >= 1", True),
        ("`a` < 1", False),
    ],
)  # fmt: skip
def test_scalar(text: str, expected: object) -> None:
    assert scalar(written(text), NAMES)((1, None, "x"), {}) == expected


@pytest.mark.parametrize("text", ["raise_error('no')", "assert_true(`a` = 2)", "1 / 0", "CAST('x' AS INT)"])
def test_what_raises(text: str) -> None:
    with pytest.raises(EvaluationError):
        scalar(written(text), NAMES)((1, None, "x"), {})


def test_nothing_is_evaluated_after_the_branch_that_is_taken() -> None:
    assert scalar(written("CASE WHEN `a` = 1 THEN 1 ELSE raise_error('no') END"), NAMES)((1, None, "x"), {}) == 1


def test_outer_holes_read_the_enclosing_row() -> None:
    value = Expression((Ref("a"), " + ", Outer("a")), "bigint")
    assert scalar(value, NAMES)((1, None, "x"), {"a": 10}) == 11


def test_floats_compare_as_spark_compares_them() -> None:
    nan, zero = Double("nan"), Double(-0.0)
    assert scalar(written("`a` = `b`"), NAMES)((nan, nan, None), {}) is True
    assert scalar(written("`a` > `b`"), NAMES)((nan, Double("inf"), None), {}) is True
    assert scalar(written("`a` = `b`"), NAMES)((zero, Double(0.0), None), {}) is True
    assert zero != Double(0.0)
    assert nan == Double("nan")


GROUP = [((1, 5, "x"), 2), ((2, None, "y"), 1), ((2, 3, None), 1)]


@pytest.mark.parametrize(
    ("text", "expected", "on_nothing"),
    [
        ("COUNT(*)", 4, 0),
        ("COUNT(`b`)", 3, 0),
        ("COUNT(DISTINCT `a`)", 2, 0),
        ("COUNT(DISTINCT `a`, `b`)", 2, 0),
        ("SUM(`b`)", 13, None),
        ("SUM(DISTINCT `a`)", 3, None),
        ("SUM(`b`) FILTER (WHERE `a` = 2)", 3, None),
        ("MIN(`s`)", "x", None),
        ("MAX(`b`)", 5, None),
        ("AVG(`a`)", Double(1.5), None),
        ("bool_or(`a` = 2)", True, None),
        ("every(`a` = 2)", False, None),
        ("count_if(`a` = 1)", 2, 0),
        ("max_by(`s`, `a`)", None, None),
        ("min_by(`s`, `a`)", "x", None),
        ("collect_list(`a`)", (1, 1, 2, 2), ()),
        ("collect_set(`a`)", (1, 2), ()),
        ("first(`b`)", None, None),
        ("first(`b`, true)", 3, None),
        ("mode(`s`)", "x", None),
        ("coalesce(SUM(`b`), 0) + COUNT(*)", 17, 0),
        ("var_pop(`a`)", Double(0.25), None),
    ],
)  # fmt: skip
def test_aggregate(text: str, expected: object, on_nothing: object) -> None:
    call = aggregate(written(text), NAMES)
    assert call(GROUP, {}) == expected
    assert call([], {}) == on_nothing


def test_a_sum_of_floats_is_exactly_rounded() -> None:
    group = [((Double(value), None, None), 1) for value in (1e16, 1.0, -1e16)]
    assert aggregate(written("SUM(`a`)"), NAMES)(group, {}) == Double(1.0)


ROWS = [(1, 10, "x"), (1, 10, "y"), (1, 20, "x"), (2, None, "x"), (2, 5, "x")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("row_number() OVER (PARTITION BY `a` ORDER BY `b`, `s`)", [1, 2, 3, 1, 2]),
        ("rank() OVER (PARTITION BY `a` ORDER BY `b`)", [1, 1, 3, 1, 2]),
        ("rank() OVER (PARTITION BY `a` ORDER BY `b` DESC)", [2, 2, 1, 2, 1]),
        ("dense_rank() OVER (PARTITION BY `a` ORDER BY `b`)", [1, 1, 2, 1, 2]),
        ("percent_rank() OVER (PARTITION BY `a` ORDER BY `b`)", [0.0, 0.0, 1.0, 0.0, 1.0]),
        ("cume_dist() OVER (PARTITION BY `a` ORDER BY `b` DESC NULLS LAST)", [1.0, 1.0, 1 / 3, 1.0, 0.5]),
        ("ntile(2) OVER (PARTITION BY `a` ORDER BY `b`, `s`)", [1, 1, 2, 1, 2]),
        ("lag(`b`) OVER (PARTITION BY `a` ORDER BY `b`, `s`)", [None, 10, 10, None, None]),
        ("lead(`b`, 1, 0) OVER (PARTITION BY `a` ORDER BY `b`, `s`)", [10, 20, 0, 5, 0]),
        ("sum(`b`) OVER (PARTITION BY `a`)", [40, 40, 40, 5, 5]),
        ("sum(`b`) OVER (PARTITION BY `a` ORDER BY `b`)", [20, 20, 40, None, 5]),
        ("sum(`b`) OVER (PARTITION BY `a` ORDER BY `b`, `s` ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
         [10, 20, 30, None, 5]),
        ("count(*) OVER (PARTITION BY `a` ORDER BY `b` RANGE BETWEEN 10 PRECEDING AND CURRENT ROW)", [2, 2, 3, 1, 1]),
        ("count(*) OVER (ORDER BY `b` RANGE BETWEEN UNBOUNDED PRECEDING AND 5 FOLLOWING)", [4, 4, 5, 1, 4]),
        ("first_value(`s`) OVER (PARTITION BY `a` ORDER BY `b` DESC, `s`)", ["x", "x", "x", "x", "x"]),
        ("last_value(`s`) OVER (PARTITION BY `a` ORDER BY `b`, `s`)", ["x", "y", "x", "x", "x"]),
        ("count(*) OVER () - rank() OVER (ORDER BY `a`)", [4, 4, 4, 1, 1]),
        ("max(`b`) FILTER (WHERE `s` = 'y') OVER (PARTITION BY `a`)", [10, 10, 10, None, None]),
    ],
)  # fmt: skip
def test_window(text: str, expected: list[object]) -> None:
    assert window(written(text), NAMES)(ROWS, {}) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("explode(array(`a`, `b`))", [(1,), (None,)]),
        ("posexplode(array(`a`, `b`))", [(0, 1), (1, None)]),
        ("explode(array_repeat(0, `a`))", [(0,)]),
        ("explode(sequence(1, 3))", [(1,), (2,), (3,)]),
        ("range(2)", [(0,), (1,)]),
        ("stack(2, 1, 2, 3)", [(1, 2), (3, None)]),
        ("inline(array(struct(1, 2)))", [(1, 2)]),
    ],
)  # fmt: skip
def test_generator(text: str, expected: list[object]) -> None:
    assert generator(written(text), NAMES)((1, None, "x"), {}) == expected
