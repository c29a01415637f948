"""Subqueries by name: each trap that a naive rewriting falls into."""

from __future__ import annotations

import pytest

from anabranch.algebra.expression import Expression, column, equals, expression, negated
from anabranch.algebra.interpret import Environment, interpret
from anabranch.algebra.relation import (
    Aggregate,
    Aggregation,
    Column,
    Fixpoint,
    Join,
    JoinKind,
    LateralJoin,
    Output,
    Recursion,
    Relation,
    SortKey,
    TableFunction,
    TopK,
    UnionAll,
    Values,
    Window,
    iterate,
)
from anabranch.algebra.values import EvaluationError
from anabranch.lower.lower import lower
from tests.lower.plans import (
    agree,
    bigint,
    exists,
    is_in,
    kinds,
    outer,
    same,
    scalar,
    select,
    sql,
    table,
    tables,
    where,
)
from tests.plans import aggregation

T, U = table("t", "k", "v"), table("u", "k", "v")
PARTNERS = where(U, same("u_k", outer("t_k")))
ROWS = tables(
    t_kv=[(1, 10), (1, 10), (2, 20), (None, 30), (3, None)],
    u_kv=[(1, 100), (1, 200), (2, None), (None, 5), (4, 7)],
)


def found() -> Expression:
    return column("found", "boolean")


def count(relation: Relation, name: str = "n") -> Aggregate:
    return Aggregate(relation, (), (aggregation(name, "count", None, "bigint"),))


def test_exists_in_where_is_a_semi_join() -> None:
    plan = where(exists(T, PARTNERS), found())
    assert agree(plan, ROWS) == {(1, 10, True): 2, (2, 20, True): 1}
    assert kinds(lower(plan)).count("semi join") == 1
    assert "Distinct" not in kinds(lower(plan))


def test_not_exists_in_where_is_an_anti_join() -> None:
    plan = where(exists(T, PARTNERS), negated(found()))
    assert agree(plan, ROWS) == {(None, 30, False): 1, (3, None, False): 1}
    assert kinds(lower(plan)).count("anti join") == 1


def test_exists_with_another_comparison() -> None:
    """TPC-H Q21 asks for another supplier of the same order: `k = k AND v <> v`."""
    others = where(PARTNERS, sql("`u_v` <> `outer.t_v`"))
    plan = where(exists(T, others), found())
    assert set(agree(plan, ROWS)) == {(1, 10, True)}
    assert kinds(lower(plan)).count("semi join") == 1


def test_exists_under_or_is_a_mark() -> None:
    plan = where(exists(T, PARTNERS), sql("`found` OR `t_v` IS NULL"))
    assert agree(plan, ROWS) == {(1, 10, True): 2, (2, 20, True): 1, (3, None, False): 1}


def test_exists_as_a_column_with_another_comparison() -> None:
    greater = where(U, sql("`u_k` > `outer.t_k`"))
    assert agree(exists(T, greater), ROWS) == {
        (1, 10, True): 2, (2, 20, True): 1, (None, 30, False): 1, (3, None, True): 1,
    }  # fmt: skip


def test_exists_of_a_global_aggregate_is_always_true() -> None:
    assert set(agree(where(exists(T, count(PARTNERS)), found()), ROWS)) == {
        (1, 10, True), (2, 20, True), (None, 30, True), (3, None, True),
    }  # fmt: skip
    assert agree(where(exists(T, count(PARTNERS)), negated(found())), ROWS) == {}


def test_several_subqueries_in_one_where() -> None:
    inner = where(U, same("u_v", outer("t_v")))
    plan = where(
        exists(exists(T, PARTNERS, "one"), inner, "two"),
        column("one", "boolean"), negated(column("two", "boolean")), sql("`t_v` < 20"),
    )  # fmt: skip
    assert agree(plan, ROWS) == {(1, 10, True, False): 2}


MEMBERS = table("m", "x")
PROBES = table("p", "x")


def members(*values: int | None) -> Environment:
    return tables(p_x=[(1,), (2,), (None,)], m_x=[(each,) for each in values])


