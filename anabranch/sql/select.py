"""SELECT: FROM, WHERE, GROUP BY, HAVING, windows, QUALIFY, the list, DISTINCT, ORDER BY ... LIMIT, in that order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation import RESERVED_PREFIX, Column, Filter, Output, Relation
from anabranch.sql import time_windows
from anabranch.sql.aggregates import aggregate_rows
from anabranch.sql.build import Builder
from anabranch.sql.context import Context, Rows
from anabranch.sql.from_clause import from_rows
from anabranch.sql.functions import GENERATORS
from anabranch.sql.generators import generated
from anabranch.sql.naming import spark_name
from anabranch.sql.ordering import Ordering, top_rows
from anabranch.sql.query_syntax import Item, Select
from anabranch.sql.refused import refused
from anabranch.sql.scope import Field, Scope
from anabranch.sql.stars import spelled_out
from anabranch.sql.subqueries import aliases_as_columns, apply_subqueries
from anabranch.sql.syntax import Call, Expr, Name, Star
from anabranch.sql.syntax_walk import below, conjuncts, has_aggregate, strip, windows_in
from anabranch.sql.windows import window_rows


@dataclass(frozen=True)
class Planned:
    """One output: a node still to be built, or a value known already (a column of a star)."""

    name: str
    value: Expr | Expression
    names: tuple[str, ...] = ()


def select_rows(
    context: Context, select: Select, parent: Scope | None, ordering: Ordering, piped: Rows | None = None
) -> Rows:
    """The rows of a SELECT, and of its ORDER BY and LIMIT where it has one."""
    rows = from_rows(context, select.source, parent, piped)
    builder = Builder(context, Scope(rows.fields, parent))
    relation = filter_rows(builder, rows.relation, select.where)
    items = planned_items(builder, select.items)
    builder = replace(builder, aliases=_aliases(builder, items))
    windows = {name.lower(): spec for name, spec in (*select.windows, *ordering.windows)}
    nodes = [each.value for each in items if isinstance(each.value, Expr)]
    relation, builder = time_windows.with_time_windows(builder, relation, select, nodes)
    after = [*nodes, *_present(select.having), *_present(select.qualify), *(each.value for each in ordering.order)]
    if select.group is not None or select.having is not None or any(map(has_aggregate, after)):
        grouped = aggregate_rows(builder, relation, select.group, [each.value for each in items], after)
        relation, builder = grouped.relation, grouped.builder
        items = [_regrouped(builder, each) for each in items]
        relation = filter_rows(builder, relation, select.having)
        relation = window_rows(builder, relation, nodes, windows)  # of groups, not of what generators make of them
    builder, relation, items = _generate(builder, relation, items)
    outputs = {each.name.lower(): each.value for each in reversed(items)}
    sorting = replace(builder, aliases={**outputs, **builder.aliases}, aliases_first=True)
    later = [*(each.value for each in items if isinstance(each.value, Expr)), *_present(select.qualify)]
    relation = window_rows(builder, relation, later, windows)
    relation = window_rows(sorting, relation, [each.value for each in ordering.order], windows)
    relation = filter_rows(builder, relation, select.qualify)
    return _projected(builder, sorting, relation, items, select.distinct, ordering)


def _present(node: Expr | None) -> tuple[Expr, ...]:
    return () if node is None else (node,)


def filter_rows(builder: Builder, relation: Relation, condition: Expr | None) -> Relation:
    """The rows for which the condition holds; columns of its subqueries are dropped again."""
    if condition is None:
        return relation
    nodes = conjuncts(condition)
    inside = replace(builder, values=dict(builder.values), bare=dict(builder.bare))
    inside, applied = aliases_as_columns(inside, relation, nodes)
    applied = apply_subqueries(inside, applied, _aliased_above(inside, nodes))
    applied = apply_subqueries(inside, applied, nodes)
    filtered = Filter(applied, inside.predicates(nodes))
    return builder.context.narrowed(filtered, relation.names)


def _aliased_above(builder: Builder, nodes: Sequence[Expr]) -> list[Expr]:
    """Items of the list that conditions on aggregates or windows call by their aliases: as they stand in the list.

    Spark cannot move such a condition below the list, and so no NOT of it down to a subquery there.
    """
    above = [each for each in nodes if has_aggregate(each) or any(windows_in(each))]
    aliases = (builder.alias_of(name) for node in above for name in below(node))
    return [each for each in aliases if isinstance(each, Expr)]


def planned_items(builder: Builder, items: Sequence[Item]) -> list[Planned]:
    """The SELECT list with its stars spelled out."""
    planned: list[Planned] = []
    for item in items:
        if isinstance(item.value, Star):
            found = spelled_out(builder.context, builder.scope, item.value)
            planned.extend(Planned(name, value) for name, value in found)
        else:
            name = item.names[0] if len(item.names) == 1 else default_name(builder, item.value)
            planned.append(Planned(name, item.value, item.names))
    return planned


def default_name(builder: Builder, node: Expr) -> str:
    """What Spark calls a column without an alias. Only a name in backquotes can ask for a computed column's."""
    node = strip(node)
    if isinstance(node, Name):
        return node.parts[-1]
    return spark_name(builder, node) if builder.context.source.has_odd_names else ""


