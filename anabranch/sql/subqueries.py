"""Subqueries in expressions: each becomes an Apply below, and a column where it stood.

WHERE x > (SELECT avg(y) FROM u WHERE u.k = t.k)
= Filter(x > s, Apply(t, scalar subquery, s))
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from anabranch.algebra.expression import negated
from anabranch.algebra.relation import Apply, ApplyKind, Column, Relation
from anabranch.sql.build import Builder, nested_in
from anabranch.sql.query_syntax import Query
from anabranch.sql.refused import refused
from anabranch.sql.syntax import Expr, Nested, NestedKind

KINDS = {
    NestedKind.SCALAR: ApplyKind.SCALAR,
    NestedKind.EXISTS: ApplyKind.EXISTS,
    NestedKind.IN: ApplyKind.IN,
}


def apply_subqueries(builder: Builder, relation: Relation, nodes: Iterable[Expr]) -> Relation:
    """The relation with a column for each subquery in the nodes; the builder knows them from now on."""
    for node in nodes:
        for nested in nested_in(node):
            if nested not in builder.values:
                relation = _apply(builder, relation, nested)
    return relation


def _apply(builder: Builder, relation: Relation, nested: Nested) -> Relation:
    context = builder.context
    if nested.kind not in KINDS:
        raise refused("TABLE_ARGUMENT", place=context.source.place(nested.start))
    query = nested.query
    if nested.kind is NestedKind.EXISTS:
        query = _without_limit(query)
    for inner in nested.probe:
        relation = apply_subqueries(builder, relation, [inner])
    rows = context.rows_of(query, builder.scope)
    probe = tuple(context.typed([builder.draft(each) for each in nested.probe]))
    type = rows.fields[0].column.type if nested.kind is NestedKind.SCALAR else "boolean"
    output = context.fresh(nested.kind.value, type)
    applied = Apply(relation, rows.relation, KINDS[nested.kind], Column(output.name, type), probe)
    value = output.value
    builder.values[nested] = negated(value) if nested.negated else value
    return applied


def _without_limit(query: Query) -> Query:
    """EXISTS asks for a row at all: ORDER BY and a positive LIMIT change nothing."""
    limit = getattr(query.limit, "value", None)
    if query.limit is not None and isinstance(limit, int) and limit > 0 and query.offset is None:
        return replace(query, limit=None, order=())
    return replace(query, order=()) if query.limit is None and query.offset is None else query
