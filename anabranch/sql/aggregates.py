"""GROUP BY and aggregates.

    SELECT a + 1, sum(b) * 2 FROM t GROUP BY a + 1
    = Project(k, s * 2; Aggregate(keys k, s = sum(b); Project(a + 1 AS k, b; t)))

Afterwards a node of the query that is a grouping expression, or an aggregate, is a column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation import Aggregate, Aggregation, Column, Relation
from anabranch.sql.build import Builder, Key, canonical
from anabranch.sql.context import Context
from anabranch.sql.functions import GROUPING
from anabranch.sql.grouping_sets import Expanded, expand, grouping_bit, grouping_expressions, grouping_sets
from anabranch.sql.query_syntax import Group, Select
from anabranch.sql.refused import RefusedError, refused
from anabranch.sql.scope import Field, Scope
from anabranch.sql.settle import needs_row_order, settled_aggregate
from anabranch.sql.subqueries import apply_subqueries, recognise
from anabranch.sql.syntax import Call, Expr, Literal, Name
from anabranch.sql.syntax_walk import aggregates_in, below, has_aggregate, nested_in, strip


@dataclass(frozen=True)
class Grouped:
    """The rows after GROUP BY, and the builder that sees them."""

    relation: Relation
    builder: Builder


def aggregate_rows(
    builder: Builder,
    relation: Relation,
    group: Group | None,
    items: Sequence[Expr | Expression],
    used: Sequence[Expr],
) -> Grouped:
    """Group the rows. `items` is the SELECT list, for ordinals; `used` every node evaluated after grouping."""
    context = builder.context
    sets = None if group is None else grouping_sets(group)
    nodes = _key_nodes(group, items, sets)
    if sets is not None and not nodes and len(sets) == 1:
        sets = None
    calls = list(dict.fromkeys(call for node in used for call in aggregates_in(node)))
    asked = [call for node in used for call in _asked_by_subqueries(builder, node)]
    calls += asked
    written = [each for each in nodes if isinstance(each, Expr)]
    relation = apply_subqueries(builder, relation, written)
    recognise(builder, written, used)
    relation = apply_subqueries(builder, relation, calls)
    drafts = [_draft(builder, each) for each in nodes]
    relation, keys = context.extended(relation, zip(map(key_name, nodes), drafts, strict=True))
    forms = [canonical(each) for each in drafts]
    aggregations, values = aggregations_of(builder, calls, relation)
    if not nodes and not aggregations:
        aggregations = (_row_count(context),)
    needed = {name for each in aggregations for name in each.call.columns} | {each.name for each in keys}
    relation = context.narrowed(relation, needed) if needed else relation
    expanded: Expanded | None = None
    if sets is not None:
        included = [frozenset(canonical(_draft(builder, _ordinal(each, items))) for each in one) for one in sets]
        unique = dict(zip(forms, keys, strict=True))
        expanded = expand(context, relation, tuple(unique.values()), included, tuple(unique))
        relation, keys, forms = expanded.relation, list(expanded.copies), list(unique)
    names = tuple(dict.fromkeys(each.name for each in keys)) if expanded is None else expanded.keys
    grouped = Aggregate(relation, names, aggregations)
    after = _after(builder, dict(zip(forms, keys, strict=True)), {call: values[call] for call in asked})
    after.values.update(values)
    if expanded is not None:
        _grouping_calls(builder, after, used, expanded, forms)
    return Grouped(grouped, after)


def _asked_by_subqueries(builder: Builder, node: Expr) -> Iterator[Call]:
    """`HAVING EXISTS (SELECT ... WHERE u.x > min(t.y))`: aggregates of this query, as WHERE has none of its own."""
    for nested in nested_in(node):
        body = nested.query.body
        if isinstance(body, Select) and body.where is not None:
            yield from (call for call in aggregates_in(body.where) if _can_read(builder, call))


def _can_read(builder: Builder, call: Call) -> bool:
    try:
        return any(each.columns for each in builder.arguments(call))
    except RefusedError:
        return False


def key_name(node: Expr | Expression) -> str:
    node = strip(node) if isinstance(node, Expr) else node
    return node.parts[-1] if isinstance(node, Name) else "key"


def _draft(builder: Builder, node: Expr | Expression) -> Expression:
    return node if isinstance(node, Expression) else builder.draft(node)


def _key_nodes(
    group: Group | None, items: Sequence[Expr | Expression], sets: Sequence[tuple[Expr, ...]] | None
) -> list[Expr | Expression]:
    if group is None:
        return []
    if group.everything:
        return [each for each in items if isinstance(each, Expression) or not has_aggregate(each)]
    nodes = [each.sets[0][0] for each in group.items] if sets is None else grouping_expressions(group, sets)
    return [_ordinal(each, items) for each in nodes]


def _ordinal(node: Expr, items: Sequence[Expr | Expression]) -> Expr | Expression:
    """`GROUP BY 1` is the first item of the SELECT list."""
    if isinstance(node, Literal) and isinstance(node.value, int) and 1 <= node.value <= len(items):
        return items[node.value - 1]
    return node


def aggregations_of(
    builder: Builder, calls: Sequence[Call], relation: Relation
) -> tuple[tuple[Aggregation, ...], dict[Expr, Expression]]:
    """One aggregation for each different call, and the column each node becomes."""
    context = builder.context
    drafts: dict[Key, tuple[Call, Expression]] = {}
    forms: list[Key] = []
    for call in calls:
        row = relation.columns if needs_row_order(call) else ()
        settled = settled_aggregate(builder, call, row)
        form = canonical(settled)
        forms.append(form)
        drafts.setdefault(form, (call, settled))
    typed = context.typed([draft for _, draft in drafts.values()])
    aggregations: list[Aggregation] = []
    columns: dict[Key, Column] = {}
    for form, (call, _), value in zip(drafts, drafts.values(), typed, strict=True):
        arguments = tuple(context.typed(builder.arguments(call)))
        condition = None if call.filter is None else context.typed([builder.draft(call.filter)])[0]
        column = context.fresh(call.function, value.type)
        columns[form] = column
        aggregations.append(Aggregation(column.name, call.function, arguments, value, call.distinct, condition))
    return tuple(aggregations), {call: columns[form].value for call, form in zip(calls, forms, strict=True)}


def _row_count(context: Context) -> Aggregation:
    """Something to compute where a query groups everything and asks for no aggregate."""
    column = context.fresh("count", "bigint")
    return Aggregation(column.name, "count", (), Expression(("count(*)",), "bigint"))


def _after(before: Builder, keys: Mapping[Key, Column], asked: Mapping[Expr, Expression]) -> Builder:
    """The builder of what comes after GROUP BY: of the columns of FROM, it sees those that are keys."""
    fields: list[Field] = []
    for each in before.scope.fields:
        key = keys.get(canonical(each.column.value))
        if key is not None:
            fields.append(replace(each, column=key))
    scope = Scope(tuple(fields), before.scope.parent, asked)
    return Builder(
        before.context,
        scope,
        aliases=before.aliases,
        aliases_first=before.aliases_first,
        keys=keys,
        before=before,
    )


def _grouping_calls(
    before: Builder, after: Builder, used: Sequence[Expr], expanded: Expanded, forms: Sequence[Key]
) -> None:
    """grouping(a) is a bit of the grouping id, grouping_id() the whole."""
    for node in used:
        for each in below(node):
            if isinstance(each, Call) and each.function in GROUPING:
                if each.function == "grouping_id":
                    after.values[each] = expanded.identity.value
                    continue
                form = canonical(before.draft(each.arguments[0]))
                if form not in forms:
                    raise refused("EXPRESSION_NOT_UNDERSTOOD", "grouping() of something not grouped by")
                after.values[each] = grouping_bit(expanded.identity, list(forms).index(form), len(forms))
            elif isinstance(each, Name) and each.parts[-1].lower() == "grouping__id":
                after.values[each] = expanded.identity.value
