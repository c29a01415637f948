"""FROM: every item becomes rows under names of their own."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation import Column, Output, Project, Scan, TableFunction, Values
from anabranch.algebra.types import quoted_type
from anabranch.errors import NotFoundError
from anabranch.sql import pivot, unpivot
from anabranch.sql.analyzer import ViewBinding
from anabranch.sql.build import Builder
from anabranch.sql.context import Context, Rows
from anabranch.sql.from_syntax import (
    Derived,
    FromItem,
    InlineTable,
    JoinItem,
    LateralView,
    PipeInput,
    Pivot,
    Renamed,
    Table,
    TableCall,
    Unpivot,
)
from anabranch.sql.functions import GENERATORS
from anabranch.sql.generators import generated, lateral_view
from anabranch.sql.joins import join_rows
from anabranch.sql.parse import parse_query
from anabranch.sql.query_syntax import Select
from anabranch.sql.refused import refused
from anabranch.sql.scope import Field, Scope, requalified
from anabranch.sql.subqueries import apply_subqueries
from anabranch.sql.syntax import Nested
from anabranch.sql.syntax_walk import unaliased


def from_rows(context: Context, item: FromItem | None, parent: Scope | None, piped: Rows | None = None) -> Rows:
    """The rows of a FROM item. `parent` is the enclosing query's row; `piped` the rows before a pipe step."""
    match item:
        case None:
            return one_row()
        case PipeInput():
            assert piped is not None
            return piped
        case Table():
            return _table(context, item)
        case Derived():
            _no_sample(item.sampled)
            rows = context.rows_of(item.query, parent)
            return _named(context, rows, item.alias, item.columns)
        case Renamed():
            _no_sample(item.sampled)
            return _named(context, from_rows(context, item.child, parent, piped), item.alias, item.columns)
        case InlineTable():
            return inline_rows(context, item, parent)
        case TableCall():
            return _table_call(context, item, parent)
        case JoinItem():
            return _join(context, item, parent, piped)
        case LateralView():
            return lateral_view(context, from_rows(context, item.child, parent, piped), item, parent)
        case Pivot():
            rows = pivot.pivot_rows(context, from_rows(context, item.child, parent, piped), item, parent)
            return _named(context, rows, item.alias, item.names)
        case Unpivot():
            rows = unpivot.unpivot_rows(context, from_rows(context, item.child, parent, piped), item)
            return _named(context, rows, item.alias, item.columns)
    raise refused("SYNTAX_NOT_UNDERSTOOD", type(item).__name__)


def one_row() -> Rows:
    """The one row of a SELECT without FROM. It has a column, because a relation without any is hard to write."""
    value = Expression(("1",), "int")
    return Rows(Values(((value,),), (Column("__ab_one", "int"),)), ())


def _no_sample(sampled: bool) -> None:
    if sampled:
        raise refused("TABLESAMPLE")


def _table(context: Context, item: Table) -> Rows:
    rows = _whole_table(context, item)
    _no_sample(item.sampled)
    if item.versioned:
        raise refused("TIME_TRAVEL")
    return rows


def _whole_table(context: Context, item: Table) -> Rows:
    """The table's rows; what is read is noted, also where the query is then refused and run as it is."""
    qualifier = item.parts if item.alias is None else (item.alias,)
    cte = context.ctes.get(item.parts[0].lower()) if len(item.parts) == 1 else None
    if cte is not None:
        return context.renamed(cte, qualifier, item.columns)
    binding = context.tables(item.parts)
    if binding is None:
        raise NotFoundError("TABLE_NOT_FOUND", f"there is no table {'.'.join(item.parts)!r}")
    if isinstance(binding, ViewBinding):
        return context.renamed(_view(context, item.parts, binding), qualifier, item.columns)
    context.findings.tables.add(binding.identity)
    scan = Scan(binding.identity, binding.columns)
    fields = tuple(Field(each.name, each) for each in binding.columns)
    return context.renamed(Rows(scan, fields), qualifier, item.columns)


def _view(context: Context, parts: tuple[str, ...], binding: ViewBinding) -> Rows:
    """A view's rows: its own text, in which the query's named queries are not visible."""
    name = ".".join(parts).lower()
    if name in context.views:
        raise refused("SYNTAX_NOT_UNDERSTOOD", f"view {name} reads itself")
    source, query = parse_query(binding.query)
    inner = replace(context, source=source, ctes={}, views=(*context.views, name))
    rows = inner.rows_of(query, None)
    return _named(context, rows, None, binding.columns)


def _named(context: Context, rows: Rows, alias: str | None, columns: tuple[str, ...]) -> Rows:
    """The rows under a table alias and, where given, other column names."""
    fields = requalified(rows.fields, () if alias is None else (alias,))
    if alias is None and not columns:
        return rows
    renamed = tuple(
        replace(each, name=columns[place]) if place < len(columns) else each for place, each in enumerate(fields)
    )
    return Rows(rows.relation, renamed)


