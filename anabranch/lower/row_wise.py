"""Subqueries that have exactly one row to start from: a global aggregate, or a SELECT without FROM.

    inner(o)  =  steps (base(o))       base: one row for every o; steps: Project and Filter, which work on that row

So the base's row is put beside each enclosing row, and the steps are taken there: no second look at the enclosing rows.
A Filter becomes a mark, and nothing after it is evaluated where the mark is false.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from anabranch.algebra.expression import Expression, expression
from anabranch.algebra.holes import expressions
from anabranch.algebra.relation import (
    Aggregate,
    Column,
    Filter,
    Join,
    JoinKind,
    Output,
    Project,
    Relation,
    Values,
)
from anabranch.lower.attach import attach_by_domain, bound_columns, bound_to
from anabranch.lower.build import extended, join_apart, one_each, passing
from anabranch.lower.empty_groups import with_empty_groups
from anabranch.lower.keys import Key, keys_of, with_key_columns
from anabranch.lower.names import FreshNames
from anabranch.lower.pull_up import pull_up


@dataclass(frozen=True)
class RowWise:
    """The enclosing rows, each with the subquery's row beside it: `place[name]` is where its column `name` is.

    `present` says whether the row passed the subquery's filters; None if it has none.
    """

    relation: Relation
    place: dict[str, Column]
    present: Column | None = None

    def value(self, name: str) -> Expression:
        """The subquery's column, NULL where its row did not pass."""
        return self.guarded(self.place[name].value)

    def guarded(self, value: Expression) -> Expression:
        if self.present is None:
            return value
        return expression("CASE WHEN {} THEN {} END", value.type, self.present.value, value)


def row_wise(child: Relation, inner: Relation, names: FreshNames) -> RowWise | None:
    """The subquery beside each row of `child`, or None if it does not start from exactly one row."""
    steps: list[Project | Filter] = []
    base = inner
    while isinstance(base, Project | Filter):
        steps.append(base)
        base = base.child
    if isinstance(base, Values) and len(base.rows) == 1:
        current = _beside_values(child, base, names)
    elif isinstance(base, Aggregate) and not base.keys:
        current = _beside_aggregate(child, base, names)
    else:
        return None
    for step in reversed(steps):
        current = _after_step(child, current, step, names)
    return current


def _after_step(child: Relation, current: RowWise, step: Project | Filter, names: FreshNames) -> RowWise:
    known = {name: column.value for name, column in current.place.items()}

    def here(each: Expression) -> Expression:
        return bound_to(child, each.substitute(known))

    marks = (current.present,) if current.present is not None else ()
    if isinstance(step, Filter):
        tests = [here(each) for each in step.predicates] + [each.value for each in marks]
        passed = Output(names.take("present"), _all_true(tests))
        return replace(current, relation=extended(current.relation, passed), present=passed.column)
    outputs = {
        each.name: Output(_free_name(each.name, child, names), _guarded_step(current, here(each.value)))
        for each in step.outputs
    }
    relation = Project(current.relation, passing((*child.columns, *marks)) + tuple(outputs.values()))
    return replace(current, relation=relation, place={name: each.column for name, each in outputs.items()})


def _guarded_step(current: RowWise, value: Expression) -> Expression:
    return value if value.is_column else current.guarded(value)


def _all_true(tests: list[Expression]) -> Expression:
    template = " AND ".join("coalesce({}, false)" for _ in tests)
    return expression(template, "boolean", *tests)


def _free_name(name: str, child: Relation, names: FreshNames) -> str:
    """The name itself, or a new one if an enclosing column has it."""
    taken = name.lower() in {each.lower() for each in child.names}
    return names.take("copy") if taken else name


def _beside_values(child: Relation, base: Values, names: FreshNames) -> RowWise:
    outputs = {
        column.name: Output(_free_name(column.name, child, names), bound_to(child, value))
        for column, value in zip(base.columns, base.rows[0], strict=True)
    }
    relation = extended(child, *outputs.values())
    return RowWise(relation, {name: each.column for name, each in outputs.items()})


def _beside_aggregate(child: Relation, base: Aggregate, names: FreshNames) -> RowWise:
    bound = bound_columns(child, base)
    if not bound:
        right, place = join_apart(child, base, names)
        return RowWise(one_each(child, right), {name: right.column(new) for name, new in place.items()})
    if not any(each.outer_columns & bound for each in expressions(base)):
        pulled = pull_up(base.child, bound, names)
        keys = None if pulled is None else keys_of(pulled.conditions, bound)
        if pulled is not None and keys is not None:
            return _beside_groups(child, replace(base, child=pulled.relation), keys, names)
    attached = attach_by_domain(child, base, names)
    joined = Join(child, attached.relation, JoinKind.INNER, attached.conditions)
    return RowWise(joined, {name: attached.relation.column(attached.place[name]) for name in base.names})


def _beside_groups(child: Relation, base: Aggregate, keys: list[Key], names: FreshNames) -> RowWise:
    """The aggregate grouped by the keys, joined with the enclosing rows by them."""
    keyed, columns = with_key_columns(base.child, keys, names)
    calls = {each.name: replace(each, name=_free_name(each.name, child, names)) for each in base.aggregations}
    own = Aggregate(keyed, (), tuple(calls.values()))
    grouped = replace(own, keys=tuple(dict.fromkeys(columns)))
    place = {name: Output(_free_name(name, child, names), grouped.column(name).value) for name in grouped.keys}
    apart = Project(grouped, tuple(place.values()) + passing(each.column for each in own.aggregations))
    matches = [
        Key(place[name].column.value, bound_to(child, key.outer), key.null_safe)
        for key, name in zip(keys, columns, strict=True)
    ]
    relation = with_empty_groups(child, apart, tuple(each.condition for each in matches), own, names)
    return RowWise(relation, {name: each.column for name, each in calls.items()})
