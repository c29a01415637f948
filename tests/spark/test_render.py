"""Each operator by name on Spark, compared with the interpreter: NULLs, duplicates, weights, odd names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anabranch.algebra.expression import column, equals, expression
from anabranch.algebra.interpret import Environment, Table, interpret
from anabranch.algebra.relation import (
    DELTA_ONLY,
    KERNEL,
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
    TableFunction,
    TopK,
    UnionAll,
    Values,
    Weigh,
    Window,
)
from anabranch.spark.render import Bound, render
from anabranch.spark.render.render import RULES
from tests.plans import aggregation
from tests.spark.harness import spark_rows

PLANS_IN_A_JOB = 10
T = (Column("a", "bigint"), Column("b", "bigint"))
U = (Column("c", "bigint"), Column("d", "bigint"))
A, B, C, D = (each.value for each in T + U)
ROWS_T = {(1, 1): 2, (1, 2): 1, (2, None): 1, (None, 1): 3, (None, None): 1}
ROWS_U = {(1, 10): 2, (1, None): 1, (3, 30): 1, (None, 40): 1}
CHANGE_T = {(1, 1): -1, (5, 5): 2, (None, 1): -3, (2, 7): 1}
CHANGE_U = {(1, 10): -2, (5, 50): 1, (3, 30): 1}


def after(rows: Mapping[Any, int], change: Mapping[Any, int]) -> dict[Any, int]:
    total = {row: rows.get(row, 0) + change.get(row, 0) for row in {**rows, **change}}
    return {row: weight for row, weight in total.items() if weight}


def table(columns: tuple[Column, ...], rows: Mapping[Any, int]) -> Table:
    return Table(tuple(each.name for each in columns), rows)


ENVIRONMENT = Environment(
    tables={"t": table(T, ROWS_T), "u": table(U, ROWS_U)},
    before={"t": table(T, ROWS_T), "u": table(U, ROWS_U)},
    after={"t": table(T, after(ROWS_T, CHANGE_T)), "u": table(U, after(ROWS_U, CHANGE_U))},
    change={"t": table(T, CHANGE_T), "u": table(U, CHANGE_U)},
    stored={"p": table(T, ROWS_T)},
)
SCAN_T, SCAN_U = Scan("t", T), Scan("u", U)
DELTA_T, DELTA_U = Change("t", T), Change("u", U)
AS_ZSET_T = UnionAll((Before("t", T), DELTA_T))
AS_ZSET_U = UnionAll((Before("u", U), DELTA_U))
ON = (equals(A, C),)
EXTRA = (equals(A, C), expression("{} < {}", "boolean", B, D))
STEP = Project(
    Filter(Recursion("r", (Column("x", "bigint"),)), (expression("{} < 4", "boolean", column("x", "bigint")),)),
    (Output("y", expression("{} + 1", "bigint", column("x", "bigint"))),),
)
KEYS = Project(Support(Project(DELTA_T, (Output("k", A),))), (Output("key", column("k", "bigint")),))
AT_KEYS = (equals(A, column("key", "bigint"), null_safe=True),)
COUNT = aggregation("n", "count", None, "bigint")
SUM_B = aggregation("s", "sum", B, "bigint")


def counted(relation: Relation) -> Relation:
    return Aggregate(relation, (relation.names[0],), (COUNT,))


def doubled(relation: Relation) -> Relation:
    """A computed column, twice used: it must not be computed twice."""
    made = Project(relation, (Output("x", expression("{} + 1", "bigint", A)),))
    return Filter(made, (expression("{} > 1 OR {} IS NULL", "boolean", *(2 * [column("x", "bigint")])),))


PLANS: dict[str, Relation] = {
    "scan": SCAN_T,
    "before": Before("t", T),
    "after": After("t", T),
    "change": DELTA_T,
    "stored": Stored("p", T),
    "empty": Empty(T),
    "values of one row": Values(((expression("1", "int"), expression("NULL", "void")),), T),
    "values of rows": Values(((expression("1", "int"), expression("2", "int")),) * 2, T),
    "values without columns": Values(((), ()), ()),
    "values without rows": Values((), T),
    "table function": TableFunction(expression("range(3)", "bigint"), (Column("i", "bigint"),)),
    "filter": Filter(SCAN_T, (expression("{} > 0", "boolean", A), expression("{} IS NULL OR {} = 1", "boolean", B, B))),
    "filter of a computed column": doubled(SCAN_T),
    "project": Project(SCAN_T, (Output("b", A), Output("a", B), Output("c", expression("{} + {}", "bigint", A, B)))),
    "project to nothing": Project(SCAN_T, ()),
    "weighted nothing": Consolidate(Project(DELTA_T, ())),
    "union": UnionAll((SCAN_T, SCAN_U, SCAN_T)),
    "union with other types": UnionAll(
        (Project(SCAN_T, (Output("x", B),)), Project(SCAN_T, (Output("y", expression("CAST({} AS INT)", "int", A)),)))
    ),
    "union of bag and change": UnionAll((SCAN_T, DELTA_T)),
    "union of one": UnionAll((SCAN_T,)),
    "negate": Negate(SCAN_T),
    "negate a change": Negate(DELTA_T),
    "negate a union": Negate(UnionAll((SCAN_T, DELTA_T, Negate(SCAN_U)))),
    "expand": Expand(
        SCAN_T,
        ((A, expression("0", "int")), (expression("NULL", "void"), B)),
        (Column("x", "bigint"), Column("y", "bigint")),
    ),
    "expand a change": Expand(DELTA_T, ((A,), (B,)), (Column("x", "bigint"),)),
    "generate": Generate(SCAN_T, expression("explode(array({}, {}))", "bigint", A, B), False, (Column("e", "bigint"),)),
    "generate outer": Generate(
        DELTA_T, expression("posexplode(if({} > 1, NULL, array({})))", "bigint", A, B), True,
        (Column("p", "int"), Column("e", "bigint")),
    ),
    "generate, then join": Join(
        Generate(SCAN_T, expression("explode(array({}))", "bigint", A), False, (Column("e", "bigint"),)),
        SCAN_U, JoinKind.LEFT, (equals(column("e", "bigint"), C),),
    ),
    **{f"{kind.value} join": Join(SCAN_T, SCAN_U, kind, ON) for kind in JoinKind},
    **{f"{kind.value} join with a residual": Join(SCAN_T, SCAN_U, kind, EXTRA) for kind in JoinKind},
    **{f"{kind.value} join without a condition": Join(SCAN_T, SCAN_U, kind, ()) for kind in JoinKind},
    **{f"{kind.value} join of Z-sets": Join(AS_ZSET_T, AS_ZSET_U, kind, EXTRA) for kind in JoinKind},
    **{
        f"{kind.value} join of a change": Join(DELTA_T, AS_ZSET_U, kind, ON)
        for kind in JoinKind
        if kind is not JoinKind.FULL
    },
    **{
        f"{kind.value} join of filtered and computed sides": Join(
            doubled(SCAN_T), Project(Filter(SCAN_U, (expression("{} > 1", "boolean", D),)),
            (Output("z", C), Output("one", expression("1", "int")), Output("e", expression("{} * 2", "bigint", D)))),
            kind, (equals(column("x", "bigint"), column("z", "bigint")),),
        )
        for kind in JoinKind
    },
    "inner join of two changes": Join(DELTA_T, DELTA_U, JoinKind.INNER, ON),
    "three joins": Join(
        Join(SCAN_T, SCAN_U, JoinKind.LEFT, ON),
        Join(Project(SCAN_T, (Output("a2", A),)), Project(SCAN_U, (Output("c2", C),)), JoinKind.INNER, ()),
        JoinKind.LEFT, (equals(C, column("a2", "bigint")),),
    ),
    "semi join with keys of a change": Join(SCAN_T, KEYS, JoinKind.SEMI, AT_KEYS),
    "distinct": Distinct(Project(SCAN_T, (Output("a", A),))),
    "distinct of a Z-set": Distinct(Project(AS_ZSET_T, (Output("b", B),))),
    "aggregate": Aggregate(SCAN_T, ("a",), (COUNT, SUM_B)),
    "aggregate of everything": Aggregate(SCAN_T, (), (COUNT, SUM_B)),
    "aggregate of nothing": Aggregate(Empty(T), (), (COUNT, SUM_B)),
    "aggregate by keys alone": Aggregate(SCAN_T, ("b", "a"), ()),
    "aggregate to nothing": Aggregate(SCAN_T, (), ()),
    "aggregate of a Z-set": Aggregate(AS_ZSET_T, ("a",), (COUNT, SUM_B)),
    "aggregate by a computed key": Aggregate(
        Project(SCAN_T, (Output("one", expression("1", "int")), Output("b", expression("{} % 2", "bigint", A)))),
        ("one", "b"), (COUNT,),
    ),
    "window": Window(
        SCAN_T, ("a",),
        (Output("n", expression("row_number() OVER (PARTITION BY {} ORDER BY {})", "int", A, B)),
         Output("s", expression("sum({}) OVER (PARTITION BY {})", "bigint", B, A))),
    ),
    "window of a Z-set": Window(
        AS_ZSET_T, ("a",), (Output("n", expression("count(*) OVER (PARTITION BY {})", "bigint", A)),)
    ),
    "top": TopK(SCAN_T, (SortKey("a"), SortKey("b", True, False)), 3, 1),
    "top without limit": TopK(SCAN_T, (SortKey("b", True, True), SortKey("a")), None, 2),
    "top of a Z-set": TopK(AS_ZSET_T, (SortKey("a", True, False), SortKey("b")), 3),
    "top per group": TopK(SCAN_T, (SortKey("b", True, False),), 2, 1, ("a",)),
    "top per group without limit": TopK(AS_ZSET_T, (SortKey("b"),), None, 1, ("a",)),
    "fixpoint": Fixpoint("r", Project(SCAN_T, (Output("v", A),)), STEP),
    "fixpoint before and after": UnionAll(
        (
            Fixpoint("r", Project(After("t", T), (Output("v", A),)), STEP),
            Negate(Fixpoint("r", Project(Before("t", T), (Output("v", A),)), STEP)),
        )
    ),
    "fixpoint of a Z-set": Fixpoint(
        "r", Project(AS_ZSET_T, (Output("v", A),)),
        Project(
            Join(
                Recursion("r", (Column("x", "bigint"),)), Filter(AS_ZSET_U, (expression("{} > 30", "boolean", D),)),
                JoinKind.INNER, (equals(column("x", "bigint"), C),),
            ),
            (Output("y", D),),
        ),
    ),
    "fixpoint with two branches in the step": Fixpoint(
        "r", Project(SCAN_T, (Output("v", A),)), UnionAll((STEP, Filter(STEP, (expression("FALSE", "boolean"),)))),
    ),
    "consolidate": Consolidate(UnionAll((SCAN_T, DELTA_T, DELTA_T))),
    "consolidate a bag": Consolidate(SCAN_T),
    "support": Support(Project(DELTA_T, (Output("a", A),))),
    "weigh": Weigh(DELTA_T, "w"),
    "weigh a bag": Aggregate(Weigh(SCAN_T, "w"), ("a",), (aggregation("s", "sum", column("w", "bigint"), "bigint"),)),
    "weigh a join": Aggregate(
        Weigh(Join(DELTA_T, Negate(SCAN_U), JoinKind.INNER, ON), "w"), ("a",),
        (aggregation("s", "sum", column("w", "bigint"), "bigint"),),
    ),
    "one sub-plan read three times": UnionAll((counted(AS_ZSET_T), Negate(counted(AS_ZSET_T)), counted(AS_ZSET_T))),
}  # fmt: skip


@pytest.mark.parametrize("start", range(0, len(PLANS), PLANS_IN_A_JOB))
def test_every_operator_on_spark(spark: SparkSession, start: int) -> None:
    names = list(PLANS)[start : start + PLANS_IN_A_JOB]
    found = spark_rows(spark, [PLANS[name] for name in names], ENVIRONMENT)
    expected = [interpret(PLANS[name], ENVIRONMENT) for name in names]
    assert dict(zip(names, found, strict=True)) == dict(zip(names, expected, strict=True))


def test_every_operator_has_a_rule_and_a_plan() -> None:
    assert set(RULES) == {*KERNEL, *DELTA_ONLY}
    used = {type(each) for plan in PLANS.values() for each in _operators(plan)}
    assert used == set(RULES)


def _operators(plan: Relation) -> list[Relation]:
    return [plan, *(each for child in plan.children for each in _operators(child))]


ODD_NAMES = ("select", "a b", "tick`tick", "`", "größe 數", "x.y", "'quoted'", "__1", "r0", "key")


def test_any_name_is_a_name(spark: SparkSession) -> None:
    columns = tuple(Column(name, "bigint") for name in ODD_NAMES)
    rows = {tuple(range(len(columns))): 2}
    odd = Scan("odd", columns)
    other = Project(odd, tuple(Output(f"2 {each.name}", each.value) for each in columns))
    joined = Join(odd, other, JoinKind.LEFT, (equals(columns[2].value, other.columns[2].value),))
    plans = [
        Consolidate(UnionAll((joined, joined))),
        Aggregate(joined, ODD_NAMES, (aggregation("s u`m", "sum", columns[2].value, "bigint"),)),
        TopK(odd, tuple(SortKey(name) for name in ODD_NAMES), 1, 0, ("`",)),
        Generate(odd, expression("explode(array({}))", "bigint", columns[3].value), True, (Column("from", "bigint"),)),
        Expand(odd, (tuple(each.value for each in columns),) * 2, columns),
    ]
    environment = Environment(tables={"odd": Table(ODD_NAMES, rows)})
    assert spark_rows(spark, plans, environment) == [interpret(plan, environment) for plan in plans]


def test_lambdas_do_not_catch_columns(spark: SparkSession) -> None:
    """The user's own variables may have any name, even one that we use."""
    value = expression("aggregate(array(1, 2), 0L, (r0, t0) -> r0 + t0 + {})", "bigint", A)
    plan = Project(Filter(SCAN_T, (expression("{} = 1", "boolean", A),)), (Output("x", value),))
    assert spark_rows(spark, [plan], ENVIRONMENT) == [{(5,): 3}]


