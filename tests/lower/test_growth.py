"""Plans grow linearly: each further level adds the same number of operators, however they are nested."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from anabranch.algebra.expression import column, expression
from anabranch.algebra.relation import Aggregate, Join, JoinKind, Output, Project, Relation, iterate
from anabranch.algebra.walk import size
from anabranch.lower.lower import lower
from tests.lower.plans import exists, outer, same, scalar, select, sql, table, where
from tests.plans import aggregation


def renamed(relation: Relation, prefix: str) -> Relation:
    return Project(
        relation, tuple(Output(f"{prefix}_{place}", each.value) for place, each in enumerate(relation.columns))
    )


def common_tables_used_twice(levels: int) -> Relation:
    """WITH c1 AS (SELECT ... FROM c0 JOIN c0 ...), c2 AS (... c1 JOIN c1 ...), ..."""
    current = renamed(table("t", "k", "v"), "c0")
    for level in range(levels):
        other = renamed(current, f"o{level}")
        joined = Join(current, other, JoinKind.INNER, (same(current.names[0], other.names[0]),))
        kept = where(joined, sql(f"`{current.names[1]}` > {level}"))
        current = renamed(select(kept, a=joined.columns[0].value, b=joined.columns[3].value), f"c{level + 1}")
    return current


def aggregates(levels: int) -> Relation:
    current: Relation = renamed(table("t", "k", "v"), "a0")
    for level in range(levels):
        call = aggregation(f"s{level}", "sum", current.columns[1].value, "bigint")
        current = renamed(Aggregate(current, (current.names[0],), (call,)), f"a{level + 1}")
    return current


def left_joins(levels: int) -> Relation:
    current: Relation = table("t", "k", "v")
    for level in range(levels):
        other = renamed(table(f"u{level}", "k", "v"), f"j{level}")
        current = Join(current, other, JoinKind.LEFT, (same("t_k", other.names[0]),))
    return current


def scalar_subqueries_side_by_side(levels: int) -> Relation:
    current: Relation = table("t", "k", "v")
    for level in range(levels):
        inner = where(renamed(table("u", "k", "v"), f"q{level}"), sql(f"`q{level}_0` > `outer.t_k`"))
        count = Aggregate(inner, (), (aggregation(f"n{level}", "count", None, "bigint"),))
        current = scalar(current, count, f"value{level}")
    return current


def scalar_subqueries_inside_each_other(levels: int) -> Relation:
    """(SELECT count(*) FROM u1 WHERE u1.k < t.k AND u1.v = (SELECT count(*) FROM u2 WHERE u2.k < u1.k AND ...))."""

    def level_of(level: int, enclosing: str) -> Relation:
        here = renamed(table("u", "k", "v"), f"q{level}")
        if level < levels:
            count = level_of(level + 1, f"q{level}_0")
            here = where(scalar(here, count, f"value{level}"), same(f"q{level}_1", column(f"value{level}", "bigint")))
        kept = where(here, expression("{} < {}", "boolean", column(f"q{level}_0", "bigint"), outer(enclosing)))
        return Aggregate(kept, (), (aggregation(f"n{level}", "count", None, "bigint"),))

    return scalar(table("t", "k", "v"), level_of(1, "t_k"))


def exists_inside_each_other(levels: int) -> Relation:
    def level_of(level: int, enclosing: str) -> Relation:
        here = renamed(table("u", "k", "v"), f"q{level}")
        if level < levels:
            inner = level_of(level + 1, f"q{level}_0")
            here = where(exists(here, inner, f"found{level}"), sql(f"`found{level}` OR `q{level}_1` = 1"))
        return where(here, same(f"q{level}_0", outer(enclosing)))

    return exists(table("t", "k", "v"), level_of(1, "t_k"))


@pytest.mark.parametrize(
    "plan",
    [
        common_tables_used_twice,
        aggregates,
        left_joins,
        scalar_subqueries_side_by_side,
        scalar_subqueries_inside_each_other,
        exists_inside_each_other,
    ],
)
def test_each_level_adds_the_same(plan: Callable[[int], Relation]) -> None:
    sizes = [size(lower(plan(levels))) for levels in range(1, 9)]
    steps = [after - before for before, after in pairwise(sizes)]
    assert max(steps[2:]) <= steps[1] + 1, sizes
    longest = [max(len(str(each)) for each in _texts(lower(plan(levels)))) for levels in (4, 8)]
    assert longest[1] <= 2 * longest[0], longest


def _texts(relation: Relation) -> list[object]:
    return [each.value for project in iterate(relation) if isinstance(project, Project) for each in project.outputs]