def _aliases(builder: Builder, items: Sequence[Planned]) -> Mapping[str, Expr | Expression]:
    """The names of the SELECT list by which later expressions may call its items; the first of a name counts."""
    aliases: dict[str, Expr | Expression] = {}
    for each in items:
        if len(each.names) == 1 or (not each.names and _is_named_by_spark(builder, each)):
            aliases.setdefault(each.name.lower(), each.value)
    return aliases


def _is_named_by_spark(builder: Builder, item: Planned) -> bool:
    """Whether an item without AS is more than a column, so that its name is an alias: a field, a computed value."""
    if not isinstance(item.value, Expr) or not item.name:
        return False
    node = strip(item.value)
    found = builder.scope.find(node.parts) if isinstance(node, Name) else None
    return found is None or bool(found.rest)


def _regrouped(builder: Builder, item: Planned) -> Planned:
    """After GROUP BY, a star's column is the key."""
    if isinstance(item.value, Expr):
        return item
    key = builder.keys.get(tuple(item.value.parts))
    if key is None:
        raise refused("EXPRESSION_NOT_UNDERSTOOD", f"{item.name} is not grouped by")
    return replace(item, value=key.value)


def _generate(builder: Builder, relation: Relation, items: list[Planned]) -> tuple[Builder, Relation, list[Planned]]:
    """A generator in the SELECT list becomes a Generate below it, and its columns take its place and its alias."""
    result: list[Planned] = []
    aliases = dict(builder.aliases)
    for item in items:
        call = strip(item.value) if isinstance(item.value, Expr) else None
        if not isinstance(call, Call) or call.function not in GENERATORS:
            result.append(item)
            continue
        relation = apply_subqueries(builder, relation, [call])
        rows = generated(builder.context, Rows(relation, ()), builder, call, False, None, item.names)
        relation = rows.relation
        for field in rows.fields:
            result.append(Planned(field.name, field.column.value, (field.name,)))
            aliases[field.name.lower()] = field.column.value
    return replace(builder, aliases=aliases), relation, result


def _projected(
    builder: Builder, sorting: Builder, relation: Relation, items: Sequence[Planned], distinct: bool, ordering: Ordering
) -> Rows:
    context = builder.context
    nodes = [each.value for each in items if isinstance(each.value, Expr)]
    relation = apply_subqueries(builder, relation, nodes)
    drafts = [builder.draft(each.value) if isinstance(each.value, Expr) else each.value for each in items]
    values = context.typed(drafts)
    outputs: list[Output] = []
    fields: list[Field] = []
    taken: set[str] = set()
    for item, value in zip(items, values, strict=True):
        column = _output_column(context, item, value, taken)
        taken.add(column.name.lower())
        outputs.append(Output(column.name, value))
        fields.append(Field(item.name, column))
    return top_rows(context, sorting, relation, outputs, tuple(fields), distinct, ordering, [e.value for e in items])


def _output_column(context: Context, item: Planned, value: Expression, taken: set[str]) -> Column:
    """A column passed through keeps its internal name, unless it is there already."""
    if value.is_column:
        name = next(iter(value.columns))
        if name.lower() not in taken and not name.startswith(RESERVED_PREFIX):
            return Column(name, value.type)
    return context.fresh(item.name or _hint(item.value), value.type)


def _hint(value: Expr | Expression) -> str:
    return value.function if isinstance(value, Call) else "column"
