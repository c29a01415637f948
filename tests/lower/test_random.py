"""Lowering keeps the meaning: random surface plans on random tables, before and after."""

from __future__ import annotations

from random import Random
from typing import TypeGuard

import pytest

from anabranch.algebra.holes import outer_columns
from anabranch.algebra.interpret import Environment, interpret
from anabranch.algebra.relation import SURFACE, Apply, ApplyKind, LateralJoin, Relation, iterate
from anabranch.algebra.values import EvaluationError
from anabranch.algebra.walk import size
from anabranch.lower.lower import lower
from anabranch.lower.row_counts import at_most_one
from tests.plans import random_relation, random_tables

BATCHES = 20
PLANS_IN_BATCH = 100
TABLES_FOR_PLAN = 5


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_plans(batch: int) -> None:
    """10,000 cases in all, over every surface operator."""
    for seed in range(batch * PLANS_IN_BATCH, (batch + 1) * PLANS_IN_BATCH):
        check(seed, depth=3)


@pytest.mark.parametrize("batch", range(2))
def test_deeper_plans(batch: int) -> None:
    for seed in range(1_000_000 + batch * 50, 1_000_050 + batch * 50):
        check(seed, depth=5)


KEPT = {1_000_028: "a check for one row went below a join and raised for rows without partner"}


@pytest.mark.parametrize("seed", KEPT)
def test_plans_that_once_failed(seed: int) -> None:
    check(seed, depth=5)


@pytest.mark.soak
def test_many_random_plans() -> None:
    for seed in range(2_000_000, 2_050_000):
        check(seed, depth=3 + seed % 3)


def test_the_generator_makes_every_surface_operator() -> None:
    made = {type(each) for seed in range(300) for each in iterate(random_relation(Random(seed), surface=True))}
    assert set(SURFACE) <= made


def check(seed: int, depth: int) -> None:
    """One plan on several databases. Where the query answers, lowering must; where it raises, lowering may answer."""
    rng = Random(seed)
    relation = random_relation(rng, surface=True, depth=depth)
    lowered = lower(relation)
    assert size(lowered) <= 6 * size(relation), f"seed {seed} grows"
    for _ in range(TABLES_FOR_PLAN):
        environment = Environment(tables=random_tables(rng))
        try:
            expected = interpret(relation, environment)
        except EvaluationError:
            continue
        try:
            found = interpret(lowered, environment)
        except EvaluationError:
            assert checks_without_a_row(relation), f"seed {seed} raises"
            continue
        assert found == expected, f"seed {seed}"


def checks_without_a_row(relation: Relation) -> bool:
    """Whether some check for one row may run although no enclosing row asks: Spark runs a subquery once, asked or not.

    So it is for subqueries that read nothing of the row, and for those inside another subquery.
    """
    for each in iterate(relation):
        if isinstance(each, Apply | LateralJoin):
            inner = each.inner if isinstance(each, Apply) else each.right
            if any(_is_checked(nested) for nested in iterate(inner)):
                return True
        if _is_checked(each) and not outer_columns(each.inner) & set(each.child.names):
            return True
    return False


def _is_checked(relation: Relation) -> TypeGuard[Apply]:
    return isinstance(relation, Apply) and relation.kind is ApplyKind.SCALAR and not at_most_one(relation.inner)
