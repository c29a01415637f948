"""A restriction pushed down keeps exactly the rows it would keep where it was; where it must not go, it does not."""

from __future__ import annotations

from random import Random

import pytest

from anabranch.algebra.expression import equals, expression
from anabranch.algebra.interpret import Environment, interpret
from anabranch.algebra.relation import (
    After,
    Aggregate,
    Before,
    Column,
    Distinct,
    Filter,
    Fixpoint,
    Join,
    JoinKind,
    Output,
    Project,
    Recursion,
    Relation,
    Scan,
    SortKey,
    TopK,
    UnionAll,
    Values,
    Window,
    iterate,
)
from anabranch.algebra.values import EvaluationError
from anabranch.delta.build import at, renamed_keys
from anabranch.delta.differentiate import change_of
from anabranch.delta.narrow import narrow
from anabranch.delta.reads import reads_of, unrestricted_reads
from anabranch.delta.restrict import restrict
from tests.delta.test_rules import chain, table
from tests.plans import aggregation, random_relation, random_tables
from tests.tables import VALUES


def keys(*values: int | None) -> Relation:
    rows = tuple((expression("NULL" if value is None else str(value), "bigint"),) for value in values)
    return Values(rows, (Column("key", "bigint"),))


def random_keys(rng: Random, columns: list[Column]) -> Relation:
    """Some keys that occur, NULL among them."""

    def literal(type: str) -> str:
        value = rng.choice(VALUES[type])
        return "NULL" if value is None else (f"'{value}'" if isinstance(value, str) else str(value))

    rows = tuple(tuple(expression(literal(each.type), each.type) for each in columns) for _ in range(3))
    return Values(rows, tuple(Column(f"key_{number}", each.type) for number, each in enumerate(columns)))


def test_random_restrictions() -> None:
    checked = kept = 0
    for seed in range(1500):
        rng = Random(f"restrict {seed}")
        plan = random_relation(rng, surface=False, depth=2 + seed % 3)
        names = tuple(rng.sample(plan.names, rng.randint(1, min(2, len(plan.names)))))
        keyset = random_keys(rng, [plan.column(name) for name in names])
        pushed = restrict(plan, names, keyset)
        plain = at(plan, names, renamed_keys(keyset))
        for _ in range(3):
            environment = Environment(tables=random_tables(rng))
            try:
                wanted = interpret(plain, environment)
            except EvaluationError:
                continue
            assert interpret(pushed, environment) == wanted, seed
            checked += 1
            kept += bool(wanted)
    assert checked > 4000
    assert kept > 1500


def restricted_tables(plan: Relation) -> set[str]:
    """The tables that are restricted right where they are read."""
    return {
        each.left.table
        for each in iterate(plan)
        if isinstance(each, Join) and each.kind is JoinKind.SEMI and isinstance(each.left, Scan | Before | After)
    }


def grouped(rows: Relation, by: tuple[str, ...]) -> Relation:
    return Aggregate(rows, by, (aggregation("n", "count", None, "bigint"),))


def numbered(rows: Relation, partition: str) -> Window:
    order = [rows.column(name).value for name in (partition, *rows.names)]
    text = f"row_number() OVER (PARTITION BY {{}} ORDER BY {', '.join('{}' for _ in rows.names)})"
    return Window(rows, (partition,), (Output("place", expression(text, "int", *order)),))


def joined(kind: JoinKind) -> Relation:
    return chain(2, kind)


def walked() -> Relation:
    anchor = table("t1")
    rounds = Recursion("walk", anchor.columns)
    return Fixpoint("walk", anchor, Filter(rounds, (expression("false", "boolean"),)))


def best(partition: tuple[str, ...] = ()) -> Relation:
    return TopK(table("t1"), (SortKey("t1_x"), SortKey("t1_k")), 1, 0, partition)