@pytest.mark.parametrize(
    ("values", "true", "false"),
    [
        ((), set(), {1, 2, None}),
        ((1,), {1}, {2}),
        ((1, None), {1}, set()),
        ((None,), set(), set()),
        ((1, 1, 3), {1}, {2}),
    ],
)
def test_in_and_not_in_with_nulls_in_each_position(
    values: tuple[int | None, ...], true: set[int | None], false: set[int | None]
) -> None:
    """NULL among the members, NULL as the probe, no members: in WHERE, under NOT, and as a value."""
    value = is_in(PROBES, MEMBERS, column("p_x", "bigint"))
    environment = members(*values)
    assert {row[0] for row in agree(where(value, found()), environment)} == true
    assert {row[0] for row in agree(where(value, negated(found())), environment)} == false
    outcome = {row[0]: row[1] for row in agree(value, environment)}
    expected = {each: True if each in true else (False if each in false else None) for each in (1, 2, None)}
    assert outcome == expected


def test_not_in_is_not_not_exists() -> None:
    plan = where(is_in(PROBES, MEMBERS, column("p_x", "bigint")), negated(found()))
    assert agree(plan, members(3, None)) == {}
    on = next(each for each in _joins(lower(plan)) if each.kind is JoinKind.ANTI).on
    assert [str(each) for each in on] == ["coalesce((p_x = m_x), true)"]


def _joins(relation: Relation) -> list[Join]:
    return [each for each in iterate(relation) if isinstance(each, Join)]


def test_correlated_not_in() -> None:
    """The correlated condition is a condition of the join, not part of the comparison: it is never unknown-and-kept."""
    inner = select(PARTNERS, member=column("u_v", "bigint"))
    plan = where(is_in(T, inner, expression("{} * 10", "bigint", column("t_v", "bigint"))), negated(found()))
    assert agree(plan, ROWS) == {(None, 30, False): 1, (3, None, False): 1}


def test_in_of_two_columns() -> None:
    probe = (column("t_k", "bigint"), expression("{} * 10", "bigint", column("t_v", "bigint")))
    for condition in ((found(),), (negated(found()),), (sql("`found` IS NULL"),), ()):
        value = is_in(T, U, *probe)
        agree(where(value, *condition) if condition else value, ROWS)
    assert agree(where(is_in(T, U, *probe), found()), ROWS) == {(1, 10, True): 2}
    assert agree(where(is_in(T, U, *probe), negated(found())), ROWS) == {}


def test_correlated_in_as_a_value() -> None:
    inner = select(PARTNERS, member=column("u_v", "bigint"))
    value = is_in(T, inner, expression("{} * 10", "bigint", column("t_v", "bigint")))
    assert agree(value, ROWS) == {(1, 10, True): 2, (2, 20, None): 1, (None, 30, False): 1, (3, None, False): 1}


def test_the_count_of_no_partner_is_zero() -> None:
    """The COUNT bug: a left join alone says NULL."""
    plan = scalar(T, count(PARTNERS))
    assert agree(plan, ROWS) == {(1, 10, 2): 2, (2, 20, 1): 1, (None, 30, 0): 1, (3, None, 0): 1}


@pytest.mark.parametrize(
    ("function", "text", "on_no_input"),
    [
        ("sum", "sum(`u_v`)", None),
        ("count", "count(`u_v`)", 0),
        ("count", "count(*) + 1", 1),
        ("count_if", "count_if(`u_v` > 1)", 0),
        ("collect_list", "collect_list(`u_v`)", ()),
        ("collect_list", "array_size(collect_list(`u_v`))", 0),
        ("sum", "coalesce(sum(`u_v`), 7)", 7),
        ("max", "max(`u_v`)", None),
    ],
)
def test_aggregates_keep_their_value_on_no_input(function: str, text: str, on_no_input: object) -> None:
    call = sql(text, "array<bigint>" if on_no_input == () else "bigint")
    plan = scalar(T, Aggregate(PARTNERS, (), (Aggregation("n", function, (), call),)))
    assert {row[2] for row in agree(plan, ROWS) if row[0] == 3} == {on_no_input}