def test_maps_are_told_apart(spark: SparkSession) -> None:
    columns = (Column("m", "map<string,double>"),)
    values = tuple((expression(text, columns[0].type),) for text in ("map('a', 0D)", "map('a', -0D)", "map('a', 0D)"))
    bag = Values(values, columns)
    for plan, count in (
        (Distinct(bag), 2),
        (Support(Negate(bag)), 2),
        (Consolidate(bag), 2),
        (TopK(bag, (SortKey("m"),), 2), 2),
    ):
        assert len(spark.sql(render(plan, {}).sql).collect()) == count
    assert spark.sql(render(UnionAll((bag, Negate(bag))), {}).sql).count() == 6
    assert spark.sql(render(Consolidate(UnionAll((bag, Negate(bag)))), {}).sql).count() == 0


def test_the_top_is_decided_by_identity_where_the_order_ties(spark: SparkSession) -> None:
    columns = (Column("x", "double"),)
    rows = tuple((expression(text, "double"),) for text in ("0D", "-0D", "0D", "-0D"))
    text = render(TopK(Values(rows, columns), (SortKey("x"),), 2), {}).sql
    assert [str(row.x) for row in spark.sql(text).collect()] == ["-0.0", "-0.0"]


def test_keys_of_a_change_are_broadcast(spark: SparkSession) -> None:
    spark.range(10).selectExpr("id AS a", "id AS b").createOrReplaceTempView("hinted_t")
    spark.sql("SELECT id AS a, id AS b, 1L AS __ab_weight FROM range(10)").createOrReplaceTempView("hinted_change")
    plan = Join(SCAN_T, KEYS, JoinKind.SEMI, AT_KEYS)
    names = {SCAN_T: "hinted_t", DELTA_T: "hinted_change"}
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        hinted, plain = (_plan_text(spark, render(plan, names, each).sql) for each in (True, False))
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    assert "BroadcastHashJoin" in hinted
    assert "BroadcastHashJoin" not in plain


