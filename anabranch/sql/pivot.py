"""PIVOT: grouped twice, so that a cell without rows is NULL, even for a count.

PIVOT (sum(x) FOR p IN ('a', 'b'))  over columns g, p, x
= per g: the sum of the group (g, 'a'), the sum of the group (g, 'b')

Spark does so for numbers and truth values only. Otherwise it groups once:
PIVOT (max(s), count(*) FOR p IN ('a'))
= per g: max(s where p is 'a'), count(1 where p is 'a')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anabranch.algebra.expression import Expression, expression
from anabranch.algebra.relation import Aggregate, Aggregation, Column, Relation
from anabranch.algebra.types import NUMERIC, quoted_type, shape_of
from anabranch.sql.aggregates import aggregations_of
from anabranch.sql.build import Builder, counts_rows
from anabranch.sql.context import Context, Rows
from anabranch.sql.from_syntax import Pivot
from anabranch.sql.functions import FIRST_OR_LAST
from anabranch.sql.refused import refused
from anabranch.sql.scope import Field, Scope
from anabranch.sql.statement_nodes import quoted
from anabranch.sql.subqueries import apply_subqueries
from anabranch.sql.syntax import Call, Expr, Name, Row
from anabranch.sql.syntax_walk import aggregates_in, below, strip


def pivot_rows(context: Context, rows: Rows, item: Pivot, parent: Scope | None) -> Rows:
    """One row per group of the columns that are neither pivoted nor aggregated."""
    builder = Builder(context, Scope(rows.fields, parent))
    nodes = [each.value for each in item.aggregates]
    read = _read_columns(builder, [*nodes, *item.columns])
    keys = [each for each in rows.fields if not each.hidden and each.column.name not in read]
    schema = pivot_schema(context, rows, context.source.slice(item.clause, item.clause_end))
    relation = apply_subqueries(builder, rows.relation, nodes)
    pivot_drafts = [builder.draft(each) for each in item.columns]
    relation, pivots = context.extended(relation, [("pivot", each) for each in pivot_drafts])
    conditions = [_is_value(builder, each.value, pivots) for each in item.values]
    names = tuple(each.column.name for each in keys)
    if _fit_in_cells(schema[len(keys) :]):
        pivoted, columns = _grouped_by_cell(builder, relation, names, pivots, nodes, conditions)
    else:
        pivoted, columns = _grouped_once(builder, relation, names, nodes, conditions)
    shown = [*(each.column for each in keys), *columns]
    return Rows(pivoted, tuple(Field(each.name, column) for each, column in zip(schema, shown, strict=True)))


def _fit_in_cells(columns: Sequence[Column]) -> bool:
    return all(shape_of(each.type).base in (*NUMERIC, "boolean") for each in columns)


def _grouped_by_cell(
    builder: Builder,
    relation: Relation,
    keys: tuple[str, ...],
    pivots: list[Column],
    nodes: list[Expr],
    conditions: list[Expression],
) -> tuple[Relation, list[Column]]:
    """Numbers and truth values: a cell without rows is NULL, even for a count."""
    context = builder.context
    calls = [call for node in nodes for call in aggregates_in(node)]
    aggregations, values = aggregations_of(builder, calls, relation)
    builder.values.update(values)
    names = tuple(dict.fromkeys([*keys, *(each.name for each in pivots)]))
    cells, columns = context.extended(
        Aggregate(relation, names, aggregations), [("cell", builder.draft(node)) for node in nodes]
    )
    outputs: list[Aggregation] = []
    for condition in conditions:
        for cell in columns:
            call = expression("any_value({}) FILTER (WHERE {})", cell.type, cell.value, condition)
            name = context.fresh("cell", cell.type).name
            outputs.append(Aggregation(name, "any_value", (cell.value,), call, False, condition))
    return Aggregate(cells, keys, tuple(outputs)), [each.column for each in outputs]


def _grouped_once(
    builder: Builder, relation: Relation, keys: tuple[str, ...], nodes: list[Expr], conditions: list[Expression]
) -> tuple[Relation, list[Column]]:
    """Where there is any other value: arguments of other cells are NULL, so that a count of none is 0."""
    context = builder.context
    calls = [call for node in nodes for call in aggregates_in(node)]
    outputs: list[Aggregation] = []
    drafts: list[tuple[str, Expression]] = []
    for condition in conditions:
        found, values = _inside_cell(builder, calls, relation, condition)
        outputs += found
        after = replace(builder, values={**builder.values, **values})
        drafts += [("cell", after.draft(node)) for node in nodes]
    return context.extended(Aggregate(relation, keys, tuple(outputs)), drafts)


def _inside_cell(
    builder: Builder, calls: list[Call], relation: Relation, condition: Expression
) -> tuple[list[Aggregation], dict[Expr, Expression]]:
    """The aggregates over what is in the cell, and the column that each call is."""
    shown = {each: builder.draft(each) for call in calls if not counts_rows(call) for each in call.arguments}
    hidden: dict[Expr, Expression] = {
        each: expression("CASE WHEN {} THEN {} END", "", condition, value) for each, value in shown.items()
    }
    asked = {call: _without_nulls(call) for call in calls if not counts_rows(call)}
    inside = replace(builder, values={**builder.values, **hidden})
    found, columns = aggregations_of(inside, list(asked.values()), relation)
    outputs = list(found)
    values: dict[Expr, Expression] = {call: columns[each] for call, each in asked.items()}
    for call in calls:
        if counts_rows(call):
            outputs.append(_count_of(builder, call, condition))
            values[call] = outputs[-1].column.value
    return outputs, values


def _without_nulls(call: Call) -> Call:
    """The first value of a cell is not the NULL of another one."""
    return replace(call, ignore_nulls=True) if call.function in FIRST_OR_LAST else call


def _count_of(builder: Builder, call: Call, condition: Expression) -> Aggregation:
    if call.filter is not None:
        condition = expression("{} AND {}", "boolean", condition, builder.draft(call.filter))
    value = expression("CASE WHEN {} THEN 1 END", "int", condition)
    counted = expression("count({})", "bigint", value)
    return Aggregation(builder.context.fresh("count", "bigint").name, "count", (value,), counted)


def _read_columns(builder: Builder, nodes: list[Expr]) -> set[str]:
    """Columns that the aggregates and FOR read: every other one is grouped by."""
    found: set[str] = set()
    for node in nodes:
        for each in below(node):
            if isinstance(each, Name):
                found |= builder.draft(each).columns
    return found


def _is_value(builder: Builder, node: Expr, pivots: list[Column]) -> Expression:
    node = strip(node)
    constants = Builder(builder.context, Scope(()))
    if len(pivots) == 1 and isinstance(node, Row):
        (column,) = pivots
        return expression(
            f"{{}} <=> CAST({{}} AS {quoted_type(column.type)})", "boolean", column.value, constants.draft(node)
        )
    wanted = node.items if isinstance(node, Row) else (node,)
    if len(wanted) != len(pivots):
        raise refused("SYNTAX_NOT_UNDERSTOOD", "PIVOT values")
    tests = [
        expression("{} <=> {}", "boolean", column.value, constants.draft(each))
        for column, each in zip(pivots, wanted, strict=True)
    ]
    return expression(" AND ".join(["{}"] * len(tests)), "boolean", *tests) if len(tests) > 1 else tests[0]


def pivot_schema(context: Context, rows: Rows, clause: str) -> tuple[Column, ...]:
    """Spark's names and types for the clause over rows with these columns."""
    visible = [each for each in rows.fields if not each.hidden]
    given = ", ".join(f"CAST(NULL AS {quoted_type(each.column.type)}) AS {quoted(each.name)}" for each in visible)
    alias = next((each.qualifier[-1] for each in visible if each.qualifier), "rows")
    return context.analyzer.schema(f"SELECT * FROM (SELECT {given}) AS {quoted(alias)} {clause}")
