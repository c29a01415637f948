"""Plans cut into waves mean what the plans meant; tables are scanned seldom; plans stay small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from random import Random

import pyarrow as pa
import pytest

from anabranch.algebra.expression import equals, expression
from anabranch.algebra.interpret import Environment, NotABagError, Table, ZSet, interpret
from anabranch.algebra.relation import (
    FILE,
    IS_THERE,
    LEAVES,
    POSITION,
    ROWID,
    WAS_THERE,
    After,
    Aggregate,
    Before,
    Change,
    Column,
    Consolidate,
    Filter,
    Join,
    JoinKind,
    Output,
    Project,
    Relation,
    Scan,
    Stored,
    UnionAll,
    Weigh,
    iterate,
)
from anabranch.algebra.values import EvaluationError
from anabranch.algebra.walk import transform, tree_size
from anabranch.delta import keyed_state, merge
from anabranch.delta.build import keys_of
from anabranch.delta.differentiate import change_of
from anabranch.delta.narrow import narrow
from anabranch.delta.parts import Part
from anabranch.delta.rules import keyed, outer_join
from anabranch.delta.state import delta, layout
from anabranch.fuse import near as near_module
from anabranch.fuse import waves as waves_module
from anabranch.fuse.reads import Read
from anabranch.fuse.scan import RawLeaf, Versions, with_rowid
from anabranch.fuse.steps import Piece, Step
from anabranch.fuse.tables import WORTH_WAITING, Near
from anabranch.fuse.waves import Cutter
from tests.delta.harness import Node, Tally
from tests.plans import aggregation, random_relation
from tests.tables import TABLES, VALUES, plus, random_change, random_tables, tick

FLAGS = (Column(WAS_THERE, "boolean"), Column(IS_THERE, "boolean"))
ADDRESS = (Column(FILE, "string"), Column(POSITION, "bigint"))


def told(rows: pa.Table) -> pa.Table:
    """Which rows of files are there; here nobody asks, since the files are not read."""
    return rows


@dataclass
class TestTables:
    """Tables that are all in files, of the same size; both versions are one leaf."""

    __test__ = False
    size: int = 10
    sizes: dict[str, int] = field(default_factory=dict)
    near: dict[str, Near] = field(default_factory=dict)
    rows_per_key: float = inf
    here: frozenset[str] = frozenset()
    environment: Environment | None = None

    def is_local(self, table: Relation) -> bool:
        return "~" in (table.part if isinstance(table, Stored) else getattr(table, "table", ""))

    def rows(self, table: Before | After) -> int:
        return self.sizes.get(table.table, self.size)

    def is_indexed(self, table: Relation, column: str) -> bool:
        return False

    def raw(self, versions: Versions, columns: frozenset[str], reads: Sequence[Read]) -> RawLeaf | None:
        if versions.after is None or self.rows_per_key == inf:
            return None
        return RawLeaf((After(f"{versions.after.table}/files", (*versions.after.columns, *ADDRESS)),), told)

    def covers(self, known: Relation, asked: Relation, null_safe: bool) -> bool:
        if self.environment is None:
            return False
        keys, more = (interpret(each, self.environment) for each in (known, asked))
        return all(row in keys if row != (None,) else not null_safe for row in more)

    def rows_by(self, table: Before | After, column: str, keys: Relation) -> float:
        return self.rows_per_key

    def is_here_as_a_whole(self, table: Before | After) -> bool:
        return table.table in self.here

    def has_null(self, relation: Relation) -> tuple[bool, ...]:
        return (True,) * len(relation.columns)

    def with_rowid(self, stored: Stored) -> Stored:
        return with_rowid(stored)

    def both(self, before: Before, after: After) -> After | None:
        return After(f"{after.table}&", after.columns + FLAGS)


def run(
    roots: list[Relation],
    environment: Environment,
    tables: TestTables,
    at_once: bool = True,
    ghosts: Random | None = None,
) -> tuple[list[ZSet], list[list[Step]]]:
    """The roots' rows, each wave worked out from the leaves that the waves before it have made.

    Not `at_once`: one more root joins after every wave, and each is taken out as soon as it is done.
    `ghosts`: each job sees terms that cancel and that the others may not see.
    """
    before, after, change = dict(environment.before), dict(environment.after), dict(environment.change)
    stored = dict(environment.stored)
    for name in environment.after:
        after[f"{name}&"] = _both(environment.before[name], environment.after[name])
    cutter, waves = Cutter((), tables), []
    to_come, under_way = list(enumerate(roots)), list[int]()
    done: dict[int, ZSet] = {}
    while len(done) < len(roots):
        joining, to_come = (to_come, []) if at_once else (to_come[:1], to_come[1:])
        cutter.add([root for _, root in joining])
        under_way += [place for place, _ in joining]
        now = tables.environment = Environment(environment.tables, before, after, change, stored)
        steps = cutter.next_wave(tuple)
        are_done = cutter.are_done if steps else (True,) * len(under_way)
        made = [(step, _seen(_way(step), now, ghosts)) for step in steps]
        empty: list[Relation] = []
        for step, rows in made:
            for piece in step.pieces:
                leaf, found = piece.leaf, _piece(rows, step, piece)
                place = {Before: before, After: after, Change: change, Stored: stored}[type(leaf)]
                place[leaf.part if isinstance(leaf, Stored) else leaf.table] = Table(leaf.names, found)
                if not found:
                    empty.append(leaf)
        cutter.found_empty(empty)
        waves += [list(steps)] if steps else []
        last = Environment(environment.tables, before, after, change, stored)
        finished = {place for place, is_done in enumerate(are_done) if is_done}
        done |= {under_way[place]: _seen(cutter.roots[place], last, ghosts) for place in finished}
        cutter.keep(set(range(len(under_way))) - finished)
        under_way = [each for place, each in enumerate(under_way) if place not in finished]
    return [done[place] for place in range(len(roots))], waves


def _seen(relation: Relation, environment: Environment, ghosts: Random | None) -> ZSet:
    """The rows of a job. Where weights are looked at, it may see a row come and go besides, unless summed up.

    Leaves always are.
    """
    change = dict(environment.change)

    def with_ghosts(each: Relation) -> Relation:
        if ghosts is None or not isinstance(each, Weigh) or isinstance(each.child, (Consolidate, *LEAVES)):
            return each
        name = f"ghosts {len(change)}"
        row = tuple(ghosts.choice(VALUES.get(column.type, (None,))) for column in each.child.columns)
        change[name] = Table(each.names, {(*row, 1): 1, (*row, -1): 1} if ghosts.random() < 0.5 else {})
        return UnionAll((each, Change(name, each.columns)))

    seen = transform(relation, with_ghosts)
    return interpret(seen, replace(environment, change=change))


def _way(step: Step) -> Relation:
    """Over rows that are near, if there are such."""
    return step.relation if step.raw is None or step.raw.told is told else step.raw.relation


def _both(before: Table, after: Table) -> Table:
    """Every row of either version with two flags."""
    rows: ZSet = {}
    for row in {**before.rows, **after.rows}:
        was, is_now = before.rows.get(row, 0), after.rows.get(row, 0)
        common = min(was, is_now)
        weighted = [((*row, True, True), common), ((*row, True, False), was - common)]
        rows |= {each: weight for each, weight in [*weighted, ((*row, False, True), is_now - common)] if weight}
    return Table((*after.names, WAS_THERE, IS_THERE), rows)


def _piece(rows: ZSet, step: Step, piece: Piece) -> ZSet:
    names = step.relation.names
    picked = [names.index(each) for each in piece.columns]
    kept: ZSet = {}
    for row, weight in rows.items():
        if all(row[names.index(flag)] is True for flag in piece.flags):
            part = tuple(row[place] for place in picked)
            kept[part] = kept.get(part, 0) + weight
    return {row: weight for row, weight in kept.items() if weight}


@dataclass(frozen=True)
class Case:
    """Several nodes' changes over random tables, and what they come to."""

    roots: list[Relation]
    environment: Environment
    expected: list[ZSet]
    sizes: dict[str, int]


