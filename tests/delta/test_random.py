"""Random plans, tables and ticks: at least 100,000 cases over all operators, old result + change = new result each.

Few different values, NULLs and duplicates, one to three tables changed in one tick. Every case is judged by the
interpreter on the plan as it was before `delta/` saw it.
"""

from __future__ import annotations

from random import Random

import pytest

from anabranch.algebra.interpret import Table
from anabranch.algebra.relation import (
    KERNEL,
    Empty,
    JoinKind,
    Negate,
    Recursion,
    Scan,
    TableFunction,
    Values,
)
from anabranch.delta import top
from anabranch.delta.simplify import simplify
from anabranch.lower.lower import lower
from tests.delta.families import FAMILIES, Family, change_of_tables, tables_of
from tests.delta.harness import Node, Tables, Tally, check_change, check_node, difference, shown
from tests.plans import plus, random_change, random_relation, random_tables

BLOCKS = 16
CHANGE_PLANS, CHANGE_TICKS = 120, 45
NODE_PLANS, NODE_TICKS = 80, 12
FAMILY_TICKS = 250
CASES = BLOCKS * (CHANGE_PLANS * CHANGE_TICKS + NODE_PLANS * NODE_TICKS) + 2 * len(FAMILIES) * FAMILY_TICKS


@pytest.fixture(autouse=True)
def no_spare_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of a dozen rows must be able to run short."""
    monkeypatch.setattr(top, "SPARE_ROWS", 0)


def test_enough_cases() -> None:
    assert CASES >= 100_000


@pytest.mark.parametrize("block", range(BLOCKS))
def test_change_of_random_plans(block: int) -> None:
    tally = Tally()
    for seed in range(CHANGE_PLANS):
        rng = Random(f"change {block} {seed}")
        check_change(random_relation(rng, surface=False, depth=2 + seed % 3), rng, CHANGE_TICKS, tally)
    assert tally.cases > 0.95 * CHANGE_PLANS * CHANGE_TICKS
    _check_every_operator_was_moved(tally)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_nodes_of_random_plans(block: int) -> None:
    tally = Tally()
    for seed in range(NODE_PLANS):
        rng = Random(f"node {block} {seed}")
        plan = random_relation(rng, surface=False, depth=2 + seed % 3)
        check_node(plan, plan, rng, NODE_TICKS, tally)
    assert tally.cases > 0.95 * NODE_PLANS * NODE_TICKS
    assert set(tally.strategies) == {"linear", "merge", "keyed", "top", "recompute"}
    assert tally.guards["merge", False] > 0 < tally.guards["merge", True]
    assert tally.guards["top", False] > 0


@pytest.mark.parametrize("block", range(4))
def test_nodes_of_random_queries(block: int) -> None:
    """Subqueries, set operations and lateral joins, lowered first; the interpreter judges them as they were."""
    tally = Tally()
    for seed in range(40):
        rng = Random(f"query {block} {seed}")
        query = random_relation(rng, surface=True, depth=2)
        check_node(query, lower(query), rng, 8, tally)
    assert tally.cases > 200


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_traps(family: Family) -> None:
    tally = Tally()
    check_change(family.plan, Random(family.name), FAMILY_TICKS, tally, tables_of, change_of_tables)
    check_node(family.plan, family.plan, Random(family.name), FAMILY_TICKS, tally, tables_of, change_of_tables)
    assert tally.cases == 2 * FAMILY_TICKS


def test_small_steps_and_one_big_step_agree() -> None:
    for seed in range(60):
        rng = Random(f"steps {seed}")
        plan = random_relation(rng, surface=False, depth=3)
        small, big = Node.of(plan), Node.of(plan)
        start = tables = random_tables(rng)
        small.fill(tables)
        big.fill(tables)
        for _ in range(4):
            change = random_change(rng, tables)
            small.tick(tables, change)
            tables = plus(tables, change)
        big.tick(start, _sum_of_changes(start, tables))
        assert small.visible == big.visible


def test_state_after_ticks_is_the_state_from_scratch() -> None:
    """Not only what readers see: counts, sums and keys are a full refresh's. A top-N may keep other spare rows."""
    for seed in range(80):
        rng = Random(f"state {seed}")
        node = Node.of(random_relation(rng, surface=False, depth=3))
        fresh = Node(node.plan, node.parts)
        tables = random_tables(rng)
        node.fill(tables)
        for _ in range(4):
            change = random_change(rng, tables)
            node.tick(tables, change)
            tables = plus(tables, change)
        fresh.fill(tables)
        for part in node.parts:
            assert shown(part, node.stored[part.name]) == shown(part, fresh.stored[part.name])
            if part.strategy.value != "top":
                assert node.stored[part.name] == fresh.stored[part.name]


def test_simplify_keeps_the_meaning() -> None:
    for seed in range(100):
        rng = Random(f"simplify {seed}")
        plan = random_relation(rng, surface=False, depth=4)
        check_node(plan, simplify(plan), rng, 2, Tally())


KEPT_SEEDS: dict[str, int] = {
    "weights that cancel once other columns are dropped": 4,
    "terms of a key set that cancel once their signs are dropped": 101440,
    "a left side reduced to partners although rows without one count": 627,
    "predicates with OR joined by AND without parentheses": 176,
}


@pytest.mark.parametrize("name", KEPT_SEEDS)
@pytest.mark.parametrize("depth", [3, 4])
def test_kept_seeds(name: str, depth: int) -> None:
    rng = Random(KEPT_SEEDS[name])
    plan = random_relation(rng, surface=False, depth=depth)
    check_change(plan, rng, 60, Tally())
    check_node(plan, plan, rng, 30, Tally())


def _sum_of_changes(start: Tables, end: Tables) -> dict[str, Table]:
    return {name: Table(table.names, difference(end[name].rows, table.rows)) for name, table in start.items()}


def _check_every_operator_was_moved(tally: Tally) -> None:
    """Each operator was in plans whose result changed, and lost rows, in some of the cases."""
    leaves_and_signs = {Scan, Recursion, Values, Empty, TableFunction, Negate}
    kinds = {f"Join {kind.value}" for kind in JoinKind}
    wanted = {each.__name__ for each in KERNEL if each not in leaves_and_signs} | kinds
    assert {name for name in wanted if tally.changed[name] < 10 or tally.retracted[name] < 10} == set()