def test_what_is_computed_of_a_count_of_no_partner() -> None:
    plan = scalar(T, select(count(PARTNERS), m=sql("`n` + 10", "bigint")))
    assert {row[2] for row in agree(plan, ROWS) if row[0] == 3} == {10}


def test_having_of_a_scalar_subquery() -> None:
    plan = scalar(T, where(count(PARTNERS), sql("`n` <> 1")))
    assert agree(plan, ROWS) == {(1, 10, 2): 2, (2, 20, None): 1, (None, 30, 0): 1, (3, None, 0): 1}


def test_what_having_protects_is_not_evaluated() -> None:
    safe = select(where(count(PARTNERS), sql("`n` > 0")), m=sql("10 div `n`", "bigint"))
    assert {row[2] for row in agree(scalar(T, safe), ROWS) if row[0] == 3} == {None}


def test_scalar_aggregate_by_an_inequality() -> None:
    """No key to group by: worked out per distinct enclosing value."""
    plan = scalar(T, count(where(U, sql("`u_k` > `outer.t_k`"))))
    assert agree(plan, ROWS) == {(1, 10, 2): 2, (2, 20, 1): 1, (None, 30, 0): 1, (3, None, 1): 1}


def test_enclosing_column_inside_an_aggregate() -> None:
    total = Aggregation("n", "sum", (), sql("sum(`u_v` + `outer.t_v`)", "bigint"))
    plan = scalar(T, Aggregate(PARTNERS, (), (total,)))
    assert {row[2] for row in agree(plan, ROWS)} == {320, None}


