"""Plans whose structural parts are worked out mean what they meant; each part is worked out once, and as far up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import pyarrow as pa
import pytest

from anabranch.algebra.expression import equals, expression, negated
from anabranch.algebra.interpret import Environment, Table, ZSet, interpret
from anabranch.algebra.relation import (
    LEAVES,
    RESERVED_PREFIX,
    WEIGHT,
    After,
    Before,
    Change,
    Column,
    Consolidate,
    Empty,
    Filter,
    Join,
    JoinKind,
    Negate,
    Output,
    Project,
    Relation,
    Stored,
    Support,
    UnionAll,
    iterate,
)
from anabranch.algebra.show import show
from anabranch.algebra.values import EvaluationError
from anabranch.algebra.walk import operators
from anabranch.delta.differentiate import change_of
from anabranch.delta.narrow import narrow
from anabranch.fuse import reduce as reduce_module
from anabranch.fuse.at_hand import work_out
from anabranch.fuse.reduce import reduced
from tests.fuse.hand import random_table, random_ticks, table_of, z_set
from tests.plans import random_relation
from tests.tables import TABLES, random_change, random_tables, tick

NO_LIMIT = 1_000_000


@dataclass
class Hand:
    """The rows at hand: of some leaves, and of what was worked out of them."""

    tables: dict[Relation, pa.Table] = field(default_factory=dict)
    made: dict[Relation, Relation] = field(default_factory=dict)
    worked_out: Counter[Relation] = field(default_factory=Counter)
    results: tuple[Relation, ...] = ()

    def known(self, relation: Relation) -> pa.Table | None:
        return self.tables.get(relation)

    def new_leaf(self, relation: Relation, rows: pa.Table) -> Relation:
        assert relation not in self.made, f"two leaves for one relation:\n{show(relation)}"
        leaf = self.made[relation] = Change(f"{RESERVED_PREFIX}hand_{len(self.made)}", relation.columns)
        self.tables[leaf] = rows
        return leaf

    def environment(self, given: Environment) -> Environment:
        """The environment of the reduced plans."""
        made = {leaf.table: Table(leaf.names, z_set(leaf, self.tables[leaf])) for leaf in self.leaves}
        return replace(given, change={**given.change, **made})

    @property
    def leaves(self) -> list[Change]:
        return [leaf for leaf in self.made.values() if isinstance(leaf, Change)]


@pytest.fixture
def hand(monkeypatch: pytest.MonkeyPatch) -> Hand:
    """Counts what is worked out."""
    watched = Hand()

    def counting(relation: Relation, inputs: list[pa.Table], limit: int) -> pa.Table | None:
        watched.worked_out[relation] += 1
        return work_out(relation, inputs, limit)

    monkeypatch.setattr(reduce_module, "work_out", counting)
    return watched


def some_leaves(rng: Random, roots: Iterable[Relation], environment: Environment) -> dict[Relation, pa.Table]:
    """Some of the tables, changes and stored rows that the plans read."""
    share = rng.choice((0.3, 0.7, 1.0))
    read = [each for each in operators(roots) if isinstance(each, Before | After | Change | Stored)]
    return {
        leaf: random_table(rng, leaf.columns, interpret(leaf, environment)) for leaf in read if rng.random() < share
    }


# ---- random plans


def check_meaning(hand: Hand, roots: Sequence[Relation], environment: Environment, limit: int, case: str) -> int:
    """The reduced plans mean the same; how many operators they have less."""
    hand.made.clear()
    hand.worked_out.clear()
    found = hand.results = reduced(roots, hand.known, hand.new_leaf, limit)
    assert set(hand.worked_out.values()) <= {1}, f"{case}: worked out twice"
    after = hand.environment(environment)
    for root, smaller in zip(roots, found, strict=True):
        assert smaller.columns == root.columns, case
        assert interpret(smaller, after) == interpret(root, environment), f"{case}\n{show(root)}\n\n{show(smaller)}"
    return sum(1 for _ in operators(roots)) - sum(1 for _ in operators(found))


def test_the_changes_of_random_nodes_keep_their_meaning(hand: Hand) -> None:
    """One plan each, of all strategies: they read stored rows too."""
    cases = less = leaves = 0
    for seed in range(350):
        rng = Random(f"reduce {seed}")
        for each in random_ticks(rng):
            hand.tables = some_leaves(rng, [each.plan], each.environment)
            limit = rng.choice((0, 3, NO_LIMIT, NO_LIMIT))
            less += check_meaning(hand, [each.plan], each.environment, limit, f"seed {seed}")
            leaves += len(hand.made)
            cases += 1
    assert cases > 250
    assert less > 1200
    assert leaves > 400


def test_many_random_changes_keep_their_meaning_together(hand: Hand) -> None:
    """Several nodes' changes over the same tables, with sub-plans in common."""
    cases = less = leaves = 0
    for seed in range(400):
        rng = Random(f"together {seed}")
        tables = random_tables(rng)
        change = random_change(rng, tables)
        changed = frozenset(name for name, table in change.items() if table.rows)
        plan = random_relation(rng, surface=False, depth=2)
        plans = [plan, random_relation(rng, surface=False), Project(plan, (Output("x", plan.columns[0].value),))]
        roots = [narrow(each) for each in (change_of(plan, changed) for plan in plans) if each is not None]
        environment = tick(tables, change)
        hand.tables = some_leaves(rng, roots, environment)
        try:
            less += check_meaning(hand, roots, environment, rng.choice((3, NO_LIMIT)), f"seed {seed}")
        except EvaluationError:
            continue
        leaves += len(hand.made)
        cases += bool(roots)
    assert cases > 250
    assert less > 1200
    assert leaves > 500


