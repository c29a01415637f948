"""Small plans that rules and passes are written with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anabranch.algebra.expression import Expression, equals, expression
from anabranch.algebra.relation import (
    RESERVED_PREFIX,
    Column,
    Consolidate,
    Join,
    JoinKind,
    Negate,
    Output,
    Project,
    Relation,
    Support,
    UnionAll,
    Weigh,
)

KEY_PREFIX = f"{RESERVED_PREFIX}at_"
"""Columns of key sets; no other column starts like this, so a key set joins with everything."""

TERM_WEIGHT = f"{RESERVED_PREFIX}term_weight"
"""A weight turned into a column and dropped: every term then counts, whatever its sign."""


def minus(new: Relation, old: Relation) -> Relation:
    """new - old."""
    return UnionAll((new, Negate(old)))


def pick(relation: Relation, names: Iterable[str]) -> Relation:
    """The named columns, in that order."""
    return Project(relation, tuple(Output(name, relation.column(name).value) for name in names))


def renamed(relation: Relation, names: Sequence[str]) -> Relation:
    """The same rows under other column names."""
    if relation.names == tuple(names):
        return relation
    pairs = zip(names, relation.columns, strict=True)
    return Project(relation, tuple(Output(name, each.value) for name, each in pairs))


def key_set(relation: Relation, values: Sequence[Expression]) -> Support:
    """The keys that occur in a Z-set with either sign, NULLs included, as columns `__ab_at_1`, `__ab_at_2`, ...

    Weights are taken off the rows before other columns are dropped: {(k, 1): +1, (k, 2): -1} touches k, although the
    weights of k alone would cancel.
    """
    outputs = (Output(f"{KEY_PREFIX}{index}", value) for index, value in enumerate(values, start=1))
    return Support(Project(Weigh(relation, TERM_WEIGHT), tuple(outputs)))


def keys_of(relation: Relation, names: Sequence[str]) -> Support:
    """The values of the named columns that occur in a Z-set with either sign."""
    return key_set(relation, [relation.column(name).value for name in names])


def touched_keys(change: Relation, names: Sequence[str]) -> Support:
    """The keys of the rows that a change leaves when it is summed up.

    Who takes rows out by these keys and puts rows in by them may do so in two jobs, and needs the same keys in both:
    of terms that cancel, one job may still see the rows and the other no longer.
    """
    return keys_of(Consolidate(change), names)


def renamed_keys(rows: Relation) -> Relation:
    """Rows that are keys, each once, as a key set."""
    return renamed(rows, [f"{KEY_PREFIX}{number}" for number in range(1, len(rows.columns) + 1)])


def at(relation: Relation, keys: Sequence[str], keyset: Relation) -> Relation:
    """The rows whose keys are in the key set; NULL is in it where it was touched, hence `<=>`."""
    pairs = zip(keys, keyset.columns, strict=True)
    on = tuple(equals(relation.column(key).value, each.value, null_safe=True) for key, each in pairs)
    return Join(relation, keyset, JoinKind.SEMI, on)


def null_of(column: Column) -> Output:
    """The column, holding NULL."""
    return Output(column.name, expression("CAST(NULL AS {})", column.type, column.type))