def test_scalar_of_more_than_one_row_raises() -> None:
    inner = select(PARTNERS, value=column("u_v", "bigint"))
    plan = scalar(T, inner)
    for relation in (plan, lower(plan)):
        with pytest.raises(EvaluationError, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
            interpret(relation, ROWS)


def test_scalar_raises_only_for_rows_that_ask() -> None:
    inner = select(PARTNERS, value=column("u_v", "bigint"))
    environment = tables(t_kv=[(1, 0), (3, 0)], u_kv=[(1, 5), (2, 6), (2, 7)])
    assert agree(scalar(T, inner), environment) == {(1, 0, 5): 1, (3, 0, None): 1}


def test_two_equal_rows_are_more_than_one() -> None:
    inner = select(PARTNERS, value=column("u_v", "bigint"))
    with pytest.raises(EvaluationError):
        interpret(lower(scalar(T, inner)), tables(t_kv=[(1, 0)], u_kv=[(1, 5), (1, 5)]))


def test_uncorrelated_scalar_aggregate_is_one_inner_join() -> None:
    plan = where(scalar(T, Aggregate(U, (), (aggregation("m", "max", column("u_k", "bigint"), "bigint"),))),
                 same("t_k", column("value", "bigint")))  # fmt: skip
    assert agree(plan, tables(t_kv=[(4, 0), (1, 0)], u_kv=[(4, 0), (2, 0)])) == {(4, 0, 4): 1}
    assert [kind for kind in kinds(lower(plan)) if "join" in kind] == ["inner join"]


def test_scalar_without_row_is_null() -> None:
    nothing = where(U, sql("`u_k` > 100"))
    first = TopK(select(nothing, value=column("u_v", "bigint")), (SortKey("value"),), 1)
    assert {row[2] for row in agree(scalar(T, first), ROWS)} == {None}


def test_first_of_an_order_per_enclosing_row() -> None:
    best = TopK(
        select(PARTNERS, best=column("u_v", "bigint")), (SortKey("best", descending=True, nulls_first=False),), 1
    )
    plan = scalar(T, best)
    assert agree(plan, ROWS) == {(1, 10, 200): 2, (2, 20, None): 1, (None, 30, None): 1, (3, None, None): 1}
    assert "Distinct" not in kinds(lower(plan)), "the enclosing rows are read once"


def test_subquery_that_only_computes() -> None:
    one = Values(((sql("`outer.t_v` + 1", "bigint"),),), (Column("y", "bigint"),))
    plan = scalar(T, one)
    assert {row[2] for row in agree(plan, ROWS)} == {11, 21, 31, None}
    assert not [kind for kind in kinds(lower(plan)) if "join" in kind]


def test_correlated_union() -> None:
    both = UnionAll(
        (select(PARTNERS, y=column("u_v", "bigint")), select(where(U, same("u_v", outer("t_v"))), y=bigint("0")))
    )
    plan = scalar(T, Aggregate(both, (), (aggregation("n", "count", None, "bigint"),)))
    assert {(row[0], row[2]) for row in agree(plan, ROWS)} == {(1, 2), (2, 1), (None, 0), (3, 0)}


def test_correlated_window() -> None:
    """The enclosing row's partners are ranked among themselves, whatever the call's own partition."""
    rank = Output("r", sql("rank() OVER (ORDER BY `u_v`)", "bigint"))
    ranked = where(Window(PARTNERS, (), (rank,)), sql("`r` = 2"))
    assert agree(where(exists(T, ranked), found()), ROWS) == {(1, 10, True): 2}


def test_correlated_recursion() -> None:
    node = Column("node", "bigint")
    start = Values(((outer("t_k"),),), (node,))
    step = Join(Recursion("walk", (node,)), U, JoinKind.INNER, (same("node", "u_k"),))
    walk = Fixpoint("walk", start, select(step, node=column("u_v", "bigint")))
    plan = scalar(T, count(walk))
    environment = tables(t_kv=[(1, 0), (2, 0), (9, 0)], u_kv=[(1, 2), (2, 3), (2, 4)])
    assert agree(plan, environment) == {(1, 0, 4): 1, (2, 0, 3): 1, (9, 0, 1): 1}


def test_two_levels_of_enclosing_rows() -> None:
    """The innermost subquery reads the outermost row past the one between."""
    w = table("w", "k")
    innermost = where(w, equals(column("w_k", "bigint"), sql("`outer.u_v` + `outer.t_v`", "bigint")))
    middle = where(exists(PARTNERS, innermost, "inside"), column("inside", "boolean"))
    environment = tables(t_kv=[(1, 10), (2, 20)], u_kv=[(1, 5), (2, 5)], w_k=[(15,)])
    assert agree(where(exists(T, middle), found()), environment) == {(1, 10, True): 1}


def test_one_relation_inside_and_outside() -> None:
    """A CTE read by the query and by its subquery: the same columns on both sides."""
    inner = Aggregate(where(T, sql("`t_k` = `outer.t_k`")), (), (aggregation("n", "count", None, "bigint"),))
    assert {(row[0], row[2]) for row in agree(scalar(T, inner), ROWS)} == {(1, 2), (2, 1), (None, 0), (3, 1)}
    assert len(agree(where(is_in(T, T, column("t_k", "bigint"), column("t_v", "bigint")), found()), ROWS)) == 2


def test_lateral_aggregate() -> None:
    for kind in (JoinKind.INNER, JoinKind.LEFT):
        plan = LateralJoin(T, count(PARTNERS), kind, ())
        assert {(row[0], row[2]) for row in agree(plan, ROWS)} == {(1, 2), (2, 1), (None, 0), (3, 0)}


def test_lateral_left_join_with_a_condition() -> None:
    plan = LateralJoin(T, count(PARTNERS), JoinKind.LEFT, (sql("`n` > 0"),))
    assert {(row[0], row[2]) for row in agree(plan, ROWS)} == {(1, 2), (2, 1), (None, None), (3, None)}


def test_lateral_top_k() -> None:
    best = TopK(select(PARTNERS, best=column("u_v", "bigint")), (SortKey("best"),), 1)
    assert agree(LateralJoin(T, best, JoinKind.INNER, ()), ROWS) == {(1, 10, 100): 2, (2, 20, None): 1}


def test_lateral_generator_is_a_generate() -> None:
    repeated = TableFunction(sql("explode(array_repeat(7, `outer.t_k`))", "bigint"), (Column("y", "bigint"),))
    plan = LateralJoin(T, repeated, JoinKind.LEFT, ())
    environment = tables(t_kv=[(2, 0), (0, 0)])
    assert agree(plan, environment) == {(2, 0, 7): 2, (0, 0, None): 1}
    assert kinds(lower(plan)) == ["Generate", "Project", "Scan"]