THROUGH: dict[str, tuple[Relation, str, set[str]]] = {
    "filter": (Filter(table("t1"), (expression("true", "boolean"),)), "t1_k", {"t1"}),
    "union": (UnionAll((table("t1"), table("t2"))), "t1_k", {"t1", "t2"}),
    "distinct": (Distinct(table("t1")), "t1_k", {"t1"}),
    "inner join, and across its equality": (joined(JoinKind.INNER), "t2_k", {"t1", "t2"}),
    "inner join, other column": (joined(JoinKind.INNER), "t1_k", {"t1"}),
    "preserved side": (joined(JoinKind.LEFT), "t1_k", {"t1"}),
    "preserved side, and across": (joined(JoinKind.LEFT), "t1_x", {"t1", "t2"}),
    "tested side by the equality": (joined(JoinKind.ANTI), "t1_x", {"t1", "t2"}),
    "group key": (grouped(table("t1"), ("t1_k", "t1_x")), "t1_x", {"t1"}),
    "partition": (numbered(table("t1"), "t1_k"), "t1_k", {"t1"}),
    "partition of a top-n": (best(("t1_k",)), "t1_k", {"t1"}),
}

NOT_THROUGH: dict[str, tuple[Relation, str]] = {
    "padded side, for the key may be NULL": (joined(JoinKind.LEFT), "t2_k"),
    "full join": (joined(JoinKind.FULL), "t1_k"),
    "result of an aggregate": (grouped(table("t1"), ("t1_k",)), "n"),
    "global aggregate": (grouped(table("t1"), ()), "n"),
    "window partitioned otherwise": (numbered(table("t1"), "t1_k"), "t1_x"),
    "top-n": (best(), "t1_k"),
    "top-n partitioned otherwise": (best(("t1_x",)), "t1_k"),
    "recursion": (walked(), "t1_k"),
    "computed column": (
        Project(table("t1"), (Output("twice", expression("{} * 2", "bigint", table("t1").column("t1_k").value)),)),
        "twice",
    ),
}


@pytest.mark.parametrize("name", THROUGH)
def test_goes_through(name: str) -> None:
    plan, key, tables = THROUGH[name]
    assert restricted_tables(restrict(plan, (key,), keys(1, None))) == tables


@pytest.mark.parametrize("name", NOT_THROUGH)
def test_does_not_go_through(name: str) -> None:
    plan, key = NOT_THROUGH[name]
    restricted = restrict(plan, (key,), keys(1, None))
    assert restricted_tables(restricted) == set()
    assert isinstance(restricted, Join)
    assert restricted.left is plan


def test_composite_key_goes_where_its_columns_go_and_is_applied_again() -> None:
    plan = joined(JoinKind.INNER)
    pair = Values(
        ((expression("1", "bigint"), expression("2", "bigint")),), (Column("a", "bigint"), Column("b", "bigint"))
    )
    restricted = restrict(plan, ("t1_k", "t2_x"), pair)
    assert restricted_tables(restricted) == {"t1", "t2"}
    assert isinstance(restricted, Join)
    assert restricted.kind is JoinKind.SEMI


def test_every_read_of_a_long_join_is_by_keys() -> None:
    for kind in (JoinKind.INNER, JoinKind.LEFT):
        change = change_of(chain(8, kind), frozenset(f"t{number}" for number in range(1, 9)))
        assert change is not None
        narrowed = narrow(change)
        assert unrestricted_reads(narrowed) == []
        assert all(read.keys is not None and read.columns for read in reads_of(narrowed))


def test_reads_of_everything_are_named() -> None:
    change = change_of(grouped(table("t1"), ()), frozenset({"t1"}))
    assert change is not None
    assert unrestricted_reads(narrow(change)) == ["UNRESTRICTED_READ: Aggregate without GROUP BY"]


def test_a_condition_without_equality_reads_everything() -> None:
    left, right = table("t1"), table("t2")
    less = expression("{} < {}", "boolean", left.column("t1_k").value, right.column("t2_k").value)
    change = change_of(Join(left, right, JoinKind.INNER, (less,)), frozenset({"t1"}))
    assert change is not None
    assert unrestricted_reads(narrow(change)) == ["UNRESTRICTED_READ: Inner join"]


def test_equal_columns_of_other_types_are_not_taken_for_each_other() -> None:
    left = Scan("l", (Column("a", "string"),))
    right = Scan("r", (Column("b", "bigint"),))
    plan = Join(left, right, JoinKind.INNER, (equals(left.column("a").value, right.column("b").value),))
    assert restricted_tables(restrict(plan, ("b",), keys(1))) == {"r"}
