"""What the equalities of a join's condition say about its columns."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation import Join, Relation


def matches(join: Join, column_side: Relation, value_side: Relation) -> list[tuple[str, Expression]]:
    """Conjuncts `column = value` with a bare column of one side and a deterministic value of the other."""
    found: dict[str, Expression] = {}
    for one, other in _sides(join):
        readable = other.columns and other.columns <= set(value_side.names) and other.deterministic
        if one.is_column and one.columns <= set(column_side.names) and readable:
            found.setdefault(next(iter(one.columns)), other)
    return list(found.items())


def across(join: Join, key: str, side: Relation) -> str | None:
    """The column of `side` that equals the key in every row; of the same type, so that equality is transitive."""
    for one, other in _sides(join):
        bare = one.is_column and other.is_column and one.type == other.type
        if bare and one.columns == {key} and other.columns <= set(side.names) and not one.columns <= set(side.names):
            return next(iter(other.columns))
    return None


def _sides(join: Join) -> Iterator[tuple[Expression, Expression]]:
    for each in join.on:
        if each.equality is not None:
            yield each.equality.left, each.equality.right
            yield each.equality.right, each.equality.left
