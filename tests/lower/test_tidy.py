"""Conditions at their tables, joins that join, only the columns that are read."""

from __future__ import annotations

import pytest

from anabranch.algebra.expression import Expression, column, expression
from anabranch.algebra.relation import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    JoinKind,
    Project,
    Relation,
    Scan,
    UnionAll,
    iterate,
)
from anabranch.algebra.show import show
from anabranch.lower.common_conjuncts import common_conjuncts
from anabranch.lower.lower import lower
from anabranch.lower.null_rejecting import rejects_padding
from anabranch.lower.window_text import partitioned
from tests.lower.plans import agree, same, select, sql, table, tables, where
from tests.plans import aggregation

A, B, C = table("a", "k", "v"), table("b", "k", "v"), table("c", "k", "v")
ROWS = tables(a_kv=[(1, 1), (2, 2), (None, 3)], b_kv=[(1, 5), (2, 0), (2, 0)], c_kv=[(1, 5), (7, 0)])


def cross(*relations: Relation) -> Relation:
    first, *others = relations
    for each in others:
        first = Join(first, each, JoinKind.INNER, ())
    return first


def joins(relation: Relation) -> list[Join]:
    return [each for each in iterate(relation) if isinstance(each, Join)]


def test_a_comma_join_becomes_an_equi_join() -> None:
    plan = where(cross(A, B), same("a_k", "b_k"), sql("`a_v` < 3"), sql("`b_v` > `a_v`"))
    assert agree(plan, ROWS) == {(1, 1, 1, 5): 1}
    lowered = lower(plan)
    assert show(lowered).splitlines() == [
        "r0 := Scan a (k, v)",
        "r1 := Filter r0: v < 3",
        "r2 := Project r1: a_k := k, a_v := v",
        "r3 := Scan b (k, v)",
        "r4 := Project r3: b_k := k, b_v := v",
        "r5 := Join inner r2, r4: (a_k = b_k) and (b_v > a_v)",
    ]


def test_tables_are_joined_in_an_order_without_products() -> None:
    """FROM a, b, c WHERE a.k = c.k AND c.v = b.v: nothing connects a and b."""
    plan = where(cross(A, B, C), same("a_k", "c_k"), same("c_v", "b_v"))
    assert agree(plan, ROWS) == {(1, 1, 1, 5, 1, 5): 1}
    assert [[str(each) for each in join.on] for join in joins(lower(plan))] == [["a_k = c_k"], ["c_v = b_v"]]


def test_a_condition_on_the_padded_side_stays_above() -> None:
    left = Join(A, B, JoinKind.LEFT, (same("a_k", "b_k"),))
    plan = where(left, sql("`b_v` IS NULL"), sql("`a_v` > 1"))
    assert agree(plan, ROWS) == {(None, 3, None, None): 1}
    assert isinstance(lower(plan), Filter)
    assert "Filter r0: v > 1" in show(lower(plan))


def test_an_on_condition_goes_into_the_padded_side_only() -> None:
    plan = Join(A, B, JoinKind.LEFT, (same("a_k", "b_k"), sql("`b_v` > 1"), sql("`a_v` > 1")))
    agree(plan, ROWS)
    assert [[str(each) for each in join.on] for join in joins(lower(plan))] == [["a_k = b_k", "a_v > 1"]]


def test_a_condition_that_drops_padded_rows_makes_the_join_inner() -> None:
    left = Join(A, B, JoinKind.LEFT, (same("a_k", "b_k"),))
    plan = where(left, sql("`b_v` > `a_v`"))
    agree(plan, ROWS)
    assert [join.kind for join in joins(lower(plan))] == [JoinKind.INNER]


def test_full_joins_let_nothing_pass() -> None:
    plan = where(Join(A, B, JoinKind.FULL, (same("a_k", "b_k"), sql("`b_v` > 1"))), sql("`a_v` IS NULL"))
    agree(plan, ROWS)
    assert isinstance(lower(plan), Filter)


def test_conditions_pass_groups_only_on_their_keys() -> None:
    call = aggregation("n", "count", None, "bigint")
    plan = where(Aggregate(A, ("a_k",), (call,)), sql("`a_k` = 1"), sql("`n` = 1"))
    agree(plan, ROWS)
    assert "r2 := Filter r1: k = 1" in show(lower(plan))
    assert show(lower(plan)).splitlines()[-1] == "r5 := Filter r4: n = 1"


def test_a_global_aggregate_keeps_its_row() -> None:
    call = aggregation("n", "count", None, "bigint")
    assert agree(where(Aggregate(A, (), (call,)), sql("1 = 0")), ROWS) == {}
    nothing = Aggregate(where(A, sql("1 = 0")), (), (call,))
    assert agree(where(nothing, sql("1 = 1")), ROWS) == {(0,): 1}


def test_conditions_enter_every_branch_of_a_union() -> None:
    plan = where(UnionAll((A, B)), sql("`a_v` > 1"))
    assert agree(plan, ROWS) == {(2, 2): 1, (None, 3): 1, (1, 5): 1}
    assert isinstance(lower(plan), UnionAll)


