"""UNION, INTERSECT, EXCEPT. Branches are cast to Spark's common types first; names are the left one's.

l UNION r  =  Distinct(UnionAll(l, r))
"""

from __future__ import annotations

from anabranch.algebra.expression import expression
from anabranch.algebra.relation import Column, Distinct, Output, Project, Relation, SetKind, SetOperation, UnionAll
from anabranch.algebra.types import quoted_type
from anabranch.sql.context import Context, Rows
from anabranch.sql.refused import refused
from anabranch.sql.scope import Field


def combine(context: Context, operator: str, every: bool, by_name: bool, left: Rows, right: Rows) -> Rows:
    """The set operation of two results."""
    if by_name:
        right = _by_name(left, right)
    types = _common_types(context, left, right)
    lefts, rights = _cast(context, left, types), _cast(context, right, types)
    relation: Relation
    if operator == "UNION":
        inputs = lefts.inputs if isinstance(lefts, UnionAll) else (lefts,)
        relation = UnionAll((*inputs, rights))
        relation = relation if every else Distinct(relation)
    else:
        relation = SetOperation(SetKind(operator.lower()), every, lefts, rights)
    fields = tuple(Field(each.name, column) for each, column in zip(_visible(left), relation.columns, strict=True))
    return Rows(relation, fields)


def _visible(rows: Rows) -> list[Field]:
    return [each for each in rows.fields if not each.hidden]


def _by_name(left: Rows, right: Rows) -> Rows:
    theirs = {each.name.lower(): each for each in _visible(right)}
    if set(theirs) != {each.name.lower() for each in _visible(left)}:
        raise refused("NAME_NOT_UNDERSTOOD", "UNION BY NAME of different columns")
    return Rows(right.relation, tuple(theirs[each.name.lower()] for each in _visible(left)))


def _common_types(context: Context, left: Rows, right: Rows) -> list[str]:
    lefts, rights = ([each.column.type for each in _visible(rows)] for rows in (left, right))
    if lefts == rights:
        return lefts
    sides = []
    for types in (lefts, rights):
        nulls = ", ".join(f"CAST(NULL AS {quoted_type(type)}) AS c{place}" for place, type in enumerate(types))
        sides.append(f"SELECT {nulls}")
    return [each.type for each in context.analyzer.schema(" UNION ALL ".join(sides))]


def _cast(context: Context, rows: Rows, types: list[str]) -> Relation:
    """Exactly the visible columns, in order, with these types."""
    outputs: list[Output] = []
    taken: set[str] = set()
    for field, type in zip(_visible(rows), types, strict=True):
        value = field.column.value
        if field.column.type != type:
            value = expression(f"CAST({{}} AS {quoted_type(type)})", type, value)
        plain = value.is_column and field.column.name not in taken
        column = Column(field.column.name, type) if plain else context.fresh(field.name, type)
        taken.add(column.name)
        outputs.append(Output(column.name, value))
    if [each.name for each in outputs] == list(rows.relation.names) and all(each.value.is_column for each in outputs):
        return rows.relation
    return Project(rows.relation, tuple(outputs))
