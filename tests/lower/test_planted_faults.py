"""The random plans catch wrong rules: each fault is planted, and must be found by a plan that answers differently."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from anabranch.algebra.expression import Expression, equals
from anabranch.algebra.interpret import Environment, interpret
from anabranch.algebra.relation import Aggregation, Apply, Filter, Join, JoinKind, Output, Relation, Window
from anabranch.algebra.values import EvaluationError
from anabranch.lower import domain, empty_groups, membership, push_filters, set_operations, subqueries
from anabranch.lower.lower import lower
from anabranch.lower.names import FreshNames
from tests.plans import random_relation, random_tables

Plant = Callable[[pytest.MonkeyPatch], None]


def not_in_as_not_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(apply: Apply, child: Relation, inner: Relation, wanted: bool, names: FreshNames) -> Relation:
        kept = membership.kept_by(apply, child, inner, True, names)
        return kept if wanted or not isinstance(kept, Join) else replace(kept, kind=JoinKind.ANTI)

    monkeypatch.setattr(subqueries, "kept_by", wrong)


def count_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(aggregation: Aggregation, joined: Relation, found: str, default: Expression | None) -> Output:
        return Output(aggregation.name, joined.column(aggregation.name).value)

    monkeypatch.setattr(empty_groups, "_completed", wrong)


def residual_on_as_where(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(sinker: Any, relation: Join, predicates: tuple[Expression, ...]) -> Relation:
        residual = tuple(each for each in relation.on if each.equality is None)
        kept = replace(relation, on=tuple(each for each in relation.on if each.equality is not None))
        return push_filters._left_join(sinker, kept, predicates + residual)

    monkeypatch.setitem(push_filters._JOINS, JoinKind.LEFT, wrong)


def where_below_the_padded_side(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(sinker: Any, relation: Join, predicates: tuple[Expression, ...]) -> Relation:
        right = push_filters._reads_only(predicates, relation.right)
        return push_filters._left_join(sinker, replace(relation, on=relation.on + right), predicates)

    def drops_above(sinker: Any, relation: Join, predicates: tuple[Expression, ...]) -> Relation:
        pushed = wrong(sinker, relation, predicates)
        return pushed.child if isinstance(pushed, Filter) else pushed

    monkeypatch.setitem(push_filters._JOINS, JoinKind.LEFT, drops_above)


def condition_through_a_window_partitioned_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    through = push_filters._through(passing=lambda relation: frozenset(relation.child.names))
    monkeypatch.setitem(push_filters._RULES, Window, through)


def set_operations_that_drop_nulls(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(left: Any, right: Any) -> tuple[Expression, ...]:
        return tuple(equals(one.value, two.value) for one, two in zip(left, right, strict=True))

    monkeypatch.setattr(set_operations, "same_row", wrong)


def except_all_without_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set_operations, "_with_counts", set_operations._with_join)


def domain_without_nulls(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(left: Any, right: Any) -> tuple[Expression, ...]:
        return tuple(equals(one.value, two.value) for one, two in zip(left, right, strict=True))

    monkeypatch.setattr(domain, "same_row", wrong)


@pytest.mark.parametrize(
    "plant",
    [
        not_in_as_not_exists,
        count_bug,
        residual_on_as_where,
        where_below_the_padded_side,
        condition_through_a_window_partitioned_otherwise,
        set_operations_that_drop_nulls,
        except_all_without_counts,
        domain_without_nulls,
    ],
)
def test_is_caught(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert any(answers_differ(seed) for seed in range(2_000))


def answers_differ(seed: int) -> bool:
    rng = Random(seed)
    relation = random_relation(rng, surface=True)
    lowered = lower(relation)
    for _ in range(3):
        environment = Environment(tables=random_tables(rng))
        try:
            if interpret(relation, environment) != interpret(lowered, environment):
                return True
        except EvaluationError:
            continue
    return False
