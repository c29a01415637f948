"""The tests catch wrong rules: each fault is planted by name and must be found by the same checks that pass without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from anabranch.algebra.expression import Expression, equals, expression
from anabranch.algebra.relation import (
    Column,
    Consolidate,
    Filter,
    Join,
    JoinKind,
    Negate,
    Project,
    Relation,
    Support,
    UnionAll,
    Weigh,
    Window,
)
from anabranch.delta import build, differentiate, merge, restrict, slots, strategy, top
from anabranch.delta.parts import Part, Strategy
from anabranch.delta.restriction import Pushed, Restriction
from anabranch.delta.rules import outer_join
from anabranch.delta.versions import Versions
from tests.delta.families import FAMILIES, change_of_tables, tables_of
from tests.delta.harness import Tally, WrongError, check_change, check_node
from tests.plans import random_relation

Plant = Callable[[pytest.MonkeyPatch], None]
TERM = "__ab_planted_weight"


def wrong_version_in_a_join_term(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(join: Join, versions: Versions) -> Relation:
        left = replace(join, left=versions.change(join.left), right=versions.after(join.right))
        right = replace(join, left=versions.after(join.left), right=versions.change(join.right))
        return UnionAll((left, right))

    monkeypatch.setattr(differentiate, "delta_of_join", wrong)


def lost_retraction(monkeypatch: pytest.MonkeyPatch) -> None:
    right = differentiate.delta_of_keyed

    def wrong(relation: Any, versions: Versions) -> Relation:
        change = right(relation, versions)
        assert isinstance(change, UnionAll)
        return change.inputs[0]

    monkeypatch.setattr(differentiate, "delta_of_keyed", wrong)


def distinct_instead_of_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    def signed(terms: Relation, test: str) -> Relation:
        weight = Column(TERM, "bigint").value
        kept = Filter(Weigh(terms, TERM), (expression(f"{{}} {test} 0", "boolean", weight),))
        return Support(build.pick(kept, terms.names))

    def wrong(part: Part, versions: Versions) -> Relation:
        terms = versions.change(part.relation)
        return Consolidate(UnionAll((signed(terms, ">"), Negate(signed(terms, "<")))))

    monkeypatch.setitem(strategy.DELTA, Strategy.LINEAR, wrong)


def key_set_without_nulls(monkeypatch: pytest.MonkeyPatch) -> None:
    _only_keys_where(monkeypatch, lambda keys: [expression("{} IS NOT NULL", "boolean", key) for key in keys])


def key_set_without_deletes(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = Column(build.TERM_WEIGHT, "bigint").value
    _only_keys_where(monkeypatch, lambda keys: [expression("{} > 0", "boolean", weight)])


def _only_keys_where(monkeypatch: pytest.MonkeyPatch, tests: Callable[[list[Expression]], list[Expression]]) -> None:
    right = build.key_set

    def wrong(relation: Relation, values: list[Expression]) -> Support:
        made = right(relation, values)
        assert isinstance(made.child, Project)
        kept = Filter(made.child.child, tuple(tests(list(values))))
        return replace(made, child=replace(made.child, child=kept))

    monkeypatch.setattr(build, "key_set", wrong)


def residual_on_as_where(monkeypatch: pytest.MonkeyPatch) -> None:
    right = differentiate.delta_of_outer_join

    def wrong(join: Join, versions: Versions) -> Relation:
        residual = tuple(each for each in join.on if each.equality is None)
        if join.kind is not JoinKind.LEFT or not residual:
            return right(join, versions)
        return Filter(right(replace(join, on=tuple(each for each in join.on if each.equality)), versions), residual)

    monkeypatch.setattr(differentiate, "delta_of_outer_join", wrong)


def not_in_as_not_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Touched are then only the rows that are equal to a changed one, not those that may be, because of NULL."""
    right = outer_join._touched

    def wrong(join: Join, versions: Versions) -> Relation:
        if join.kind is JoinKind.ANTI and len(join.on) == 1 and "coalesce" in str(join.on[0]):
            one, two = sorted(join.on[0].columns, reverse=True)
            same = equals(join.left.column(one).value, join.right.column(two).value)
            join = replace(join, on=(same,))
        return right(join, versions)

    monkeypatch.setattr(outer_join, "_touched", wrong)


