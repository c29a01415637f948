"""Plans cut into waves mean what the plans meant; tables are read once a wave; plans stay small."""

from __future__ import annotations

from random import Random

import pytest

from anabranch.algebra.expression import equals
from anabranch.algebra.interpret import Environment, NotABagError, Table, ZSet, interpret
from anabranch.algebra.relation import (
    After,
    Before,
    Change,
    Column,
    Join,
    JoinKind,
    Output,
    Project,
    Relation,
    Scan,
    iterate,
)
from anabranch.algebra.values import EvaluationError
from anabranch.delta.differentiate import change_of
from anabranch.delta.narrow import narrow
from anabranch.fuse import waves as waves_module
from anabranch.fuse.waves import Waves, cut
from tests.plans import random_relation
from tests.tables import random_change, random_tables, tick


def run(plan: Waves, environment: Environment) -> list[ZSet]:
    """The roots' rows, each wave worked out from the leaves that the waves before it have made."""
    before, after = dict(environment.before), dict(environment.after)
    for wave in plan.waves:
        now = Environment(environment.tables, before, after, environment.change, environment.stored)
        made = [(step, interpret(step.relation, now)) for step in wave]
        for step, rows in made:
            assert isinstance(step.leaf, Before | After)
            place = before if isinstance(step.leaf, Before) else after
            place[step.leaf.table] = Table(step.leaf.names, rows)
    last = Environment(environment.tables, before, after, environment.change, environment.stored)
    return [interpret(root, last) for root in plan.roots]


def test_waves_keep_the_meaning_of_random_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several nodes' changes are cut together; every shared sub-plan is cut, however small."""
    monkeypatch.setattr(waves_module, "WORTH_SHARING", 2)
    waves_made = cases = 0
    for seed in range(1500):
        rng = Random(seed)
        tables = random_tables(rng)
        change = random_change(rng, tables)
        changed = frozenset(name for name, table in change.items() if table.rows)
        plans = [change_of(random_relation(rng, surface=False), changed) for _ in range(3)]
        roots = [narrow(each) for each in plans if each is not None]
        environment = tick(tables, change)
        try:
            expected = [interpret(root, environment) for root in roots]
        except (EvaluationError, NotABagError):
            continue
        plan = cut(roots)
        assert run(plan, environment) == expected, f"seed {seed}"
        waves_made += len(plan.waves)
        cases += bool(roots)
    assert cases > 500
    assert waves_made > 500


def chain(width: int) -> Relation:
    """A join of several tables, each with the next."""
    plan: Relation | None = None
    for number in range(width):
        scan = Scan(f"t{number}", (Column("a", "bigint"), Column("b", "bigint")))
        side = Project(
            scan, (Output(f"a{number}", scan.column("a").value), Output(f"b{number}", scan.column("b").value))
        )
        if plan is None:
            plan = side
        else:
            on = equals(plan.column(f"b{number - 1}").value, side.column(f"a{number}").value)
            plan = Join(plan, side, JoinKind.INNER, (on,))
    assert plan is not None
    return plan


def test_every_table_is_read_once_in_a_wave() -> None:
    """Twenty plans that read the same tables by keys scan each of them once a wave, not once a plan."""
    plans = []
    for number in range(20):
        plan = chain(4)
        renamed = Project(plan, tuple(Output(f"{each.name}_{number}", each.value) for each in plan.columns))
        change = change_of(renamed, frozenset({"t0"}))
        assert change is not None
        plans.append(narrow(change))
    made = cut(plans)
    assert len(made.waves) == 3
    for wave in made.waves:
        scanned = [leaf for step in wave for leaf in iterate(step.relation) if _is_table(leaf)]
        assert len(scanned) == len(set(scanned)) == 1
    assert not any(_is_table(leaf) for root in made.roots for leaf in iterate(root))


def test_unchanged_tables_have_no_part_in_the_plan() -> None:
    change = change_of(chain(3), frozenset({"t1"}))
    assert change is not None
    made = cut([narrow(change)])
    assert {each.table for root in made.roots for each in iterate(root) if isinstance(each, Change)} == {"t1"}


def test_the_same_batch_gives_the_same_waves() -> None:
    change = change_of(chain(5), frozenset({"t0", "t3"}))
    assert change is not None
    assert cut([narrow(change)]) == cut([narrow(change)])


def test_wide_joins_stay_small() -> None:
    """The text given to Spark grows with the square of the width, not exponentially."""
    sizes = []
    for width in (4, 8):
        change = change_of(chain(width), frozenset(f"t{number}" for number in range(width)))
        assert change is not None
        made = cut([narrow(change)])
        sizes.append(max(_tree_size(each) for each in (*made.roots, *(s.relation for w in made.waves for s in w))))
    assert sizes[1] < sizes[0] * 8


def _is_table(relation: Relation) -> bool:
    return isinstance(relation, Before | After) and "~" not in relation.table and "shared" not in relation.table


def _tree_size(root: Relation) -> int:
    sizes: dict[Relation, int] = {}
    for relation in iterate(root):
        sizes[relation] = 1 + sum(sizes[child] for child in relation.children)
    return sizes[root]
