"""Correlated conditions that are equalities: the ones a subquery can be grouped by."""

from __future__ import annotations

import re
from dataclasses import dataclass

from anabranch.algebra.expression import Expression, equals
from anabranch.algebra.relation import Output, Relation
from anabranch.lower.build import extended
from anabranch.lower.names import FreshNames

_EXACT_NUMBER = re.compile(r"tinyint|smallint|int|bigint|decimal\(\d+,\d+\)")


@dataclass(frozen=True)
class Key:
    """`inner = outer` (or `<=>`), where `inner` reads only the subquery's columns and `outer` only the enclosing row's.

    For one enclosing row at most one value of `inner` satisfies it, so grouping by `inner` loses nothing.
    """

    inner: Expression
    outer: Expression
    null_safe: bool

    @property
    def condition(self) -> Expression:
        return equals(self.inner, self.outer, self.null_safe)


def key_of(condition: Expression, bound: frozenset[str]) -> Key | None:
    """The condition as a key; `bound` are the enclosing row's columns. None if it is not such an equality."""
    equality = condition.equality
    if equality is None or not condition.deterministic:
        return None
    for inner, outer in ((equality.left, equality.right), (equality.right, equality.left)):
        apart = not inner.outer_columns & bound and not outer.columns
        if apart and inner.columns and compares_one_to_one(inner.type, outer.type):
            return Key(inner, outer, equality.null_safe)
    return None


def keys_of(conditions: tuple[Expression, ...], bound: frozenset[str]) -> list[Key] | None:
    """All conditions as keys, or None."""
    found = [key_of(each, bound) for each in conditions]
    return None if None in found else [each for each in found if each is not None]


def with_key_columns(relation: Relation, keys: list[Key], names: FreshNames) -> tuple[Relation, list[str]]:
    """The relation with a column for each key's inner side, and the names of these columns."""
    added: list[Output] = []
    columns: list[str] = []
    for key in keys:
        if key.inner.is_column:
            columns.append(next(iter(key.inner.columns)))
        else:
            added.append(Output(names.take("key"), key.inner))
            columns.append(added[-1].name)
    return extended(relation, *added), columns


def conditions_on(relation: Relation, keys: list[Key], columns: list[str]) -> tuple[Expression, ...]:
    """The keys as conditions on the key columns of the relation."""
    pairs = zip(keys, columns, strict=True)
    return tuple(equals(relation.column(name).value, key.outer, key.null_safe) for key, name in pairs)


def compares_one_to_one(one: str, other: str) -> bool:
    """Whether comparing the types casts no two different values to the same one, as string to int would."""
    return one == other or bool(_EXACT_NUMBER.fullmatch(one) and _EXACT_NUMBER.fullmatch(other))