def test_plans_of_nothing_but_structure_become_one_leaf(hand: Hand) -> None:
    """All their rows are at hand, so that nothing is left for Spark."""
    found: Counter[type[Relation]] = Counter()
    kinds: Counter[str] = Counter()
    for seed in range(1000):
        rng = Random(f"structure {seed}")
        tables = random_tables(rng)
        environment = tick(tables, random_change(rng, tables))
        root = Structure(rng).relation(3)
        hand.tables = {
            leaf: random_table(rng, leaf.columns, interpret(leaf, environment))
            for leaf in iterate(root)
            if isinstance(leaf, LEAVES)
        }
        check_meaning(hand, [root], environment, NO_LIMIT, f"seed {seed}")
        (smaller,) = hand.results
        assert isinstance(smaller, Change | After | Empty), show(smaller)
        assert isinstance(smaller, Empty) or smaller in hand.tables
        found[type(smaller)] += 1
        kinds.update({f"{type(each).__name__} {getattr(each, 'kind', '')}" for each in iterate(root)})
    assert found[Change] > 300
    assert found[Empty] > 300
    assert len(kinds) == 12, kinds
    assert min(kinds.values()) > 50, kinds


class Structure:
    """Makes plans of operators that need no expression; partners are sets, so that no weight of theirs is negative."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.names = 0

    def relation(self, depth: int) -> Relation:
        if depth == 0:
            table = self.rng.choice(sorted(TABLES))
            return self.renamed((After if self.rng.random() < 0.5 else Change)(table, TABLES[table]))
        child = self.relation(depth - 1)
        makers = (Negate, Consolidate, self.filtered, self.narrowed, self.united, self.joined, self.joined, self.joined)
        return self.rng.choice(makers)(child)

    def renamed(self, child: Relation, columns: Sequence[Column] | None = None) -> Relation:
        outputs = []
        for each in child.columns if columns is None else columns:
            self.names += 1
            outputs.append(Output(f"c{self.names}", each.value))
        return Project(child, tuple(outputs))

    def filtered(self, child: Relation) -> Relation:
        flags = [each.value for each in child.columns if each.type == "boolean"]
        return Filter(child, (self.rng.choice((flags[0], negated(flags[0]))),)) if flags else Negate(child)

    def narrowed(self, child: Relation) -> Relation:
        return self.renamed(child, self.rng.sample(child.columns, self.rng.randint(1, len(child.columns))))

    def united(self, child: Relation) -> Relation:
        return UnionAll((child, self.rng.choice((Negate(child), self.renamed(child), Consolidate(child)))))

    def joined(self, left: Relation) -> Relation:
        kind = self.rng.choice([each for each in JoinKind if each is not JoinKind.FULL])
        right = self.relation(self.rng.randint(0, 1))
        if kind is not JoinKind.INNER:
            right = Support(Consolidate(right))
        pairs = [(one, two) for one in left.columns for two in right.columns if one.type == two.type]
        one, two = self.rng.choice(pairs) if pairs else (None, None)
        on = (equals(one.value, two.value, self.rng.random() < 0.5),) if one and two else ()
        return Join(left, right, kind, on)


# ---- named cases

A, B = Column("a", "bigint"), Column("b", "bigint")
C, D = Column("c", "bigint"), Column("d", "bigint")
ONE, OTHER, UNKNOWN = Change("one", (A, B)), Change("other", (C, D)), After("unknown", (C, D))
ROWS: dict[Relation, ZSet] = {ONE: {(1, 2): 1, (2, 2): -1}, OTHER: {(1, 5): 1, (3, 5): 2}}
UNKNOWN_ROWS: ZSet = {(1, 7): 1}
ENVIRONMENT = Environment(
    after={"unknown": Table(UNKNOWN.names, UNKNOWN_ROWS)},
    change={"one": Table(ONE.names, ROWS[ONE]), "other": Table(OTHER.names, ROWS[OTHER])},
)
JOINED = Join(ONE, OTHER, JoinKind.INNER, (equals(A.value, C.value),))


@pytest.fixture
def both(hand: Hand) -> Hand:
    """The rows of two leaves are at hand, those of a third are not."""
    for leaf, rows in ROWS.items():
        hand.tables[leaf] = table_of(leaf.columns, [*rows], [*rows.values()])
    return hand


def run(hand: Hand, *roots: Relation, limit: int = NO_LIMIT) -> tuple[Relation, ...]:
    """The reduced plans, which mean the same."""
    check_meaning(hand, roots, ENVIRONMENT, limit, "")
    return hand.results


def test_a_leaf_stays_what_it_is(both: Hand) -> None:
    assert run(both, ONE, UNKNOWN) == (ONE, UNKNOWN)
    assert not both.made


def test_only_what_is_read_becomes_a_leaf(both: Hand) -> None:
    """Three operators above each other, and one leaf, of the last."""
    top = Consolidate(Negate(JOINED))
    (found,) = run(both, top)
    assert [*both.made] == [top]
    assert found is both.made[top]


def test_what_two_plans_share_is_worked_out_once(both: Hand) -> None:
    some = Filter(JOINED, (expression("{} > 0", "boolean", A.value),))
    other = Filter(JOINED, (expression("{} > 1", "boolean", A.value),))
    one, two, third = run(both, some, other, JOINED)
    assert both.worked_out[JOINED] == 1
    assert one.children == two.children == (third,)
    assert third is both.made[JOINED]


def test_a_plan_may_be_given_twice_and_be_part_of_another(both: Hand) -> None:
    first, above, again = run(both, JOINED, Negate(JOINED), JOINED)
    assert first is again is both.made[JOINED]
    assert above is both.made[Negate(JOINED)]


def test_an_input_may_be_read_twice_by_one_operator(both: Hand) -> None:
    twice = UnionAll((JOINED, JOINED))
    (found,) = run(both, twice)
    assert [*both.made] == [twice]
    assert z_set(found, both.tables[found]) == {(1, 2, 1, 5): 2}


def test_what_reads_unknown_rows_stays_and_what_is_below_it_is_worked_out(both: Hand) -> None:
    keys = Support(Project(ONE, (Output("key", A.value),)))
    read = Join(UNKNOWN, keys, JoinKind.SEMI, (equals(C.value, keys.columns[0].value),))
    (found,) = run(both, Consolidate(read))
    assert show(found) == show(Consolidate(Join(UNKNOWN, both.made[keys], JoinKind.SEMI, read.on)))


def test_expressions_stay(both: Hand) -> None:
    computed = Project(JOINED, (Output("x", expression("{} + {}", "bigint", A.value, D.value)),))
    (found,) = run(both, Negate(computed))
    assert found == Negate(Project(both.made[JOINED], computed.outputs))


def test_what_would_be_too_large_stays(both: Hand) -> None:
    every = Join(Negate(ONE), Negate(OTHER), JoinKind.INNER, ())
    (found,) = run(both, Negate(every), limit=3)
    assert found == Negate(Join(both.made[Negate(ONE)], both.made[Negate(OTHER)], JoinKind.INNER, ()))
    (found,) = run(both, Negate(every), limit=4)
    assert found is both.made[Negate(every)]


def test_partners_that_are_no_bag_stay(both: Hand) -> None:
    """Whether they are is known of the rows, not of the plan."""
    keys = Negate(Negate(ONE))
    relation = Join(OTHER, keys, JoinKind.ANTI, (equals(C.value, A.value),))
    assert reduced([relation], both.known, both.new_leaf, NO_LIMIT) == (
        Join(OTHER, both.made[keys], JoinKind.ANTI, relation.on),
    )
    both.made.clear()
    both.tables[ONE] = table_of(ONE.columns, [(1, 2), (1, 2)], [2, -1])
    assert reduced([relation], both.known, both.new_leaf, NO_LIMIT) == (both.made[relation],)


def test_nothing_at_hand_ends_what_comes_of_it(both: Hand) -> None:
    none = Change("none", (Column("e", "bigint"),))
    both.tables[none] = table_of(none.columns, [], [])
    joined = Join(UNKNOWN, none, JoinKind.SEMI, (equals(C.value, none.columns[0].value),))
    without = Join(UNKNOWN, none, JoinKind.ANTI, joined.on)
    found = reduced([none, joined, without, UnionAll((UNKNOWN, Negate(joined)))], both.known, both.new_leaf, NO_LIMIT)
    assert found == (Empty(none.columns), Empty(joined.columns), UNKNOWN, UNKNOWN)
    assert not both.made


def test_rows_of_more_than_leaves_may_be_at_hand(both: Hand) -> None:
    """An operator whose rows are known is not worked out again."""
    both.tables[JOINED] = table_of(JOINED.columns, [(1, 2, 1, 5)], [1])
    (found,) = run(both, Filter(JOINED, (expression("{} > 0", "boolean", A.value),)))
    assert found.children == (JOINED,)
    assert JOINED not in both.worked_out


def test_a_bag_stays_a_bag(both: Hand) -> None:
    """A leaf of rows without weights has none."""
    bag = Change("bag", (A, B))
    both.tables[bag] = table_of(bag.columns, [(1, 2), (1, 2)])
    (found,) = reduced([UnionAll((bag, bag))], both.known, both.new_leaf, NO_LIMIT)
    assert WEIGHT not in both.tables[found].column_names
    assert both.tables[found].num_rows == 4