def random_case(rng: Random) -> Case | None:
    """None where a plan raises on what there is."""
    tables = random_tables(rng)
    change = random_change(rng, tables)
    changed = frozenset(name for name, table in change.items() if table.rows)
    plans = [change_of(random_relation(rng, surface=False), changed) for _ in range(3)]
    roots = [narrow(each) for each in plans if each is not None]
    environment = tick(tables, change)
    try:
        expected = [interpret(root, environment) for root in roots]
    except (EvaluationError, NotABagError):
        return None
    return Case(roots, environment, expected, {name: rng.choice((10, 100)) for name in tables})


@pytest.fixture
def cut_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every shared sub-plan is cut, however small; large tables wait."""
    monkeypatch.setattr(waves_module, "WORTH_SHARING", 2)
    for module in (waves_module, near_module):
        monkeypatch.setattr(module, "WORTH_WAITING", 50)


@pytest.mark.usefixtures("cut_small")
def test_waves_keep_the_meaning_of_random_plans() -> None:
    """Several nodes' changes are cut together, all at once or one joining after the other."""
    waves_made = cases = near = 0
    for seed in range(1500):
        rng = Random(seed)
        case = random_case(rng)
        if case is None:
            continue
        roots, environment, expected, sizes = case.roots, case.environment, case.expected, case.sizes
        found, waves = run(roots, environment, TestTables(sizes=sizes))
        assert found == expected, f"seed {seed}"
        tables_near = TestTables(
            sizes=sizes, rows_per_key=1, here=frozenset(name for name in sizes if rng.random() < 0.2)
        )
        assert run(roots, environment, tables_near)[0] == expected, f"seed {seed}, with rows that are near"
        near += len(tables_near.near)
        assert run(roots, environment, TestTables(sizes=sizes), at_once=False)[0] == expected, (
            f"seed {seed}, one by one"
        )
        waves_made += len(waves)
        cases += bool(roots)
    assert cases > 500
    assert waves_made > 500
    assert near > 100


