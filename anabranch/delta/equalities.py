"""What the equalities of a join's condition say about its columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from anabranch.algebra.expression import Equality, Expression
from anabranch.algebra.relation import Join, Relation


@dataclass(frozen=True)
class Match:
    """A conjunct `column = value`, or `<=>`: a bare column of one side, a value of the other."""

    column: str
    value: Expression
    null_safe: bool


def matches(join: Join, column_side: Relation, value_side: Relation) -> list[Match]:
    """The conjuncts that tell, for each row of one side, which rows of the other it can meet; one for each column."""
    found: dict[str, Match] = {}
    for each in _equalities(join):
        one, other = each.left, each.right
        readable = other.columns and other.columns <= set(value_side.names) and other.deterministic
        if one.is_column and one.columns <= set(column_side.names) and readable:
            name = next(iter(one.columns))
            found.setdefault(name, Match(name, other, each.null_safe))
    return list(found.values())


def across(join: Join, key: str, side: Relation) -> str | None:
    """The column of `side` that equals the key in every pair; of the same type, so that equality is transitive."""
    for each in _equalities(join):
        bare = each.left.is_column and each.right.is_column and each.left.type == each.right.type
        if bare and each.left.columns == {key} and each.right.columns <= set(side.names):
            return next(iter(each.right.columns))
    return None


def _equalities(join: Join) -> Iterator[Equality]:
    """Both readings of each equality: `a = b` and `b = a`."""
    for each in join.on:
        if each.equality is not None:
            yield each.equality
            yield Equality(each.equality.right, each.equality.left, each.equality.null_safe)
