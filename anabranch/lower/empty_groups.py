"""Global aggregates per enclosing row: the COUNT bug, and how not to have it.

    rows(L) with A(inner(l))  =  L left-join (A by key) on key,  A's value on no input where no group is

A global aggregate has one row even for no input: COUNT is 0 there, SUM is NULL, collect_list is an empty array.
Grouping by the key makes no group for no input, so its value on no input must be put in. For the usual functions it is
a known constant; for any other it is computed, by aggregating an empty relation.
Example: `(SELECT count(*) FROM s WHERE s.k = t.k)` for t.k without partner is 0, and the left join alone says NULL.
"""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from anabranch.algebra.expression import Expression, expression
from anabranch.algebra.relation import (
    Aggregate,
    Aggregation,
    Empty,
    Join,
    JoinKind,
    Output,
    Project,
    Relation,
)
from anabranch.lower.build import extended, one_each, passing, renamed, truth
from anabranch.lower.names import FreshNames

NULL_ON_NO_INPUT = frozenset({
    "sum", "avg", "mean", "min", "max", "any_value", "first", "first_value", "last", "last_value", "max_by", "min_by",
    "mode", "median", "percentile", "bool_and", "bool_or", "every", "some", "any", "bit_and", "bit_or", "bit_xor",
    "stddev", "stddev_samp", "stddev_pop", "std", "variance", "var_samp", "var_pop", "corr", "covar_pop", "covar_samp",
    "skewness", "kurtosis",
})  # fmt: skip
ZERO_ON_NO_INPUT = frozenset(("count", "count_if", "approx_count_distinct", "regr_count"))
EMPTY_ARRAY_ON_NO_INPUT = frozenset(("collect_list", "collect_set", "array_agg"))


def with_empty_groups(
    left: Relation, grouped: Relation, on: tuple[Expression, ...], aggregate: Aggregate, names: FreshNames
) -> Relation:
    """Each row of `left` with its group's values, or with the values on no input. `on` has at most one partner.

    `grouped` has the columns of the aggregations; `aggregate` is the global aggregate they come from.
    """
    found = names.take("found")
    joined: Relation = Join(left, extended(grouped, truth(found)), JoinKind.LEFT, on)
    values = {each.name: _value_on_no_input(each) for each in aggregate.aggregations}
    if None in values.values():
        defaults, new = renamed(Aggregate(Empty(aggregate.child.columns), (), aggregate.aggregations), names)
        joined = one_each(joined, defaults)
        values |= {name: joined.column(new[name]).value for name, value in values.items() if value is None}
    outputs = tuple(_completed(each, joined, found, values[each.name]) for each in aggregate.aggregations)
    return Project(joined, passing(left.columns) + outputs)


def _completed(aggregation: Aggregation, joined: Relation, found: str, default: Expression | None) -> Output:
    value = joined.column(aggregation.name).value
    if default is None or str(default) == "NULL":
        return Output(aggregation.name, value)
    mark = joined.column(found).value
    return Output(aggregation.name, expression("CASE WHEN {} THEN {} ELSE {} END", value.type, mark, value, default))


def _value_on_no_input(aggregation: Aggregation) -> Expression | None:
    """The constant that the call returns for no input, or None where it has to be computed."""
    function, type = aggregation.function.lower(), aggregation.call.type
    if not _is_plain_call(aggregation):
        return None
    if function in NULL_ON_NO_INPUT:
        return expression("NULL", type)
    if function in ZERO_ON_NO_INPUT:
        return expression("CAST(0 AS {})", type, type)
    if function in EMPTY_ARRAY_ON_NO_INPUT:
        return expression("CAST(array() AS {})", type, type)
    return None


def _is_plain_call(aggregation: Aggregation) -> bool:
    """Whether the call is the function itself, not an expression around it."""
    node = sqlglot.parse_one(aggregation.call.text(lambda hole: "hole"), dialect="spark")
    while isinstance(node, exp.Filter | exp.IgnoreNulls | exp.WithinGroup):
        node = node.this
    written = aggregation.call.text(lambda hole: "hole").lstrip().lower()
    return isinstance(node, exp.Func) and written.startswith(f"{aggregation.function.lower()}(")
