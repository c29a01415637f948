"""The meaning of each operator on weighted bags, by small examples. A weight of -1 takes a row away."""

from __future__ import annotations

from random import Random

import pytest

from anabranch.algebra.expression import column, equals, expression
from anabranch.algebra.interpret import _RULES, Environment, NotABagError, Table, ZSet, interpret
from anabranch.algebra.relation import (
    DELTA_ONLY,
    KERNEL,
    NEEDS_BAG,
    SURFACE,
    After,
    Aggregate,
    Before,
    Change,
    Column,
    Consolidate,
    Distinct,
    Empty,
    Expand,
    Filter,
    Fixpoint,
    Generate,
    Join,
    JoinKind,
    LateralJoin,
    Negate,
    Output,
    Project,
    Recursion,
    Relation,
    Scan,
    SetKind,
    SetOperation,
    SortKey,
    Stored,
    Support,
    TopK,
    UnionAll,
    Values,
    Weigh,
    Window,
)
from anabranch.algebra.values import Double, EvaluationError
from tests.lower.plans import exists, is_in, outer, same, scalar, sql, where
from tests.plans import aggregation, random_relation, random_tables

A, B = Column("a", "bigint"), Column("b", "bigint")
T = Scan("t", (A, B))
X = Project(Scan("u", (A,)), (Output("x", A.value),))


def meaning(relation: Relation, t: ZSet | None = None, u: ZSet | None = None) -> ZSet:
    return interpret(relation, Environment(tables={"t": Table(("a", "b"), t or {}), "u": Table(("a",), u or {})}))


def test_every_operator_has_a_meaning() -> None:
    assert set(_RULES) == {*KERNEL, *SURFACE, *DELTA_ONLY}


def test_leaves_pick_their_columns_by_name() -> None:
    table = Table(("b", "a"), {(2, 1): 3})
    environment = Environment(before={"t": table}, after={"t": table}, change={"t": table}, stored={"p": table})
    for leaf in (Before("t", (A, B)), After("t", (A, B)), Change("t", (A, B)), Stored("p", (A, B))):
        assert interpret(leaf, environment) == {(1, 2): 3}
    assert interpret(Change("t", (A,)), environment) == {(1,): 3}
    assert interpret(Empty((A,)), environment) == {}


def test_linear_operators_keep_signs() -> None:
    rows = {(1, 1): 2, (2, None): -1}
    assert meaning(Filter(T, (sql("`a` = 2"),)), rows) == {(2, None): -1}
    assert meaning(Filter(T, (sql("`b` = 1"),)), rows) == {(1, 1): 2}
    assert meaning(Project(T, (Output("one", expression("1", "bigint")),)), rows) == {(1,): 1}
    assert meaning(Negate(T), rows) == {(1, 1): -2, (2, None): 1}
    assert meaning(UnionAll((T, T)), rows) == {(1, 1): 4, (2, None): -2}
    assert meaning(UnionAll((T, Negate(T))), rows) == {}
    swapped = Expand(T, ((A.value, B.value), (B.value, A.value)), (A, B))
    assert meaning(swapped, rows) == {(1, 1): 4, (2, None): -1, (None, 2): -1}


def test_generate_joins_each_row_with_what_it_makes() -> None:
    copies = expression("explode(array_repeat(7, {}))", "bigint", B.value)
    for padded, expected in ((False, {(1, 2, 7): 6}), (True, {(1, 2, 7): 6, (2, 0, None): 1})):
        assert meaning(Generate(T, copies, padded, (Column("g", "bigint"),)), {(1, 2): 3, (2, 0): 1}) == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (JoinKind.INNER, {(1, 5, 1): 6}),
        (JoinKind.LEFT, {(1, 5, 1): 6, (None, 0, None): 1, (2, 0, None): 1}),
        (JoinKind.FULL, {(1, 5, 1): 6, (None, 0, None): 1, (2, 0, None): 1, (None, None, None): 1, (None, None, 2): 1}),
        (JoinKind.SEMI, {(1, 5): 2}),
        (JoinKind.ANTI, {(None, 0): 1, (2, 0): 1}),
    ],
)
def test_joins_multiply_weights_and_never_match_null(kind: JoinKind, expected: ZSet) -> None:
    """The residual condition `b > 0` belongs to the join: it makes a padded row, not a dropped one."""
    join = Join(T, X, kind, (same("a", "x"), sql("`b` > 0")))
    assert meaning(join, {(1, 5): 2, (None, 0): 1, (2, 0): 1}, {(1,): 3, (None,): 1, (2,): 1}) == expected


