"""Joins: sides, conditions, and the columns USING and NATURAL merge.

l RIGHT JOIN r  =  r LEFT JOIN l, columns put back in order
USING (k): one column k (the preserved side's; coalesce of both for FULL), the sides' own reachable as l.k and r.k
"""

from __future__ import annotations

from anabranch.algebra.expression import Expression, equals, expression
from anabranch.algebra.holes import outer_columns
from anabranch.algebra.relation import Apply, Filter, Join, JoinKind, LateralJoin, Output, Project, Relation
from anabranch.sql.build import Builder
from anabranch.sql.context import Context, Rows
from anabranch.sql.from_syntax import JoinItem
from anabranch.sql.refused import refused
from anabranch.sql.scope import Field, Scope
from anabranch.sql.subqueries import apply_subqueries, apply_subquery, signed_subqueries
from anabranch.sql.syntax import Expr
from anabranch.sql.syntax_walk import conjuncts, nested_in

KINDS = {
    "inner": JoinKind.INNER,
    "cross": JoinKind.INNER,
    "left": JoinKind.LEFT,
    "right": JoinKind.LEFT,
    "full": JoinKind.FULL,
    "semi": JoinKind.SEMI,
    "anti": JoinKind.ANTI,
}


def join_rows(
    context: Context, item: JoinItem, left: Rows, right: Rows, parent: Scope | None, lateral: bool = False
) -> Rows:
    """The joined rows and the columns visible after the join."""
    names = _merged_names(item, left, right)
    if names:
        pairs = [(_key(left, name), _key(right, name)) for name in names]
        on = tuple(context.typed([_equal(a, b) for a, b in pairs]))
        relation = _joined(context, item.kind, left.relation, right.relation, on, lateral)
        return _merge(context, item.kind, relation, left, right, pairs)
    fields = left.fields if item.kind in ("semi", "anti") else left.fields + right.fields
    builder = Builder(context, Scope(left.fields + right.fields, parent))
    conditions = conjuncts(item.on)
    if any(True for each in conditions for _ in nested_in(each)):
        return Rows(_with_subqueries(builder, item.kind, left.relation, right.relation, conditions, lateral), fields)
    on = builder.predicates(conditions)
    return Rows(_joined(context, item.kind, left.relation, right.relation, on, lateral), fields)


def _joined(
    context: Context, kind: str, left: Relation, right: Relation, on: tuple[Expression, ...], lateral: bool = False
) -> Relation:
    if lateral:
        if kind not in ("inner", "cross", "left"):
            raise refused("SYNTAX_NOT_UNDERSTOOD", f"{kind} lateral join")
        return LateralJoin(left, right, KINDS[kind], on)
    if kind == "full" and any(each.outer_columns for each in on):
        raise refused("FULL_JOIN_ON_OUTER_COLUMN")
    if kind == "right":
        turned = Join(right, left, JoinKind.LEFT, on)
        return Project(turned, tuple(Output(each.name, each.value) for each in left.columns + right.columns))
    return Join(left, right, KINDS[kind], on)


MOVED_TO = {
    "inner": {"left", "right"},
    "cross": {"left", "right"},
    "semi": {"left", "right"},
    "left": {"right"},
    "anti": {"right"},
    "right": {"left"},
    "full": set(),
}
"""The sides to which Spark moves a condition of ON that reads no other, as a filter below the join."""


def _with_subqueries(
    builder: Builder, kind: str, left: Relation, right: Relation, conditions: list[Expr], lateral: bool
) -> Relation:
    """ON with subqueries: each is evaluated on the side it reads, or on the pairs of an inner join."""
    columns = left.columns if kind in ("semi", "anti") else left.columns + right.columns
    sides = {"left": left, "right": right}
    joined = pairs = _joined(builder.context, "inner", left, right, (), lateral)
    for condition in conditions:
        within = _side(_names_read(builder, condition, joined), sides) not in MOVED_TO[kind]
        if kind in ("inner", "cross"):
            pairs = apply_subqueries(builder, pairs, [condition], within)
        else:
            sides = _applied_to_sides(builder, sides, condition, joined, within)
    on = builder.predicates(conditions)
    if kind in ("inner", "cross"):
        return builder.context.narrowed(Filter(pairs, on), [each.name for each in columns])
    relation = _joined(builder.context, kind, sides["left"], sides["right"], on, lateral)
    return builder.context.narrowed(relation, [each.name for each in columns])