def is_right_with_ghosts(seed: int) -> bool:
    rng = Random(seed)
    case = random_case(rng)
    if case is None:
        return True
    return run(case.roots, case.environment, TestTables(sizes=case.sizes), ghosts=rng)[0] == case.expected


@dataclass
class NodeInWaves(Node):
    """A stream table whose parts are worked out in waves, by jobs that see different terms that cancel."""

    ghosts: Random = field(default_factory=Random)

    def _change(self, part: Part, moving: frozenset[str], environment: Environment, tally: Tally | None) -> ZSet:
        change = delta(part, moving)
        if change is None:
            return {}
        rows = {(*row, number): 1 for number, row in enumerate(total_copies(self.stored[part.name]))}
        stored = {part.name: Table((*(each.name for each in part.columns), ROWID), rows)}
        (found,), _ = run([narrow(change)], replace(environment, stored=stored), TestTables(), ghosts=self.ghosts)
        return found


def total_copies(rows: ZSet) -> list[tuple[object, ...]]:
    return [row for row, weight in rows.items() for _ in range(weight)]


def is_kept_right_with_ghosts(seed: int, kernel: Relation | None = None, ticks: int = 4) -> bool:
    rng = Random(seed)
    kernel, tables = kernel or random_relation(rng, surface=False), random_tables(rng)
    node = NodeInWaves(kernel, layout(kernel), ghosts=rng)
    try:
        node.fill(tables)
        for _ in range(ticks):
            change = random_change(rng, tables)
            node.tick(tables, change)
            tables = plus(tables, change)
            if node.visible != interpret(kernel, Environment(tables=tables)):
                return False
    except EvaluationError:
        return True
    return True


@pytest.mark.usefixtures("cut_small")
def test_jobs_need_not_agree_on_terms_that_cancel() -> None:
    assert [seed for seed in range(300) if not is_right_with_ghosts(seed)] == []
    assert [seed for seed in range(700) if not is_kept_right_with_ghosts(seed)] == []


def test_jobs_need_not_agree_on_an_extreme_that_comes_and_goes() -> None:
    """The least value of a sum of tables: a job that takes it for gone and one that does not read the group again."""
    both = UnionAll(tuple(_as_group_and_value(Scan(name, TABLES[name])) for name in ("t", "u")))
    kernel = Aggregate(both, ("group",), (aggregation("least", "min", both.column("value").value, "bigint"),))
    assert [seed for seed in range(200) if not is_kept_right_with_ghosts(seed, kernel)] == []


def _as_group_and_value(scan: Scan) -> Relation:
    group, value, *_ = scan.columns
    return Project(scan, (Output("group", group.value), Output("value", value.value)))


