"""Plans grow linearly with the query: each operator adds the same, however many are below it.

Reading narrowly repeats the prefix of a chain of joins once for each table that changes, as the terms themselves do
when they are written out: at most the square of the number of joins, and sub-plans that are shared have a cap.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from anabranch.algebra.expression import equals
from anabranch.algebra.relation import Aggregate, Column, Join, JoinKind, Output, Project, Relation, Scan
from anabranch.algebra.walk import size
from anabranch.delta.differentiate import change_of
from anabranch.delta.narrow import narrow
from anabranch.delta.state import delta, layout, moving_tables
from anabranch.delta.versions import tables_of
from tests.delta.test_rules import chain
from tests.plans import aggregation


def nested_aggregates(depth: int, function: str) -> Relation:
    """GROUP BY a, b, c over GROUP BY a, b, c, d over ..."""
    keys = [f"k{number}" for number in range(depth)]
    value = Column("x", "bigint")
    plan: Relation = Scan("t", (*(Column(key, "bigint") for key in keys), value))
    for number in range(depth, 0, -1):
        call = aggregation(f"s{number}", function, value.value, "bigint")
        plan = Aggregate(plan, tuple(keys[:number]), (call,))
        value = call.column
    return plan


def expressions_used_twice(depth: int) -> Relation:
    """Common table expressions, each joining the one before with itself."""
    plan: Relation = Scan("t", (Column("a", "bigint"), Column("b", "bigint")))
    for number in range(depth):
        left = Project(plan, tuple(Output(f"l{number}_{each.name}", each.value) for each in plan.columns))
        right = Project(plan, tuple(Output(f"r{number}_{each.name}", each.value) for each in plan.columns))
        joined = Join(left, right, JoinKind.INNER, (equals(left.columns[0].value, right.columns[1].value),))
        outputs = (Output("a", left.columns[0].value), Output("b", right.columns[0].value))
        plan = Project(joined, outputs)
    return plan


QUERIES: dict[str, Callable[[int], Relation]] = {
    "inner joins": lambda depth: chain(depth + 1),
    "left joins": lambda depth: chain(depth + 1, JoinKind.LEFT),
    "full joins": lambda depth: chain(depth + 1, JoinKind.FULL),
    "nested sums": lambda depth: nested_aggregates(depth, "sum"),
    "nested lists": lambda depth: nested_aggregates(depth, "collect_list"),
    "expressions used twice": expressions_used_twice,
}


def sizes(size_of: Callable[[Relation], int], query: Callable[[int], Relation]) -> list[int]:
    return [size_of(query(depth)) for depth in range(2, 10)]


def change_size(plan: Relation) -> int:
    change = change_of(plan, tables_of(plan))
    assert change is not None
    return size(change)


def narrow_size(plan: Relation) -> int:
    change = change_of(plan, tables_of(plan))
    assert change is not None
    return size(narrow(change))


def parts_size(plan: Relation) -> int:
    parts = layout(plan)
    moving = moving_tables(parts, tables_of(plan))
    return sum(size(change) for part in parts if (change := delta(part, moving)) is not None)


@pytest.mark.parametrize("name", QUERIES)
def test_the_change_grows_linearly(name: str) -> None:
    found = sizes(change_size, QUERIES[name])
    steps = {later - earlier for earlier, later in pairwise(found)}
    assert len(steps) == 1, found


def test_stored_aggregates_grow_linearly() -> None:
    found = sizes(parts_size, QUERIES["nested sums"])
    assert len({later - earlier for earlier, later in pairwise(found)}) == 1, found


@pytest.mark.parametrize("name", QUERIES)
def test_reading_narrowly_is_never_exponential(name: str) -> None:
    """Each step adds at most a few operators more than the step before it, whatever is shared."""
    found = sizes(narrow_size, QUERIES[name])
    steps = [later - earlier for earlier, later in pairwise(found)]
    assert max(later - earlier for earlier, later in pairwise(steps)) <= 24, found


@pytest.mark.parametrize("name", ["inner joins", "left joins"])
def test_one_changed_table_grows_linearly_even_read_narrowly(name: str) -> None:
    def one_changed(plan: Relation) -> int:
        change = change_of(plan, frozenset({"t2"}))
        assert change is not None
        return size(narrow(change))

    found = sizes(one_changed, QUERIES[name])
    assert len({later - earlier for earlier, later in pairwise(found)}) == 1, found
