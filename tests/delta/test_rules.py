"""Every operator of the kernel has a rule; the examples of the rules; what the plan of a change holds and does not."""

from __future__ import annotations

import pytest

from anabranch.algebra.expression import equals
from anabranch.algebra.interpret import Environment, Table, ZSet, interpret
from anabranch.algebra.relation import (
    KERNEL,
    After,
    Aggregate,
    Before,
    Change,
    Column,
    Distinct,
    Filter,
    Join,
    JoinKind,
    Negate,
    Output,
    Project,
    Relation,
    Scan,
    SetOperation,
    UnionAll,
    iterate,
)
from anabranch.algebra.show import show
from anabranch.algebra.walk import leaves
from anabranch.delta.choose import describe_part, notes_of, refusals_of
from anabranch.delta.differentiate import RULES, change_of
from anabranch.delta.state import PART_PREFIX, Strategy, delta, layout, moving_tables
from tests.plans import aggregation, plus

KEY_VALUE = (Column("k", "bigint"), Column("x", "bigint"))


def table(name: str) -> Relation:
    """A table whose columns are named after it."""
    outputs = (Output(f"{name}_{each.name}", each.value) for each in KEY_VALUE)
    return Project(Scan(name, KEY_VALUE), tuple(outputs))


def chain(width: int, kind: JoinKind = JoinKind.INNER) -> Relation:
    """t1 joined with t2 joined with t3 ..., each on the value of the one before."""
    joined = table("t1")
    for number in range(2, width + 1):
        right = table(f"t{number}")
        on = equals(joined.column(f"t{number - 1}_x").value, right.column(f"t{number}_k").value)
        joined = Join(joined, right, kind, (on,))
    return joined


def names(width: int) -> frozenset[str]:
    return frozenset(f"t{number}" for number in range(1, width + 1))


def test_every_operator_of_the_kernel_has_a_rule() -> None:
    assert set(RULES) == set(KERNEL)


def test_operators_above_the_kernel_are_refused_by_the_lack_of_a_rule() -> None:
    assert SetOperation not in RULES


def changed(plan: Relation, before: dict[str, ZSet], change: dict[str, ZSet]) -> ZSet:
    tables = {name: Table(("k", "x"), rows) for name, rows in before.items()}
    moved = {name: Table(("k", "x"), rows) for name, rows in change.items()}
    after = plus(tables, moved)
    found = change_of(plan, frozenset(name for name, rows in change.items() if rows))
    return {} if found is None else interpret(found, Environment(before=tables, after=after, change=moved))


def test_inner_join_example() -> None:
    assert changed(chain(2), {"t1": {(7, 1): 1}, "t2": {}}, {"t1": {}, "t2": {(1, 9): 1}}) == {(7, 1, 1, 9): 1}


def test_new_on_both_sides_counts_once() -> None:
    assert changed(chain(2), {"t1": {}, "t2": {}}, {"t1": {(7, 1): 1}, "t2": {(1, 9): 2}}) == {(7, 1, 1, 9): 2}


def test_left_join_example() -> None:
    plan = chain(2, JoinKind.LEFT)
    found = changed(plan, {"t1": {(7, 1): 1}, "t2": {}}, {"t1": {}, "t2": {(1, 9): 1}})
    assert found == {(7, 1, 1, 9): 1, (7, 1, None, None): -1}


def test_key_moves_while_its_partner_goes() -> None:
    plan = chain(2, JoinKind.FULL)
    before = {"t1": {(7, 1): 1}, "t2": {(1, 9): 1}}
    found = changed(plan, before, {"t1": {(7, 1): -1, (7, 2): 1}, "t2": {(1, 9): -1}})
    assert found == {(7, 1, 1, 9): -1, (7, 2, None, None): 1}


def test_keyed_example() -> None:
    rows = table("t1")
    most = Aggregate(rows, ("t1_k",), (aggregation("most", "max", rows.column("t1_x").value, "bigint"),))
    found = changed(most, {"t1": {(1, 5): 1, (1, 7): 1, (2, 3): 1}}, {"t1": {(1, 7): -1}})
    assert found == {(1, 5): 1, (1, 7): -1}


def test_global_row_never_dies() -> None:
    rows = table("t1")
    sums = Aggregate(rows, (), (aggregation("total", "sum", rows.column("t1_x").value, "bigint"),))
    assert changed(sums, {"t1": {(1, 5): 1}}, {"t1": {(1, 5): -1}}) == {(None,): 1, (5,): -1}


def test_terms_of_unchanged_tables_are_not_generated() -> None:
    change = change_of(chain(8), frozenset({"t3"}))
    assert change is not None
    assert [each.table for each in leaves(change) if isinstance(each, Change)] == ["t3"]
    assert not any(isinstance(each, Before) for each in leaves(change))
    assert not any(isinstance(each, UnionAll) for each in iterate(change))