def inline_rows(context: Context, item: InlineTable, parent: Scope | None) -> Rows:
    """VALUES: one row per tuple, its columns cast to the types Spark finds for them."""
    for row in item.rows:
        for each in row:
            if isinstance(each, Nested):
                raise refused("EXPRESSION_NOT_UNDERSTOOD", "subquery in VALUES")
    builder = Builder(context, Scope((), parent))
    text = context.source.slice(item.start, item.rows_end)
    schema = context.analyzer.schema(f"SELECT * FROM {text}")
    names = item.columns or tuple(each.name for each in schema)
    columns = tuple(context.fresh(name, each.type) for name, each in zip(names, schema, strict=True))
    drafts = [builder.draft(unaliased(each)) for row in item.rows for each in row]
    values = context.typed(drafts)
    width = len(columns)
    rows = []
    for start in range(0, len(values), width):
        given = values[start : start + width]
        rows.append(tuple(_cast(value, column.type) for value, column in zip(given, columns, strict=True)))
    qualifier = () if item.alias is None else (item.alias,)
    fields = tuple(Field(name, column, qualifier) for name, column in zip(names, columns, strict=True))
    return Rows(Values(tuple(rows), columns), fields)


def _cast(value: Expression, type: str) -> Expression:
    if value.type == type:
        return value
    return Expression(("CAST(", *value.parts, f" AS {quoted_type(type)})"), type, value.deterministic)


def _table_call(context: Context, item: TableCall, parent: Scope | None) -> Rows:
    """A table-valued function of constants; a generator that reads the enclosing row."""
    call = item.call
    if call.function == "identifier":
        raise refused("SYNTAX_NOT_UNDERSTOOD", "IDENTIFIER(...)")
    if any(isinstance(each, Nested) for each in call.arguments):
        raise refused("TABLE_ARGUMENT", call.function)
    builder, base = Builder(context, Scope((), parent)), one_row()
    if call.function in GENERATORS:
        base = replace(base, relation=apply_subqueries(builder, base.relation, [call]))
    draft = builder.draft(call)
    if call.function in GENERATORS and (draft.columns or draft.outer_columns or len(call.name) == 1):
        rows = generated(context, base, builder, call, False, item.alias, item.columns)
        outputs = tuple(Output(each.column.name, each.column.value) for each in rows.fields)
        return Rows(Project(rows.relation, outputs), rows.fields)
    schema = context.analyzer.schema(f"SELECT * FROM {context.source.slice(call.start, call.end)}")
    names = item.columns or tuple(each.name for each in schema)
    columns = tuple(context.fresh(name, each.type) for name, each in zip(names, schema, strict=True))
    qualifier = (item.alias,) if item.alias is not None else ()
    fields = tuple(Field(name, column, qualifier) for name, column in zip(names, columns, strict=True))
    return Rows(TableFunction(replace(draft, type="table"), columns), fields)


def _join(context: Context, item: JoinItem, parent: Scope | None, piped: Rows | None) -> Rows:
    left = from_rows(context, item.left, parent, piped)
    right_item = item.right
    if not (isinstance(right_item, Derived | TableCall) and right_item.lateral):
        return join_rows(context, item, left, from_rows(context, right_item, parent, piped), parent)
    around = Scope(left.fields, parent)
    if isinstance(right_item, TableCall) and _plain_generator(context, item, right_item):
        builder = Builder(context, around)
        outer = item.kind == "left" and item.on is not None
        left = Rows(apply_subqueries(builder, left.relation, [right_item.call]), left.fields)
        return generated(context, left, builder, right_item.call, outer, right_item.alias, right_item.columns)
    if isinstance(right_item, Derived) and item.kind == "left" and item.on is None and _of_one_row(right_item):
        item = replace(item, kind="inner")
    right = from_rows(context, right_item, around)
    return join_rows(context, item, left, right, parent, lateral=True)


def _plain_generator(context: Context, item: JoinItem, call: TableCall) -> bool:
    """`t, LATERAL explode(t.xs)`: no condition, so it is a Generate.

    Spark drops the rows of a LEFT JOIN without any ON that generate nothing; ON true keeps them.
    """
    if (
        call.call.function not in GENERATORS
        or item.using
        or item.natural
        or item.kind not in ("inner", "cross", "left")
    ):
        return False
    return item.on is None or context.source.slice(item.on.start, item.on.end).lower() in ("true", "(true)")


def _of_one_row(item: Derived) -> bool:
    """`LATERAL (SELECT explode(t.xs))`: Spark reads a LEFT JOIN with it, without any ON, as an inner one."""
    query, body = item.query, item.query.body
    if not isinstance(body, Select) or query.limit is not None or query.offset is not None:
        return False
    return body.source is None and body.where is None and body.group is None and body.having is None