def count_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row without a match is lost instead of padded."""

    def wrong(join: Join, versions: Versions) -> Relation:
        inner = replace(join, kind=JoinKind.INNER)
        return differentiate.delta_of_join(inner, versions) if join.kind is JoinKind.LEFT else right(join, versions)

    right = differentiate.delta_of_outer_join
    monkeypatch.setattr(differentiate, "delta_of_outer_join", wrong)


def dying_global_row(monkeypatch: pytest.MonkeyPatch) -> None:
    right = merge._merged

    def wrong(*arguments: Any) -> Relation:
        return Filter(right(*arguments), (expression("{} > 0", "boolean", Column("__ab_count", "bigint").value),))

    monkeypatch.setattr(merge, "_merged", wrong)


def naive_top_n_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    """While there is room, every row that comes is kept, although better ones may exist that are not."""
    right = top._stored

    def wrong(part: Part, edge: bool) -> Relation:
        known = top._known_top(part)
        kept = top._placed(top._core_rows(right(part, False), known), known)
        full = Filter(kept, (expression(f"{{}} >= {known.filled}", "boolean", top._total()),))
        return Join(right(part, True), top._bounds(full, known), JoinKind.SEMI, ()) if edge else right(part, False)

    monkeypatch.setattr(top, "_stored", wrong)


def restriction_through_a_window_partitioned_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(restrictor: Any, window: Window, restriction: Restriction) -> Pushed:
        return restrict._into_child(
            restrictor, window, restriction, restrict._those_in(restriction, window.child.names)
        )

    monkeypatch.setitem(restrict._PUSH, Window, wrong)


def float_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    def weighted(value: Expression, weight: Expression) -> Expression:
        return expression("{} * CAST({} AS double)", "double", value, weight)

    monkeypatch.setattr(slots, "is_mergeable_sum", lambda argument, result: True)
    monkeypatch.setattr(slots, "sum_type", lambda type: "double")
    monkeypatch.setattr(slots, "summand", lambda value: value)
    monkeypatch.setattr(slots, "weighted", weighted)


def extreme_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "_with_extremes", lambda merged, known, child: merged)


def group_that_never_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    right = merge._merged

    def wrong(*arguments: Any) -> Relation:
        merged = right(*arguments)
        return merged.child if isinstance(merged, Filter) else merged

    monkeypatch.setattr(merge, "_merged", wrong)


FAULTS: tuple[Plant, ...] = (
    wrong_version_in_a_join_term,
    lost_retraction,
    distinct_instead_of_sum,
    key_set_without_nulls,
    key_set_without_deletes,
    residual_on_as_where,
    not_in_as_not_exists,
    count_bug,
    dying_global_row,
    naive_top_n_edge,
    restriction_through_a_window_partitioned_otherwise,
    float_merge,
    extreme_not_read_again,
    group_that_never_dies,
)


@pytest.fixture(autouse=True)
def no_spare_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top, "SPARE_ROWS", 0)


def _run_checks() -> None:
    """The checks of the traps and of the random tests, some of each."""
    for family in FAMILIES:
        rng = Random(family.name)
        check_change(family.plan, rng, 60, Tally(), tables_of, change_of_tables)
        check_node(family.plan, family.plan, rng, 60, Tally(), tables_of, change_of_tables)
    for seed in range(120):
        rng = Random(f"fault {seed}")
        plan = random_relation(rng, surface=False, depth=2 + seed % 3)
        check_change(plan, rng, 12, Tally())
        check_node(plan, plan, rng, 8, Tally())


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_fault_is_caught(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(WrongError):
        _run_checks()


def test_no_fault_no_failure() -> None:
    _run_checks()