def test_nothing_changed_is_no_plan() -> None:
    assert change_of(chain(3), frozenset({"elsewhere"})) is None
    assert change_of(chain(3), frozenset()) is None


def test_eight_changed_tables_are_eight_terms() -> None:
    change = change_of(chain(8), names(8))
    assert change is not None
    assert _terms(change) == 8
    assert sum(isinstance(each, Change) for each in iterate(change)) == 8


def _terms(relation: Relation) -> int:
    """The terms of the sum once products are multiplied out; what holds no change is a factor, not a term."""
    match relation:
        case Change():
            return 1
        case UnionAll(inputs=inputs):
            return sum(_terms(each) for each in inputs)
        case Project(child=child) | Filter(child=child) | Negate(child=child):
            return _terms(child)
        case Join(left=left, right=right):
            return max(_terms(left), 1) * max(_terms(right), 1) if _terms(left) or _terms(right) else 0
    return 0


def test_telescoped_versions() -> None:
    """In the term of one table, those before it are read before the tick, those behind it after."""
    change = change_of(chain(3), names(3))
    assert change is not None
    found = {(type(each).__name__, each.table) for each in leaves(change) if isinstance(each, Before | After)}
    assert found == {("Before", "t1"), ("Before", "t2"), ("After", "t2"), ("After", "t3")}


@pytest.mark.parametrize("kind", list(JoinKind))
def test_terms_are_combined_by_sum_never_by_distinct(kind: JoinKind) -> None:
    for part in layout(chain(2, kind)):
        change = delta(part, names(2))
        assert change is not None
        assert not any(isinstance(each, Distinct) for each in iterate(change))
        assert show(change).splitlines()[-1].split(" := ")[1].startswith("Consolidate")


def test_unchanged_sub_plan_is_one_object_before_and_after() -> None:
    change = change_of(chain(4, JoinKind.LEFT), frozenset({"t4"}))
    assert change is not None
    assert {each.table for each in leaves(change) if isinstance(each, Before)} == {"t4"}


def _summed(rows: Relation, key: str, value: str) -> Relation:
    return Aggregate(rows, (key,), (aggregation("total", "sum", rows.column(value).value, "bigint"),))


def test_parts_and_strategies() -> None:
    inner = _summed(table("t1"), "t1_k", "t1_x")
    other = table("t2")
    joined = Join(other, inner, JoinKind.LEFT, (equals(other.column("t2_k").value, inner.column("t1_k").value),))
    nested, visible = layout(joined)
    assert (nested.name, nested.strategy, visible.name, visible.strategy) == ("1", Strategy.MERGE, "", Strategy.LINEAR)
    assert visible.visible == joined.names
    assert {each.table for each in leaves(visible.relation) if isinstance(each, Scan)} == {"t2", PART_PREFIX + "1"}
    assert moving_tables((nested, visible), frozenset({"t1"})) == {"t1", "part:1", "part:"}
    assert moving_tables((nested, visible), frozenset({"t2"})) == {"t2", "part:"}


def test_a_shared_sub_plan_is_one_part() -> None:
    inner = _summed(table("t1"), "t1_k", "t1_x")
    again = Project(inner, tuple(Output(f"other_{each.name}", each.value) for each in inner.columns))
    joined = Join(inner, again, JoinKind.INNER, (equals(inner.column("t1_k").value, again.column("other_t1_k").value),))
    assert len(layout(joined)) == 2


def test_layout_of_a_table_as_it_is() -> None:
    (part,) = layout(Scan("query", KEY_VALUE))
    assert part.strategy is Strategy.LINEAR
    assert part.columns == KEY_VALUE


def test_visible_columns_may_be_fewer() -> None:
    (part,) = layout(table("t1"), ("t1_x",))
    assert part.visible == ("t1_x",)


def test_a_random_value_is_refused() -> None:
    rows = table("t1")
    random = rows.column("t1_k").value
    random = type(random)(("rand() < ", *random.parts), "boolean", deterministic=False)
    (refusal,) = refusals_of(Filter(rows, (random,)))
    assert refusal.code == "NONDETERMINISTIC_FUNCTION"
    assert "rand() < t1_k" in refusal.construct
    assert refusals_of(rows) == ()


def test_explain_says_how_each_part_moves() -> None:
    parts = layout(_summed(table("t1"), "t1_k", "t1_x"))
    assert describe_part(parts[0]).startswith("the table itself (Aggregate), MERGE: stored counts")
    assert not any("UNRESTRICTED_READ" in line for line in notes_of(parts))
