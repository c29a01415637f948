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
from contextlib import suppress
from dataclasses import replace

from anabranch.algebra.expression import expression, negated
from anabranch.algebra.relation import Apply, ApplyKind, Column, Relation
from anabranch.sql.build import Builder, canonical_text
from anabranch.sql.query_syntax import Query
from anabranch.sql.refused import RefusedError, refused
from anabranch.sql.scope import Field
from anabranch.sql.syntax import Conjunction, Disjunction, Equal, Expr, Name, Nested, NestedKind, Not, Paren
from anabranch.sql.syntax_walk import nested_in, windows_in
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
        for nested, negative in list(signed_subqueries(builder, node)):
            relation = apply_subquery(builder, relation, nested, negative, within_join)
    return relation


def aliases_as_columns(builder: Builder, relation: Relation, nodes: Iterable[Expr]) -> tuple[Builder, Relation]:
    """Items of the SELECT list that subqueries in the nodes call by their aliases, as columns that they can read."""
    source, scope = builder.context.source, builder.scope
    spans = [source.tokens[nested.start : nested.end] for node in nodes for nested in nested_in(node)]
    words = {token.text.lower() for tokens in spans for token in tokens}
    for name in [each for each in builder.aliases if each in words and scope.find((each,)) is None]:
        item = builder.aliases[name]
        with suppress(RefusedError):
            if isinstance(item, Expr):
                if any(call not in builder.values for call in windows_in(item)):
                    continue
                relation = apply_subqueries(builder, relation, [item])
            value = builder.draft(item) if isinstance(item, Expr) else item
            relation, (column,) = builder.context.extended(relation, [(name, value)])
            scope = replace(scope, fields=(*scope.fields, Field(name, column)))
    return replace(builder, scope=scope), relation


def signed_subqueries(builder: Builder, node: Expr, negative: bool = False) -> Iterator[tuple[Nested, bool]]:
    """The subqueries of an expression, and whether an odd number of NOTs is pushed down to them.

    One inside a node that is a column already (an aggregate's argument or a key, after GROUP BY) was applied below.
    """
    if builder.is_known(node):
        return
    source = builder.context.source
    pushed = True
    match node:
        case Nested():
            yield node, negative
            pushed = False
        case Not():
            negative = not negative
        case Name() if isinstance(alias := builder.alias_of(node), Expr):
            yield from signed_subqueries(builder, alias, negative)
        case Equal(null_safe=False) if (word := _truth_word(node, source)) is not None:
            negative = negative != (word == "false")
        case Paren() | Conjunction() | Disjunction():
            pass
        case _:
            pushed = False
    for child in node.children:
        yield from signed_subqueries(builder, child, pushed and negative)


def recognise(builder: Builder, keys: Iterable[Expr], nodes: Iterable[Expr]) -> None:
    """Subqueries with the text of one in a grouping key are the column that it is, as Spark finds keys again."""
    known = {_text(builder, each): builder.values[each] for key in keys for each in nested_in(key)}
    for nested in (each for node in nodes for each in nested_in(node)) if known else ():
        value = known.get(_text(builder, nested))
        if value is not None:
            builder.values.setdefault(nested, value)


def _text(builder: Builder, node: Expr) -> str:
    return canonical_text(builder.context.source.slice(node.start, node.end))


def _truth_word(node: Equal, source: Source) -> str | None:
    """The constant that a truth value is compared with: `x = false` is NOT x to Spark."""
    words = (source.slice(side.start, side.end).lower() for side in (node.left, node.right))
    return next((word for word in words if word in ("true", "false")), None)


def apply_subquery(
    builder: Builder, relation: Relation, nested: Nested, negative: bool, within_join: bool = False
) -> Relation:
    """The relation with a column for one subquery, unless there is one already."""
    if nested in builder.values:
        return relation
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
    """EXISTS asks for a row at all: ORDER BY and a positive LIMIT change nothing, and any rows may be left out."""
    limit = getattr(query.limit, "value", None)
    if isinstance(limit, int) and limit > 0:
        query = replace(query, limit=None)
    return replace(query, order=(), in_any_order=True)
