"""Small plans that the rules are written with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anabranch.algebra.expression import Expression, equals, expression
from anabranch.algebra.relation import Aggregation, Column, Filter, Join, JoinKind, Output, Project, Relation
from anabranch.lower.names import FreshNames


def passing(columns: Iterable[Column]) -> tuple[Output, ...]:
    """The columns, unchanged."""
    return tuple(Output(each.name, each.value) for each in columns)


def pick(relation: Relation, columns: Sequence[Column]) -> Relation:
    """Just these columns, in this order."""
    names = tuple(each.name for each in columns)
    if relation.names == names:
        return relation
    return Project(relation, passing(relation.column(name) for name in names))


def extended(relation: Relation, *outputs: Output) -> Relation:
    """The relation with more columns."""
    return Project(relation, passing(relation.columns) + outputs) if outputs else relation


def filtered(relation: Relation, predicates: tuple[Expression, ...]) -> Relation:
    """The rows for which all predicates are true."""
    return Filter(relation, predicates) if predicates else relation


def renamed(relation: Relation, names: FreshNames) -> tuple[Relation, dict[str, str]]:
    """The same rows under new names, and the new name of each column."""
    new = {each.name: names.take("copy") for each in relation.columns}
    return Project(relation, tuple(Output(new[each.name], each.value) for each in relation.columns)), new


def join_apart(left: Relation, right: Relation, names: FreshNames) -> tuple[Relation, dict[str, str]]:
    """The right side under names that the left side does not have, and what became of each name.

    Two uses of one sub-plan (a CTE) have the same names.
    """
    taken = {name.lower() for name in left.names}
    if not any(name.lower() in taken for name in right.names):
        return right, {name: name for name in right.names}
    return renamed(right, names)


def one_each(left: Relation, right: Relation) -> Relation:
    """Every row of the left with the single row of the right."""
    return Join(left, right, JoinKind.INNER, ())


def same_row(left: Iterable[Column], right: Iterable[Column]) -> tuple[Expression, ...]:
    """`left <=> right`, column by column."""
    return tuple(equals(one.value, two.value, null_safe=True) for one, two in zip(left, right, strict=True))


def truth(name: str, value: bool = True) -> Output:
    """A boolean constant: a mark that a join leaves on the rows that have a partner."""
    return Output(name, expression("true" if value else "false", "boolean"))


def count_rows(name: str) -> Aggregation:
    """`COUNT(*)`."""
    return Aggregation(name, "count", (), expression("count(*)", "bigint"))


def aggregation(name: str, function: str, argument: Expression, type: str) -> Aggregation:
    """`function(argument)`."""
    return Aggregation(name, function, (argument,), expression(f"{function}({{}})", type, argument))
