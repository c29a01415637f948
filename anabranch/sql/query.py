"""A whole query: WITH, body, ORDER BY and LIMIT."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.relation import Output, Project
from anabranch.sql.context import Context, Rows
from anabranch.sql.from_clause import from_rows, inline_rows
from anabranch.sql.ordering import Ordering, cut_rows, ordering_of
from anabranch.sql.pipe_steps import piped_rows
from anabranch.sql.query_syntax import Body, PipeBody, Query, QueryBody, Select, SetBody, TableBody, ValuesBody
from anabranch.sql.recursion import is_recursive, recursive_rows
from anabranch.sql.refused import refused
from anabranch.sql.scope import Scope
from anabranch.sql.select import select_rows
from anabranch.sql.set_operations import combine


def query_rows(context: Context, query: Query, parent: Scope | None) -> Rows:
    """The rows of a query, exactly its visible columns in order."""
    for cte in query.ctes:
        if query.recursive and is_recursive(cte):
            rows = recursive_rows(context, cte, parent)
        else:
            rows = query_rows(context, cte.query, parent)
            if cte.columns:
                rows = context.renamed(rows, (), cte.columns)
        context = context.with_cte(cte.name, rows)
    return exactly(context, body_rows(context, query.body, parent, ordering_of(context, query)))


def body_rows(context: Context, body: Body, parent: Scope | None, ordering: Ordering) -> Rows:
    """A body under its ORDER BY and LIMIT."""
    match body:
        case Select():
            return select_rows(context, body, parent, ordering)
        case QueryBody(query=inner):
            return _nested(context, inner, parent, ordering)
        case SetBody():
            rows = _set_rows(context, body, parent)
        case TableBody():
            rows = from_rows(context, body.table, parent)
        case ValuesBody():
            rows = inline_rows(context, body.values, parent)
        case PipeBody():
            rows = piped_rows(context, body, parent, body_rows)
        case _:
            raise refused("SYNTAX_NOT_UNDERSTOOD", type(body).__name__)
    return cut_rows(context, rows, ordering)


def _set_rows(context: Context, body: SetBody, parent: Scope | None) -> Rows:
    """A chain of set operations, from the left; a loop, because chains grow long."""
    chain = [body]
    while isinstance(chain[-1].left, SetBody):
        chain.append(chain[-1].left)
    rows = exactly(context, body_rows(context, chain[-1].left, parent, Ordering()))
    for each in reversed(chain):
        right = exactly(context, body_rows(context, each.right, parent, Ordering()))
        rows = combine(context, each.operator, each.all, each.by_name, rows, right)
    return rows


def _nested(context: Context, inner: Query, parent: Scope | None, ordering: Ordering) -> Rows:
    """`(SELECT ... ORDER BY x) LIMIT 3` cuts by the order inside."""
    uncut = inner.limit is None and inner.offset is None and not inner.ctes
    if ordering.cuts and not ordering.order and inner.order and uncut:
        return body_rows(context, inner.body, parent, replace(ordering, order=inner.order))
    return cut_rows(context, context.rows_of(inner, parent), ordering)


def exactly(context: Context, rows: Rows) -> Rows:
    """The visible columns alone, each once, in order."""
    visible = tuple(each for each in rows.fields if not each.hidden)
    names = [each.column.name for each in visible]
    if list(rows.relation.names) == names:
        return Rows(rows.relation, visible)
    outputs: list[Output] = []
    fields = []
    taken: set[str] = set()
    for each in visible:
        column = each.column
        if column.name in taken:
            column = context.fresh(each.name, column.type)
        taken.add(column.name)
        outputs.append(Output(column.name, each.column.value))
        fields.append(replace(each, column=column))
    return Rows(Project(rows.relation, tuple(outputs)), tuple(fields))