def test_a_shared_sub_plan_is_not_copied_for_one_reader() -> None:
    shared = Distinct(A)
    one, two = where(shared, sql("`a_v` = 1")), where(shared, sql("`a_v` = 2"))
    plan = lower(UnionAll((one, two)))
    assert sum(isinstance(each, Distinct) for each in iterate(plan)) == 1


def test_only_columns_that_are_read_are_kept() -> None:
    wide = table("w", "a", "b", "c", "d")
    plan = select(Join(wide, A, JoinKind.INNER, (same("w_a", "a_k"),)), x=column("w_b", "bigint"))
    agree(plan, tables(w_abcd=[(1, 2, 3, 4)], a_kv=[(1, 1)]))
    over_scans = [each for each in iterate(lower(plan)) if isinstance(each, Project) and isinstance(each.child, Scan)]
    assert [each.names for each in over_scans] == [("w_a", "w_b"), ("a_k",)]


def test_rows_count_even_where_no_column_is_read() -> None:
    plan = Aggregate(cross(A, B), (), (aggregation("n", "count", None, "bigint"),))
    assert agree(plan, ROWS) == {(9,): 1}


def test_projections_are_not_folded_where_that_repeats_work() -> None:
    heavy = select(A, x=expression("{} * {}", "bigint", column("a_v", "bigint"), column("a_k", "bigint")))
    twice = select(heavy, y=sql("`x` + `x`", "bigint"))
    once = select(heavy, y=sql("`x` + 1", "bigint"))
    assert sum(isinstance(each, Project) for each in iterate(lower(twice))) == 2
    assert sum(isinstance(each, Project) for each in iterate(lower(once))) == 1
    agree(twice, ROWS)
    agree(once, ROWS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(`x` = `y` AND `z` = 1) OR (`x` = `y` AND `z` = 2)", ["x = y"]),
        ("(`x` = `y` and `z` between 1 and 5) or (`z` between 1 and 5 and `x` = 3)", ["z between 1 and 5"]),
        ("(((`x`  =  `y`) AND `z` = 1)) OR ((`x` = `y`))", ["x = y"]),
        ("`x` = 1 OR `x` = 2", []),
        ("`x` = 1 AND `y` = 2", []),
        ("(CASE WHEN `x` = 1 OR `y` = 1 THEN true END) AND `z` = 1", []),
        ("NOT (`x` = `y` AND `z` = 1) OR (`x` = `y` AND `z` = 2)", []),
    ],
)
def test_conjuncts_that_all_branches_repeat(text: str, expected: list[str]) -> None:
    found = common_conjuncts(sql(text), {"x": "bigint", "y": "bigint", "z": "bigint"})
    assert [str(each) for each in found] == expected


def test_an_or_of_equal_joins_is_an_equi_join() -> None:
    """TPC-H Q19."""
    plan = where(cross(A, B), sql("(`a_k` = `b_k` AND `a_v` = 1) OR (`a_k` = `b_k` AND `b_v` = 0)"))
    assert agree(plan, ROWS) == {(1, 1, 1, 5): 1, (2, 2, 2, 0): 2}
    conditions = joins(lower(plan))[0].on
    assert [each.equality is not None for each in conditions] == [False, True]


@pytest.mark.parametrize(
    ("text", "rejects"),
    [
        ("`p` > 1", True),
        ("`x` < 0.2 * `p`", True),
        ("NOT (`p` = 1)", True),
        ("`p` IS NOT NULL", True),
        ("`p` BETWEEN 1 AND 2", True),
        ("`p` IN (1, 2)", True),
        ("`p` = 1 OR `p` = 2", True),
        ("CAST(`p` AS STRING) LIKE 'a%'", True),
        ("CASE WHEN `p` > 1 THEN true END", True),
        ("coalesce(`p`, false)", True),
        ("`p` IS NULL", False),
        ("`p` = 1 OR `x` = 1", False),
        ("coalesce(`p`, 0) = 0", False),
        ("`p` <=> 1", False),
        ("CASE WHEN `p` > 1 THEN false ELSE true END", False),
        ("`x` = 1", False),
        ("NOT (`p` = 1 AND `x` = 1)", False),
        ("some_function(`p`)", False),
    ],
)
def test_what_rejects_padded_rows(text: str, rejects: bool) -> None:
    assert rejects_padding(sql(text), frozenset({"p"})) is rejects


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rank() OVER (ORDER BY `x`)", "rank() OVER (PARTITION BY k ORDER BY x)"),
        ("rank() over (partition by `y` order by `x`)", "rank() over (partition by k, y order by x)"),
        ("sum(`x`) OVER ()", "sum(x) OVER (PARTITION BY k )"),
        (
            "count(*) OVER (PARTITION BY `x`) + count(' over (') OVER (PARTITION  BY `y`)",
            "count(*) OVER (PARTITION BY k, x) + count(' over (') OVER (PARTITION  BY k, y)",
        ),
    ],
)
def test_partition_columns_in_the_text_of_a_window(text: str, expected: str) -> None:
    call: Expression = sql(text, "bigint")
    assert str(partitioned(call, [table("t", "k").columns[0]])).replace("t_k", "k") == expected