def test_the_preserved_side_of_a_join_may_be_a_change() -> None:
    join = Join(T, X, JoinKind.LEFT, (same("a", "x"),))
    assert meaning(join, {(1, 0): -2, (2, 0): -1}, {(1,): 3}) == {(1, 0, 1): -6, (2, 0, None): -1}
    with pytest.raises(NotABagError):
        meaning(join, {(1, 0): 1}, {(1,): -1})


def test_groups_hold_null_equal_to_null_and_a_global_group_never_dies() -> None:
    calls = (aggregation("n", "count", None, "bigint"), aggregation("total", "sum", B.value, "bigint"))
    rows = {(None, 1): 2, (None, None): 1, (1, 5): 1}
    assert meaning(Aggregate(T, ("a",), calls), rows) == {(None, 3, 2): 1, (1, 1, 5): 1}
    assert meaning(Aggregate(T, (), calls), {}) == {(0, None): 1}
    assert meaning(Aggregate(T, ("a",), calls), {}) == {}


def test_zeros_of_both_signs_are_one_group_but_two_rows() -> None:
    number = Column("f", "double")
    environment = Environment(tables={"f": Table(("f",), {(Double(-0.0),): 1, (Double(0.0),): 1})})
    scan = Scan("f", (number,))
    assert len(interpret(Consolidate(scan), environment)) == 2
    assert interpret(Distinct(scan), environment) == {(Double(0.0),): 1}


def test_window_and_top_k_see_every_copy() -> None:
    number = Output("n", expression("row_number() OVER (PARTITION BY {} ORDER BY {})", "bigint", A.value, B.value))
    assert meaning(Window(T, ("a",), (number,)), {(1, 5): 2, (1, 3): 1}) == {(1, 3, 1): 1, (1, 5, 2): 1, (1, 5, 3): 1}
    order = (SortKey("b", descending=True), SortKey("a"))
    rows = {(1, 5): 2, (2, 7): 1, (2, None): 1}
    assert meaning(TopK(T, order, 2), rows) == {(2, None): 1, (2, 7): 1}
    assert meaning(TopK(T, order, 2, offset=2), rows) == {(1, 5): 2}
    assert meaning(TopK(T, order, 1, partition=("a",)), rows) == {(1, 5): 1, (2, None): 1}
    assert meaning(TopK(T, order, None, offset=3), rows) == {(1, 5): 1}


def walk_from_one() -> Fixpoint:
    """The nodes reached from 1 along the edges of t."""
    node = Column("node", "bigint")
    step = Join(Recursion("walk", (node,)), T, JoinKind.INNER, (same("node", "a"),))
    start = Values(((expression("1", "bigint"),),), (node,))
    return Fixpoint("walk", start, Project(step, (Output("next", B.value),)))


def test_a_fixpoint_goes_on_until_a_round_finds_nothing() -> None:
    assert meaning(walk_from_one(), {(1, 2): 2, (2, 3): 1}) == {(1,): 1, (2,): 2, (3,): 2}
    with pytest.raises(EvaluationError, match="RECURSION_LEVEL_LIMIT_EXCEEDED"):
        meaning(walk_from_one(), {(1, 1): 1})


@pytest.mark.parametrize(
    ("kind", "keeps_copies", "expected"),
    [
        (SetKind.INTERSECT, True, {(1,): 2, (None,): 1}),
        (SetKind.INTERSECT, False, {(1,): 1, (None,): 1}),
        (SetKind.EXCEPT, True, {(1,): 1, (2,): 2}),
        (SetKind.EXCEPT, False, {(2,): 1}),
    ],
)
def test_set_operations(kind: SetKind, keeps_copies: bool, expected: ZSet) -> None:
    left = Project(T, (Output("l", A.value),))
    rows = {(1, 0): 3, (2, 0): 2, (None, 0): 1}
    assert meaning(SetOperation(kind, keeps_copies, left, X), rows, {(1,): 2, (None,): 4}) == expected


