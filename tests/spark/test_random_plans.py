"""Random plans on Spark give what the interpreter says: as they are, over Z-sets, and as differences."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from pyspark.sql import SparkSession

from anabranch.algebra.expression import expression
from anabranch.algebra.interpret import NotABagError, interpret
from anabranch.algebra.relation import (
    After,
    Before,
    Change,
    Consolidate,
    Fixpoint,
    Generate,
    Negate,
    Output,
    Project,
    Relation,
    Scan,
    UnionAll,
    iterate,
)
from anabranch.algebra.values import EvaluationError
from anabranch.algebra.walk import transform
from tests.plans import random_change, random_relation, random_tables, tick
from tests.spark.harness import spark_rows

PLANS_IN_A_JOB = 10
JOBS = 7


def as_it_is(rng: Random, plan: Relation) -> Relation:
    return plan


def over_z_sets(rng: Random, plan: Relation) -> Relation:
    """Tables given as sums that come out as bags: before + change, after - change."""

    def replaced(relation: Relation) -> Relation:
        if not isinstance(relation, Scan):
            return relation
        table, columns = relation.table, relation.columns
        before, after, change = Before(table, columns), After(table, columns), Change(table, columns)
        return rng.choice(
            (
                UnionAll((before, change)),
                Consolidate(UnionAll((change, before))),
                UnionAll((after, Negate(change))),
                after,
            )
        )

    return transform(plan, replaced)


def as_difference(rng: Random, plan: Relation) -> Relation:
    """The plan after the tick minus the plan before it."""
    after, before = (
        transform(plan, lambda each, kind=kind: kind(each.table, each.columns) if isinstance(each, Scan) else each)
        for kind in (After, Before)
    )
    difference = UnionAll((after, Negate(before)))
    return Consolidate(difference) if rng.random() < 0.5 else difference


def runs_on_spark(plan: Relation) -> bool:
    """Spark repeats arrays only an INT number of times."""
    return not any(isinstance(each, Generate) and "array_repeat" in str(each.generator) for each in iterate(plan))


def typed(plan: Relation) -> Relation:
    """Both sides of a recursion with the types they claim to have: literals claim to be BIGINT."""

    def cast(relation: Relation) -> Relation:
        outputs = (
            Output(each.name, expression(f"CAST({{}} AS {each.type})", each.type, each.value))
            for each in relation.columns
        )
        return Project(relation, tuple(outputs))

    def replaced(relation: Relation) -> Relation:
        if not isinstance(relation, Fixpoint):
            return relation
        return Fixpoint(relation.name, cast(relation.anchor), cast(relation.step))

    return transform(plan, replaced)


@pytest.mark.parametrize("form", [as_it_is, over_z_sets, as_difference])
@pytest.mark.parametrize("seed", range(JOBS))
def test_random_plans_on_spark(spark: SparkSession, seed: int, form: Callable[[Random, Relation], Relation]) -> None:
    rng = Random(f"{form.__name__} {seed}")
    tables = random_tables(rng)
    environment = tick(tables, random_change(rng, tables))
    plans: list[Relation] = []
    expected = []
    while len(plans) < PLANS_IN_A_JOB:
        plan = form(rng, typed(random_relation(rng, surface=False)))
        if not runs_on_spark(plan):
            continue
        try:
            expected.append(interpret(plan, environment))
        except (EvaluationError, NotABagError):
            continue
        plans.append(plan)
    for plan, found, wanted in zip(plans, spark_rows(spark, plans, environment), expected, strict=True):
        assert found == wanted, plan