def _plan_text(spark: SparkSession, sql: str) -> str:
    return str(spark.sql(f"EXPLAIN {sql}").collect()[0][0])


def test_equal_relations_have_equal_texts() -> None:
    names = {SCAN_T: "t", SCAN_U: "u", DELTA_T: Bound("change_t", True), DELTA_U: Bound("change_u", True)}
    names |= {Before("t", T): "before_t", Before("u", U): "before_u"}
    plan = PLANS["left join of Z-sets"]
    assert render(plan, names) == render(plan, dict(reversed(list(names.items()))))


def test_filters_projections_and_joins_are_one_select() -> None:
    joined = Join(Filter(SCAN_T, (expression("{} > 0", "boolean", A),)), SCAN_U, JoinKind.LEFT, ON)
    plan = Project(joined, (Output("x", A), Output("y", expression("{} + 1", "bigint", D))))
    assert render(plan, {SCAN_T: "t", SCAN_U: "u"}).sql == (
        "SELECT __0.`a` AS `x`, __1.`d` + 1 AS `y` FROM `t` AS __0 LEFT JOIN `u` AS __1 ON (__0.`a` = __1.`c`) "
        "WHERE (__0.`a` > 0)"
    )


def test_a_bound_plan_is_read_and_not_computed() -> None:
    inner = Aggregate(SCAN_T, ("a",), (COUNT,))
    plan = Filter(inner, (expression("{} > 1", "boolean", column("n", "bigint")),))
    assert render(plan, {inner: Bound("r0")}).sql == "SELECT __0.`a`, __0.`n` FROM `r0` AS __0 WHERE (__0.`n` > 1)"
    assert render(inner, {inner: Bound("kept", weighted=True)}).weighted


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (SCAN_T, "no view is bound to Scan"),
        (SetOperation(SetKind.EXCEPT, True, SCAN_T, SCAN_T), "SetOperation is not lowered"),
    ],
)
def test_what_cannot_be_rendered_is_refused(plan: Relation, message: str) -> None:
    names = {} if plan is SCAN_T else {SCAN_T: "t"}
    with pytest.raises(ValueError, match=message):
        render(plan, names)