def test_subqueries_are_evaluated_for_each_row() -> None:
    partners = where(X, equals(column("x", "bigint"), outer("a")))
    rows, others = {(1, 0): 2, (2, 0): 1, (None, 0): 1}, {(1,): 1, (None,): 1}
    assert meaning(exists(T, partners), rows, others) == {(1, 0, True): 2, (2, 0, False): 1, (None, 0, False): 1}
    assert meaning(scalar(T, partners), rows, others) == {(1, 0, 1): 2, (2, 0, None): 1, (None, 0, None): 1}
    assert meaning(is_in(T, X, A.value), rows, others) == {(1, 0, True): 2, (2, 0, None): 1, (None, 0, None): 1}
    assert meaning(is_in(T, X, A.value), rows, {}) == {(1, 0, False): 2, (2, 0, False): 1, (None, 0, False): 1}
    with pytest.raises(EvaluationError, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
        meaning(scalar(T, partners), rows, {(1,): 2})


def test_in_of_several_columns_is_unknown_only_if_no_column_differs() -> None:
    pairs = Project(T, (Output("p", A.value), Output("q", B.value)))
    probe = is_in(X, pairs, column("x", "bigint"), expression("5", "bigint"))
    assert meaning(probe, {(1, None): 1, (2, 6): 1}, {(1,): 1, (2,): 1}) == {(1, None): 1, (2, False): 1}


def test_lateral_joins_pad_like_left_joins() -> None:
    partners = where(X, equals(column("x", "bigint"), outer("a")))
    rows, others = {(1, 0): 2, (2, 0): 1}, {(1,): 3}
    assert meaning(LateralJoin(T, partners, JoinKind.INNER, ()), rows, others) == {(1, 0, 1): 6}
    assert meaning(LateralJoin(T, partners, JoinKind.LEFT, ()), rows, others) == {(1, 0, 1): 6, (2, 0, None): 1}


def test_from_weights_to_rows_and_back() -> None:
    rows = {(1, 5): -2, (2, 5): 1}
    assert meaning(Support(T), rows) == {(1, 5): 1, (2, 5): 1}
    assert meaning(Weigh(T, "w"), rows) == {(1, 5, -2): 1, (2, 5, 1): 1}
    assert meaning(Consolidate(UnionAll((T, T))), rows) == {(1, 5): -4, (2, 5): 2}


def test_operators_on_bags_refuse_a_negative_weight() -> None:
    changed = {(1, 1): -1}
    partners = where(X, equals(column("x", "bigint"), outer("a")))
    plans = [
        Distinct(T),
        Aggregate(T, ("a",), ()),
        Window(T, (), (Output("n", expression("row_number() OVER (ORDER BY {})", "bigint", A.value)),)),
        TopK(T, (SortKey("a"),), 1),
        Fixpoint("f", T, Recursion("f", (A, B))),
        SetOperation(SetKind.EXCEPT, True, T, T),
        exists(T, partners),
        LateralJoin(T, partners, JoinKind.INNER, ()),
    ]
    assert {type(each) for each in plans} == set(NEEDS_BAG)
    for each in plans:
        with pytest.raises(NotABagError):
            meaning(each, changed)


def test_a_shared_sub_plan_is_worked_out_once_whoever_reads_it() -> None:
    """Twenty doublings of a table are a million copies; a plan walked as a tree would never end."""
    plan: Relation = T
    for _ in range(20):
        plan = UnionAll((plan, plan))
    assert meaning(plan, {(1, 1): 1}) == {(1, 1): 2**20}


def test_random_plans_mean_something() -> None:
    raised = 0
    for seed in range(300):
        rng = Random(seed)
        plan = random_relation(rng, surface=True)
        try:
            rows = interpret(plan, Environment(tables=random_tables(rng)))
        except EvaluationError:
            raised += 1
        else:
            assert all(len(row) == len(plan.columns) and weight > 0 for row, weight in rows.items())
    assert raised < 30
