"""Subqueries in expressions: each becomes an Apply below, and a column where it stood.

WHERE x > (SELECT avg(y) FROM u WHERE u.k = t.k)
= Filter(x > s, Apply(t, scalar subquery, s))

To Spark, `x IN (subquery)` is never unknown: it asks whether there is a row for which `x = y` is true, and `x NOT IN`
whether there is none for which it is true or unknown. Which of the two it is shows only after NOTs are pushed down:

    x IN q          =  coalesce(in, false)          NOT (x IN q OR p)       =  NOT coalesce(in, true) AND NOT p
    x NOT IN q      =  NOT coalesce(in, true)       coalesce(NOT x IN q, p) =  NOT coalesce(in, true)

In a condition that Spark evaluates within a join, `x NOT IN q` asks whether there is no row for which `x = y` is true:

    x NOT IN q      =  NOT coalesce(in, false)      where ON has it and it cannot be moved to the side it reads
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from anabranch.algebra.expression import expression, negated
from anabranch.algebra.relation import Apply, ApplyKind, Column, Relation
from anabranch.sql.build import Builder
from anabranch.sql.query_syntax import Query
from anabranch.sql.refused import refused
from anabranch.sql.syntax import Conjunction, Disjunction, Equal, Expr, Nested, NestedKind, Not, Paren
from anabranch.sql.tokens import Source

KINDS = {
    NestedKind.SCALAR: ApplyKind.SCALAR,
    NestedKind.EXISTS: ApplyKind.EXISTS,
    NestedKind.IN: ApplyKind.IN,
}


def apply_subqueries(
    builder: Builder, relation: Relation, nodes: Iterable[Expr], within_join: bool = False
) -> Relation:
    """The relation with a column for each subquery in the nodes; the builder knows them from now on."""
    for node in nodes:
        for nested, negative in list(_with_sign(node, builder)):
            if nested not in builder.values:
                relation = _apply(builder, relation, nested, negative, within_join)
    return relation


def _with_sign(node: Expr, builder: Builder, negative: bool = False) -> Iterator[tuple[Nested, bool]]:
    """The subqueries of an expression, and whether an odd number of NOTs is pushed down to them.

    One inside a node that is a column already (an aggregate's argument, after GROUP BY) has been applied below.
    """
    if node in builder.values:
        return
    source = builder.context.source
    pushed = True
    match node:
        case Nested():
            yield node, negative
            pushed = False
        case Not():
            negative = not negative
        case Equal(null_safe=False) if (word := _truth_word(node, source)) is not None:
            negative = negative != (word == "false")
        case Paren() | Conjunction() | Disjunction():
            pass
        case _:
            pushed = False
    for child in node.children:
        yield from _with_sign(child, builder, pushed and negative)


def _truth_word(node: Equal, source: Source) -> str | None:
    """The constant that a truth value is compared with: `x = false` is NOT x to Spark."""
    words = (source.slice(side.start, side.end).lower() for side in (node.left, node.right))
    return next((word for word in words if word in ("true", "false")), None)


def _apply(builder: Builder, relation: Relation, nested: Nested, negative: bool, within_join: bool) -> Relation:
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
    if [each.type for each in probe] == ["void"]:  # NULL IN (SELECT ...) is NULL, whatever is there
        builder.bare[nested] = builder.values[nested] = expression("CAST(NULL AS boolean)", "boolean")
        return relation
    type = rows.fields[0].column.type if nested.kind is NestedKind.SCALAR else "boolean"
    output = context.fresh(nested.kind.value, type)
    applied = Apply(relation, rows.relation, KINDS[nested.kind], Column(output.name, type), probe)
    value = output.value
    if nested.kind is NestedKind.IN:
        unknown = "true" if negative != nested.negated and not within_join else "false"
        value = expression(f"coalesce({{}}, {unknown})", "boolean", value)
    bare = value if within_join else output.value
    builder.bare[nested] = negated(bare) if nested.negated else bare
    builder.values[nested] = negated(value) if nested.negated else value
    return applied


def _without_limit(query: Query) -> Query:
    """EXISTS asks for a row at all: ORDER BY and a positive LIMIT change nothing."""
    limit = getattr(query.limit, "value", None)
    if query.limit is not None and isinstance(limit, int) and limit > 0 and query.offset is None:
        return replace(query, limit=None, order=())
    return replace(query, order=()) if query.limit is None and query.offset is None else query
