"""ORDER BY ... LIMIT ... OFFSET: the first rows of a settled order.

SELECT a FROM t ORDER BY b DESC LIMIT 3
= Project(a; TopK(order b DESC, then a, limit 3; Project(a, b; t)))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation import (
    Aggregate,
    Apply,
    Column,
    Distinct,
    Empty,
    Filter,
    Join,
    JoinKind,
    Output,
    Project,
    Relation,
    SortKey,
    TopK,
    Values,
    Window,
)
from anabranch.algebra.types import orderable
from anabranch.sql.build import Builder, canonical
from anabranch.sql.context import Context, Rows
from anabranch.sql.query_syntax import Query
from anabranch.sql.refused import RefusedError, refused
from anabranch.sql.scope import Field, Scope
from anabranch.sql.settle import sort_value
from anabranch.sql.subqueries import apply_subqueries
from anabranch.sql.syntax import Expr, Literal, Name, SortItem, WindowSpec

TIES = "ORDER BY ... LIMIT: rows tied in the order given are ordered by all output columns"
DROPPED = "ORDER BY without LIMIT is dropped: a table has no order"


@dataclass(frozen=True)
class Ordering:
    """What stands after a query's body. `order` is empty where it changes nothing."""

    order: tuple[SortItem, ...] = ()
    limit: int | None = None
    offset: int = 0
    windows: tuple[tuple[str, WindowSpec], ...] = ()
    in_any_order: bool = False
    """It does not matter which rows are cut off."""

    @property
    def cuts(self) -> bool:
        return self.limit is not None or self.offset > 0


def ordering_of(context: Context, query: Query) -> Ordering:
    """ORDER BY, LIMIT and OFFSET of a query; an order without a cut is dropped with a note."""
    limit = None if query.limit is None else _constant(context, query.limit)
    offset = 0 if query.offset is None else _constant(context, query.offset)
    cuts = limit is not None or offset > 0
    if not cuts and (query.order or query.sorted_within):
        context.note(DROPPED)
    return Ordering(query.order if cuts else (), limit, offset, query.windows, query.in_any_order)


def _constant(context: Context, node: Expr) -> int:
    if isinstance(node, Literal) and isinstance(node.value, int):
        return node.value
    value = context.analyzer.constant(context.source.slice(node.start, node.end))
    if not isinstance(value, int):
        raise refused("EXPRESSION_NOT_UNDERSTOOD", "LIMIT", context.source.place(node.start))
    return value


def top_rows(
    context: Context,
    sorting: Builder,
    relation: Relation,
    outputs: list[Output],
    fields: tuple[Field, ...],
    distinct: bool,
    ordering: Ordering,
    items: Sequence[Expr | Expression],
) -> Rows:
    """Project, DISTINCT, and the cut. `sorting` builds sort keys over the rows below the projection."""
    if not ordering.cuts:
        projected: Relation = Project(relation, tuple(outputs))
        return Rows(Distinct(projected) if distinct else projected, fields)
    if ordering.limit == 0:
        return Rows(Empty(tuple(each.column for each in fields)), fields)
    if not ordering.order and has_one_row(relation) and not ordering.offset:
        return top_rows(context, sorting, relation, outputs, fields, distinct, Ordering(), items)
    if not ordering.order and not ordering.in_any_order:
        raise refused("LIMIT_WITHOUT_ORDER")
    _note_ties(context, ordering)
    if distinct:
        rows = Rows(Distinct(Project(relation, tuple(outputs))), fields)
        return cut_rows(context, rows, ordering, [(canonical(each.value), each.column) for each in outputs], sorting)
    relation = apply_subqueries(sorting, relation, [each.value for each in ordering.order])
    keys: list[tuple[Column, SortItem]] = []
    hidden: list[Output] = []
    for item in ordering.order:
        for value in _sort_values(sorting, item, items, outputs):
            known = next((each.column for each in (*outputs, *hidden) if each.value.parts == value.parts), None)
            if known is None:
                (typed,) = context.typed([value])
                known = context.fresh("sort", typed.type)
                hidden.append(Output(known.name, typed))
            keys.append((known, item))
    projected = Project(relation, (*outputs, *hidden))
    return _cut(context, projected, fields, keys, ordering)