@pytest.mark.usefixtures("cut_small")
def test_keys_of_terms_that_cancel_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault that took out a group in one job and did not put it back in the next."""
    for module in (keyed, outer_join, keyed_state, merge):
        monkeypatch.setattr(module, "touched_keys", keys_of)
    assert any(not is_kept_right_with_ghosts(seed) for seed in range(1000))


def chain(width: int, first: int = 0) -> Relation:
    """A join of several tables, each with the next."""
    plan: Relation | None = None
    for number in range(first, first + width):
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


def change_of_chain(width: int, *changed: int, first: int = 0) -> Relation:
    change = change_of(chain(width, first), frozenset(f"t{number}" for number in changed))
    assert change is not None
    return narrow(change)


def waves_of(roots: list[Relation], tables: TestTables | None = None) -> tuple[list[tuple[Step, ...]], Cutter]:
    cutter, waves = Cutter(tuple(roots), tables or TestTables()), []
    while steps := cutter.next_wave(tuple):
        waves.append(steps)
    return waves, cutter


def test_a_source_read_by_20_nodes_is_scanned_once() -> None:
    """Twenty plans that read the same tables by keys scan each of them once, not once a plan."""
    plans: list[Relation] = []
    for number in range(20):
        plan = change_of_chain(4, 0)
        plans.append(Project(plan, tuple(Output(f"{each.name}_{number}", each.value) for each in plan.columns)))
    waves, cutter = waves_of(plans)
    assert len(waves) == 3
    assert scans(waves) == ["t1", "t2", "t3"]
    assert not any(_is_table(leaf) for root in cutter.roots for leaf in iterate(root))


def scans(waves: list[tuple[Step, ...]]) -> list[str]:
    found = []
    for wave in waves:
        for step in wave:
            found += [leaf.table for leaf in iterate(step.relation) if _is_table(leaf)]
    return found


def test_both_versions_of_a_table_are_one_scan() -> None:
    """t1 is needed as it was (for the change of t2) and as it is (for the change of t0)."""
    waves, _ = waves_of([change_of_chain(3, 0, 1, 2)])
    assert "t1&" in scans(waves)
    assert "t1" not in scans(waves)


def test_a_large_table_waits_for_all_its_reads() -> None:
    """t2 is read by the change of t1 at once, and through t1 by the change of t0: one scan, if it is large."""
    roots = [change_of_chain(3, 0), change_of_chain(2, 1, first=1)]
    small, _ = waves_of(roots)
    large, _ = waves_of(roots, TestTables(sizes={"t2": 10_000_000}))
    assert scans(small).count("t2") == 2
    assert scans(large).count("t2") == 1


def test_keys_that_changes_name_are_one_scan() -> None:
    """t1 is read by the keys that the changes of t0 and of t2 name, at two versions: one scan by both columns."""
    tables = TestTables(size=10_000_000, rows_per_key=1)
    waves, _ = waves_of([change_of_chain(3, 0, 1, 2)], tables)
    assert {name: set(near.keys) for name, near in tables.near.items()} == {"t1": {"a", "b"}}
    assert scans(waves[:1]) == ["t1&"]


def test_keys_that_many_rows_have_are_not_read_ahead() -> None:
    tables = TestTables(size=10_000_000, rows_per_key=WORTH_WAITING + 1)
    waves_of([change_of_chain(3, 0, 1, 2)], tables)
    assert tables.near == {}


def test_what_turns_out_to_be_empty_is_not_read_for() -> None:
    scan = Scan("t0", (Column("a", "bigint"), Column("b", "bigint")))
    some = Filter(scan, (expression("{} > 5", "boolean", scan.column("a").value),))
    other = Scan("t1", (Column("c", "bigint"), Column("d", "bigint")))
    plan = Join(some, other, JoinKind.INNER, (equals(some.column("b").value, other.column("c").value),))
    change = change_of(plan, frozenset({"t0"}))
    assert change is not None
    cutter = Cutter((narrow(change),), TestTables())
    (step,) = cutter.next_wave(tuple)
    cutter.found_empty([piece.leaf for piece in step.pieces])
    assert cutter.next_wave(tuple) == ()
    assert not list(cutter.roots[0].children)


def test_unchanged_tables_have_no_part_in_the_plan() -> None:
    changes = {each.table for each in iterate(change_of_chain(3, 1)) if isinstance(each, Change)}
    assert changes == {"t1"}


def test_the_same_batch_gives_the_same_waves() -> None:
    assert waves_of([change_of_chain(5, 0, 3)])[0] == waves_of([change_of_chain(5, 0, 3)])[0]


def test_wide_joins_stay_small() -> None:
    """The text given to Spark grows with the square of the width, not exponentially."""
    sizes = []
    for width in (4, 8):
        waves, cutter = waves_of([change_of_chain(width, *range(width))])
        sizes.append(max(tree_size(each) for each in (*cutter.roots, *(s.relation for w in waves for s in w))))
    assert sizes[1] < sizes[0] * 8


def _is_table(relation: Relation) -> bool:
    return isinstance(relation, Before | After) and "~" not in relation.table
