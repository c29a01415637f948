"""PIVOT: group twice, so that a cell without rows is NULL, even for a count.

PIVOT (sum(x) FOR p IN ('a', 'b'))  over columns g, p, x
= per g: the sum of the group (g, 'a'), the sum of the group (g, 'b')
"""

from __future__ import annotations

from anabranch.algebra.expression import Expression, expression
from anabranch.algebra.relation import Aggregate, Aggregation, Column
from anabranch.algebra.types import quoted_type
from anabranch.sql.aggregates import aggregations_of
from anabranch.sql.build import Builder
from anabranch.sql.context import Context, Rows
from anabranch.sql.from_syntax import Pivot
from anabranch.sql.refused import refused
from anabranch.sql.scope import Field, Scope
from anabranch.sql.statement_nodes import quoted
from anabranch.sql.subqueries import apply_subqueries
from anabranch.sql.syntax import Expr, Name, Row
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
    calls = [call for node in nodes for call in aggregates_in(node)]
    aggregations, values = aggregations_of(builder, calls, relation)
    builder.values.update(values)
    names = dict.fromkeys([*(each.column.name for each in keys), *(each.name for each in pivots)])
    grouped = Aggregate(relation, tuple(names), aggregations)
    cells, columns = context.extended(grouped, [("cell", builder.draft(node)) for node in nodes])
    outputs: list[Aggregation] = []
    made = iter(schema[len(keys) :])
    fields = list(keys)
    for value_item in item.values:
        condition = _is_value(builder, value_item.value, pivots)
        for cell in columns:
            shown = next(made)
            column = context.fresh(shown.name, shown.type)
            call_text = expression("any_value({}) FILTER (WHERE {})", cell.type, cell.value, condition)
            outputs.append(Aggregation(column.name, "any_value", (cell.value,), call_text, False, condition))
            fields.append(Field(shown.name, column))
    pivoted = Aggregate(cells, tuple(each.column.name for each in keys), tuple(outputs))
    named = [Field(shown.name, each.column) for each, shown in zip(fields, schema, strict=True)]
    return Rows(pivoted, tuple(named))


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