def _note_ties(context: Context, ordering: Ordering) -> None:
    if not ordering.in_any_order:
        context.note(TIES)


def has_one_row(relation: Relation) -> bool:
    """Whether there is never more than one row, so that a LIMIT changes nothing."""
    match relation:
        case Aggregate():
            return not relation.keys
        case Values():
            return len(relation.rows) <= 1
        case Filter() | Project() | Distinct() | Window() | Apply():
            return has_one_row(relation.child)
        case Join():
            return has_one_row(relation.left) and (
                relation.kind in (JoinKind.SEMI, JoinKind.ANTI) or has_one_row(relation.right)
            )
    return False


def _sort_values(
    sorting: Builder, item: SortItem, items: Sequence[Expr | Expression], outputs: Sequence[Output]
) -> list[Expression]:
    node = item.value
    if isinstance(node, Literal) and isinstance(node.value, int) and 1 <= node.value <= len(outputs):
        return [outputs[node.value - 1].value]
    if is_all(node) and "all" not in sorting.aliases:
        return [each.value for each in outputs]
    return [sorting.draft(node)]


def is_all(node: Expr) -> bool:
    """ORDER BY ALL."""
    return isinstance(node, Name) and len(node.parts) == 1 and node.parts[0].upper() == "ALL"


def cut_rows(
    context: Context,
    rows: Rows,
    ordering: Ordering,
    known: Sequence[tuple[object, Column]] = (),
    below: Builder | None = None,
) -> Rows:
    """The first rows of a finished relation, its sort keys built over its own columns."""
    if not ordering.cuts:
        return rows
    if ordering.limit == 0:
        return Rows(Empty(rows.relation.columns), rows.fields)
    if not ordering.order and has_one_row(rows.relation) and not ordering.offset:
        return rows
    if not ordering.order and not ordering.in_any_order:
        raise refused("LIMIT_WITHOUT_ORDER")
    _note_ties(context, ordering)
    builder = Builder(context, Scope(rows.fields, below.scope.parent if below else None))
    relation = apply_subqueries(builder, rows.relation, [each.value for each in ordering.order])
    keys: list[tuple[Column, SortItem]] = []
    for item in ordering.order:
        node = item.value
        if isinstance(node, Literal) and isinstance(node.value, int) and 1 <= node.value <= len(rows.fields):
            keys.append((rows.fields[node.value - 1].column, item))
        elif is_all(node):
            keys.extend((each.column, item) for each in rows.fields)
        else:
            column = _known_column(below, node, known)
            if column is None:
                relation, (column,) = context.extended(relation, [("sort", builder.draft(node))])
            keys.append((column, item))
    return _cut(context, relation, rows.fields, keys, ordering)


def _known_column(below: Builder | None, node: Expr, known: Sequence[tuple[object, Column]]) -> Column | None:
    """The output that is the same expression as the sort key."""
    if below is None:
        return None
    try:
        form = canonical(below.draft(node))
    except RefusedError:
        return None
    return next((column for other, column in known if other == form), None)


def _cut(
    context: Context,
    relation: Relation,
    fields: tuple[Field, ...],
    keys: Sequence[tuple[Column, SortItem]],
    ordering: Ordering,
) -> Rows:
    order: dict[str, SortKey] = {}
    for column, item in keys:
        order.setdefault(column.name, SortKey(column.name, item.descending, item.nulls_first))
    for each in fields:
        relation, name = _tie_breaker(context, relation, each.column)
        order.setdefault(name, SortKey(name))
    cut = TopK(relation, tuple(order.values()), ordering.limit, ordering.offset)
    names = [each.column.name for each in fields]
    if list(cut.names) == names:
        return Rows(cut, fields)
    return Rows(Project(cut, tuple(Output(each.column.name, each.column.value) for each in fields)), fields)


def _tie_breaker(context: Context, relation: Relation, column: Column) -> tuple[Relation, str]:
    if orderable(column.type):
        return relation, column.name
    relation, (added,) = context.extended(relation, [("sort", sort_value(column))])
    return relation, added.name
