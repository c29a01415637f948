"""Pipe operators: each step is a small SELECT over the rows before it.

FROM t |> WHERE a > 1 |> AGGREGATE sum(b) AS s GROUP BY c
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from anabranch.sql.context import Context, Rows
from anabranch.sql.from_clause import from_rows
from anabranch.sql.from_syntax import PipeInput
from anabranch.sql.ordering import Ordering, cut_rows, ordering_of
from anabranch.sql.query_syntax import Body, GroupItem, Item, PipeBody, PipeKind, PipeStep, Query, Select
from anabranch.sql.refused import refused
from anabranch.sql.scope import Scope, requalified
from anabranch.sql.select import select_rows
from anabranch.sql.set_operations import combine
from anabranch.sql.syntax import Expr, Literal, Name, SortItem, Star

BodyRows = Callable[[Context, Body, Scope | None, Ordering], Rows]


def piped_rows(context: Context, body: PipeBody, parent: Scope | None, body_rows: BodyRows) -> Rows:
    """The rows after the last step. An order holds until a step that makes new rows."""
    rows = _first_rows(context, body.source, parent, body_rows)
    order: tuple[SortItem, ...] = ()
    for step in body.steps:
        if step.kind is PipeKind.ORDER:
            rows, order = _organised(context, rows, step, order)
            continue
        if step.kind is not PipeKind.WHERE:
            order = ()
        rows = _step(context, rows, step, parent, body_rows)
    return rows


def _first_rows(context: Context, source: Body, parent: Scope | None, body_rows: BodyRows) -> Rows:
    """What the first step reads. After `FROM t AS x |>` columns are still those of x."""
    match source:
        case Select(items=(Item(value=Star(start=start, end=end)),)) if start == end:
            return from_rows(context, source.source, parent)
    return body_rows(context, source, parent, Ordering())


def _organised(
    context: Context, rows: Rows, step: PipeStep, order: tuple[SortItem, ...]
) -> tuple[Rows, tuple[SortItem, ...]]:
    order = step.order or order
    query = Query(step.start, step.end, Body(step.start, step.start), order=order, limit=step.limit, offset=step.offset)
    return cut_rows(context, rows, ordering_of(context, query)), order


def _step(context: Context, rows: Rows, step: PipeStep, parent: Scope | None, body_rows: BodyRows) -> Rows:
    source = PipeInput(step.start, step.start)
    everything = Item(Star(step.start, step.start))
    match step.kind:
        case PipeKind.WHERE:
            return _select(context, rows, parent, step, (everything,), where=step.condition, keep=True)
        case PipeKind.SELECT:
            return _select(context, rows, parent, step, step.items, distinct=step.distinct)
        case PipeKind.EXTEND:
            return _select(context, rows, parent, step, (everything, *step.items), keep=True)
        case PipeKind.SET:
            return _set(context, rows, parent, step)
        case PipeKind.DROP:
            dropped = {name.lower() for name in step.names}
            return Rows(rows.relation, tuple(each for each in rows.fields if each.name.lower() not in dropped))
        case PipeKind.AS:
            return Rows(rows.relation, requalified(rows.fields, step.names))
        case PipeKind.AGGREGATE:
            return _aggregate(context, rows, parent, step, source)
        case PipeKind.RELATION:
            return from_rows(context, step.relation, parent, rows)
        case PipeKind.UNION:
            assert step.right is not None
            right = body_rows(context, step.right, parent, Ordering())
            return combine(context, step.operator, step.all, step.by_name, rows, right)
    raise refused("SYNTAX_NOT_UNDERSTOOD", step.kind.value)


def _select(
    context: Context,
    rows: Rows,
    parent: Scope | None,
    step: PipeStep,
    items: tuple[Item, ...],
    where: Expr | None = None,
    distinct: bool = False,
    keep: bool = False,
) -> Rows:
    source = PipeInput(step.start, step.start)
    select = Select(step.start, step.end, items, distinct, source, where, windows=step.windows)
    result = select_rows(context, select, parent, Ordering(), rows)
    return _requalified(rows, result) if keep else result


def _requalified(before: Rows, after: Rows) -> Rows:
    """Columns that pass through a step keep their table's name."""
    known = {each.column.name: each.qualifier for each in before.fields if not each.hidden}
    fields = tuple(replace(each, qualifier=known.get(each.column.name, ())) for each in after.fields)
    return Rows(after.relation, fields)


def _set(context: Context, rows: Rows, parent: Scope | None, step: PipeStep) -> Rows:
    """SET a = x: the column in its place, later assignments seeing earlier ones."""
    for item in step.items:
        name = item.names[0].lower()
        select = _select(context, rows, parent, step, (Item(Star(step.start, step.start)), item), keep=True)
        *kept, added = select.fields
        fields = [replace(added, name=each.name, qualifier=each.qualifier) if each.name.lower() == name else each
                  for each in kept]  # fmt: skip
        rows = Rows(select.relation, tuple(fields))
    return rows


def _aggregate(context: Context, rows: Rows, parent: Scope | None, step: PipeStep, source: PipeInput) -> Rows:
    """The grouping columns first, then the aggregates."""
    keys: list[Item] = []
    group = step.group
    if group is not None and step.group_names:
        group = replace(group, items=tuple(_with_column(rows, each) for each in group.items))
        for group_item, names in zip(group.items, step.group_names, strict=True):
            keys.append(Item(group_item.sets[0][0], names))
    elif group is not None:
        raise refused("SYNTAX_NOT_UNDERSTOOD", "AGGREGATE with grouping sets")
    select = Select(step.start, step.end, (*keys, *step.items), source=source, group=group)
    if step.group is None and not step.items:
        raise refused("SYNTAX_NOT_UNDERSTOOD", "AGGREGATE of nothing")
    return select_rows(context, select, parent, Ordering(), rows)


def _with_column(rows: Rows, item: GroupItem) -> GroupItem:
    """`GROUP BY 1` after AGGREGATE is the first column of the rows before it, not of a SELECT list."""
    value = item.sets[0][0]
    visible = [each for each in rows.fields if not each.hidden]
    if not isinstance(value, Literal) or not isinstance(value.value, int) or not 1 <= value.value <= len(visible):
        return item
    field = visible[value.value - 1]
    return replace(item, sets=((Name(value.start, value.end, (*field.qualifier, field.name)),),))
