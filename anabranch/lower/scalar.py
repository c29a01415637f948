"""Scalar subqueries.

    L with (inner)  =  L left-join inner on its correlated conditions        if inner has at most one row per row of L
                    =  L left-join (count(*), max(value) of inner by key)    else; a count above one raises

The check stands above the join, so it raises for the enclosing rows that really ask for a key with several rows, as
Spark does. Aggregates keep their value on no input (`row_wise.py`).
Example: `(SELECT price FROM p WHERE p.id = s.id)` groups p by id and raises where an id that s has occurs twice.
"""

from __future__ import annotations

from anabranch.algebra.expression import Expression, expression
from anabranch.algebra.relation import Aggregate, Apply, Join, JoinKind, Output, Project, Relation
from anabranch.lower.attach import attach, attach_by_keys, bound_columns
from anabranch.lower.build import aggregation, count_rows, join_apart, one_each, passing
from anabranch.lower.keys import conditions_on, with_key_columns
from anabranch.lower.names import FreshNames
from anabranch.lower.row_counts import at_most_one, exactly_one
from anabranch.lower.row_wise import row_wise

TOO_MANY_ROWS = "[SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one row returned by a subquery used as an expression."


def scalar_value(apply: Apply, child: Relation, inner: Relation, names: FreshNames) -> Relation:
    """`child` with the value of the subquery as one more column; `inner` is the subquery, itself lowered."""
    if not bound_columns(child, inner) and exactly_one(inner):
        right, place = join_apart(child, inner, names)
        return _with_value(apply, child, one_each(child, right), right.column(place[inner.names[0]]).value)
    beside = row_wise(child, inner, names) if bound_columns(child, inner) else None
    if beside is not None:
        return _with_value(apply, child, beside.relation, beside.value(inner.names[0]))
    if at_most_one(apply.inner):
        attached = attach(child, inner, names)
        joined = Join(child, attached.relation, JoinKind.LEFT, attached.conditions)
        return _with_value(apply, child, joined, attached.value(inner.names[0]))
    return _checked(apply, child, inner, names)


def _checked(apply: Apply, child: Relation, inner: Relation, names: FreshNames) -> Relation:
    attached, keys = attach_by_keys(child, inner, names)
    keyed, columns = with_key_columns(attached.relation, keys, names)
    value = attached.value(inner.names[0])
    rows, only = names.take("rows"), names.take("value")
    function = "any_value" if "map<" in value.type else "max"
    calls = (count_rows(rows), aggregation(only, function, value, value.type))
    grouped = Aggregate(keyed, tuple(dict.fromkeys(columns)), calls)
    kind = JoinKind.LEFT if keys else JoinKind.INNER
    joined = Join(child, grouped, kind, conditions_on(grouped, keys, columns))
    checked = expression(
        f"CASE WHEN {{}} > 1 THEN raise_error('{TOO_MANY_ROWS}') ELSE {{}} END",
        value.type,
        joined.column(rows).value,
        joined.column(only).value,
    )
    return _with_value(apply, child, joined, checked)


def _with_value(apply: Apply, child: Relation, joined: Relation, value: Expression) -> Relation:
    return Project(joined, (*passing(child.columns), Output(apply.output.name, value)))