def _applied_to_sides(
    builder: Builder, sides: dict[str, Relation], condition: Expr, joined: Relation, within: bool
) -> dict[str, Relation]:
    for nested, negative in list(signed_subqueries(builder, condition)):
        asked = _side(_names_asked(builder, nested, joined), sides)
        if asked is None:
            raise refused("SUBQUERY_IN_OUTER_JOIN", place=builder.context.source.place(nested.start))
        sides = {**sides, asked: apply_subquery(builder, sides[asked], nested, negative, within)}
    return sides


def _side(names: set[str], sides: dict[str, Relation]) -> str | None:
    """The side that has all of the columns."""
    return next((side for side, relation in sides.items() if names <= set(relation.names)), None)


def _names_asked(builder: Builder, node: Expr, joined: Relation) -> set[str]:
    """The columns that the node's subqueries read of the joined rows."""
    trial = Builder(builder.context, builder.scope)
    return _names_applied(apply_subqueries(trial, joined, [node]), joined)


def _names_read(builder: Builder, condition: Expr, joined: Relation) -> set[str]:
    """The columns that the whole condition reads of the joined rows, those that its subqueries read included."""
    trial = Builder(builder.context, builder.scope)
    applied = apply_subqueries(trial, joined, [condition])
    (value,) = trial.predicates([condition])
    return _names_applied(applied, joined) | (value.columns & set(joined.names))


def _names_applied(applied: Relation, joined: Relation) -> set[str]:
    names: set[str] = set()
    while isinstance(applied, Apply) and applied is not joined:
        names |= outer_columns(applied.children[1]).union(*(value.columns for value in applied.probe))
        applied = applied.child
    return names & set(joined.names)


def _merged_names(item: JoinItem, left: Rows, right: Rows) -> tuple[str, ...]:
    if item.using:
        return item.using
    if not item.natural:
        return ()
    theirs = {each.name.lower() for each in right.fields if not each.hidden}
    return tuple(each.name for each in left.fields if not each.hidden and each.name.lower() in theirs)


def _key(rows: Rows, name: str) -> Field:
    for each in rows.fields:
        if not each.hidden and each.name.lower() == name.lower():
            return each
    raise refused("NAME_NOT_UNDERSTOOD", f"USING ({name})")


def _equal(left: Field, right: Field) -> Expression:
    return equals(left.column.value, right.column.value)


def _merge(
    context: Context, kind: str, relation: Relation, left: Rows, right: Rows, pairs: list[tuple[Field, Field]]
) -> Rows:
    lefts, rights = [a for a, _ in pairs], [b for _, b in pairs]
    left_rest = [each for each in left.fields if each not in lefts]
    right_rest = [each for each in right.fields if each not in rights]
    if kind in ("semi", "anti"):
        return Rows(relation, (*lefts, *left_rest))
    if kind == "full":
        values = [expression("coalesce({}, {})", "", a.column.value, b.column.value) for a, b in pairs]
        relation, columns = context.extended(
            relation, [(a.name, value) for (a, _), value in zip(pairs, values, strict=True)]
        )
        merged = [Field(a.name, column) for (a, _), column in zip(pairs, columns, strict=True)]
        hidden = [_hidden(each) for each in (*lefts, *rights)]
    elif kind == "right":
        merged, hidden = rights, [_hidden(each) for each in lefts]
    else:
        merged, hidden = lefts, [_hidden(each) for each in rights]
    return Rows(relation, (*merged, *left_rest, *right_rest, *hidden))


def _hidden(field: Field) -> Field:
    return Field(field.name, field.column, field.qualifier, hidden=True)
