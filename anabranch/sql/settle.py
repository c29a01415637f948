"""The settled query: where Spark leaves an order open, ours is fixed, and explain says how.

first(x)        -> the value of x in the least row, rows compared by all input columns; last(x): the greatest row
collect_list(x) -> sorted; listagg(x) -> in the order of x, after the order given
max_by(x, y)    -> ties on y to the greatest x; min_by(x, y) to the least; mode(x) -> the least of the most frequent
row_number, ntile, lag, lead, ROWS frames -> ORDER BY, then all input columns
first_value, nth_value and the like over a RANGE frame -> by the row's settled place in its partition
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anabranch.algebra.expression import Expression, Part, expression
from anabranch.algebra.relation import Column
from anabranch.algebra.types import orderable
from anabranch.sql.build import Builder, joined, wrapped
from anabranch.sql.functions import APPROXIMATE, COLLECTING, FIRST_OR_LAST, JOINING
from anabranch.sql.syntax import Call, SortItem

ROW_NOTE = "{}: of the rows of a group, the {} one is taken, rows compared by all their columns"
SORTED_NOTE = "{}: the elements are sorted"
TIES_NOTE = "{}: ties are settled by the {} value"


def needs_row_order(call: Call) -> bool:
    """Whether settling the aggregate compares whole rows."""
    return call.function in FIRST_OR_LAST


def settled_aggregate(builder: Builder, call: Call, columns: Sequence[Column]) -> Expression:
    """The aggregate call as a draft with one answer; `columns` are the columns that make a row."""
    builder = replace(builder, aggregating=True)
    context, function = builder.context, call.function
    if function in APPROXIMATE:
        context.refuse("APPROXIMATE_AGGREGATE", function, call.start)
    if function in FIRST_OR_LAST:
        least = FIRST_OR_LAST[function] == "min_by"
        context.note(ROW_NOTE.format(function, "least" if least else "greatest"))
        return _by_row(builder, call, columns)
    if function in COLLECTING:
        context.note(SORTED_NOTE.format(function))
        return expression("sort_array({})", "", builder.draft(call))
    if function in JOINING:
        return builder.draft(call) if call.distinct and call.within else joined_in_order(builder, call)
    if function in ("max_by", "min_by"):
        context.note(TIES_NOTE.format(function, "greatest" if function == "max_by" else "least"))
        return _by_both(builder, call)
    if function == "mode" and len(call.arguments) == 1:
        context.note(TIES_NOTE.format(function, "least"))
        return _filtered(builder, call, expression("mode({}, true)", "", builder.draft(call.arguments[0])))
    return builder.draft(call)


def sort_value(column: Column) -> Expression:
    """Something to sort by that tells the column's values apart: its text where Spark cannot sort the type."""
    if orderable(column.type):
        return column.value
    return expression("CAST({} AS STRING)", "string", column.value)


def row_value(columns: Sequence[Column]) -> Expression:
    """The whole row as one value that can be compared."""
    values = [sort_value(each) for each in columns]
    if not values:
        return Expression(("0",), "int")
    return expression(f"struct({', '.join('{}' for _ in values)})", "", *values)


def _by_row(builder: Builder, call: Call, columns: Sequence[Column]) -> Expression:
    value = builder.draft(call.arguments[0])
    row = row_value(columns)
    if ignores_nulls(builder, call):
        row = expression("CASE WHEN {} IS NOT NULL THEN {} END", "", value, row)
    return _filtered(builder, call, expression(f"{FIRST_OR_LAST[call.function]}({{}}, {{}})", "", value, row))


def ignores_nulls(builder: Builder, call: Call) -> bool:
    """`first(x) IGNORE NULLS`, also written `first(x, true)`."""
    if call.ignore_nulls:
        return True
    second = call.arguments[1:2]
    return bool(second) and builder.context.source.slice(second[0].start, second[0].end).lower() == "true"


def _by_both(builder: Builder, call: Call) -> Expression:
    value, by = (builder.draft(each) for each in call.arguments[:2])
    (typed,) = builder.context.typed([value])
    compared = value if orderable(typed.type) else expression("CAST({} AS STRING)", "string", value)
    order = expression("CASE WHEN {} IS NOT NULL THEN struct({}, {}) END", "", by, by, compared)
    return _filtered(builder, call, expression(f"{call.function}({{}}, {{}})", "", value, order))


def joined_in_order(builder: Builder, call: Call) -> Expression:
    """listagg, its elements in the order given and then in their own."""
    builder.context.note(f"{call.function}: equal places in the order are settled by the element")
    parts: list[Part] = [*builder.span(call, call.start, call.closed), " WITHIN GROUP (ORDER BY "]
    for item in call.within:
        parts += [*wrapped(builder.draft(item.value)), direction(item), ", "]
    parts += [*wrapped(builder.draft(call.arguments[0])), ")"]
    return _filtered(builder, call, Expression(joined(parts), ""))


def direction(item: SortItem) -> str:
    """` DESC NULLS LAST`, spelled out."""
    return f" {'DESC' if item.descending else 'ASC'} NULLS {'FIRST' if item.nulls_first else 'LAST'}"


def _filtered(builder: Builder, call: Call, value: Expression) -> Expression:
    if call.filter is None:
        return value
    parts = (*value.parts, " FILTER (WHERE ", *builder.draft(call.filter).parts, ")")
    return Expression(joined(parts), "", value.deterministic)
