"""A key restriction, pushed into a join.

Into the side of an inner join that holds the key, and across its equalities into the other one. Into the preserved side
of an outer join, and across its equalities into the other side, where only partners of the rows kept can matter. Into a
padded side only where rows with NULL in the key are not wanted: a padded row shows NULL, so it may come and go; the
restriction is then applied again above.

A side that the key itself does not reach is reduced to the partners of the side that it does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from anabranch.algebra.relation import Join, JoinKind, Relation, iterate
from anabranch.delta.equalities import across, matches
from anabranch.delta.restriction import TABLES, Key, Pushed, Restriction, is_table, narrow_key_set


class Pusher(Protocol):
    def push(self, relation: Relation, restriction: Restriction | None) -> Pushed: ...


@dataclass(frozen=True)
class _Sides:
    """Which side's rows all appear in the join's result, padded where they have no partner."""

    left_padded: bool
    right_padded: bool


_PADDED = {
    JoinKind.INNER: _Sides(False, False),
    JoinKind.LEFT: _Sides(False, True),
    JoinKind.FULL: _Sides(True, True),
    JoinKind.SEMI: _Sides(False, False),
    JoinKind.ANTI: _Sides(False, False),
}


def push_through_join(pusher: Pusher, join: Join, restriction: Restriction) -> Pushed:
    """Restrict either side by the keys that decide its rows."""
    padded = _PADDED[join.kind]
    held = [_held(join, key, padded) for key in restriction.keys]
    left = pusher.push(join.left, restriction.moved_to([_column_for(join, name, join.left) for name in held]))
    right = pusher.push(join.right, restriction.moved_to([_column_for(join, name, join.right) for name in held]))
    exact = _is_exact(join, restriction, left, right)
    only_pairs = join.kind is JoinKind.INNER or any(name in join.right.names for name in held)
    return Pushed(_reduced_by_partners(pusher, join, left.relation, right.relation, only_pairs), exact)


def _held(join: Join, key: Key, padded: _Sides) -> str | None:
    """The key's column, unless it may show the NULL of a padded row that is wanted."""
    may_be_padded = padded.left_padded if key.name in join.left.names else padded.right_padded
    return key.name if key.present or not may_be_padded else None


def _column_for(join: Join, name: str | None, side: Relation) -> str | None:
    """The column of a side that has the key's value in every row wanted: its own, or one that equals it."""
    if name is None or name in side.names:
        return name
    return across(join, name, side)


def _is_exact(join: Join, restriction: Restriction, left: Pushed, right: Pushed) -> bool:
    all_left = all(name in join.left.names for name in restriction.names)
    match join.kind:
        case JoinKind.INNER:
            moved_left = all(_column_for(join, name, join.left) for name in restriction.names)
            moved_right = all(_column_for(join, name, join.right) for name in restriction.names)
            return (left.exact and moved_left) or (right.exact and moved_right)
        case JoinKind.FULL:
            return False
    return left.exact and all_left


def _reduced_by_partners(pusher: Pusher, join: Join, left: Relation, right: Relation, only_pairs: bool) -> Join:
    """Reduce a side that the key did not reach to the partners of the side that it did.

    The left side only where `only_pairs` of rows are wanted: else a row counts for having no partner, too.
    """
    left_reached, right_reached = left is not join.left, right is not join.right
    if left_reached != right_reached and not _share_operators(join.left, join.right):
        if left_reached:
            right = partners(pusher, join, right, left)
        elif only_pairs:
            left = partners(pusher, join, left, right)
    return replace(join, left=left, right=right)


def partners(pusher: Pusher, join: Join, large: Relation, small: Relation) -> Relation:
    """One side of a join without rows that meet none of the other; a bare table is left to the join itself."""
    found = matches(join, large, small)
    if not found or is_table(large):
        return large
    keys = tuple(Key(match.column, present=not match.null_safe) for match in found)
    keyset = narrow_key_set(small, [match.value for match in found])
    return pusher.push(large, Restriction(keys, keyset)).relation


def _share_operators(left: Relation, right: Relation) -> bool:
    """Whether something beyond tables is below both sides; restricting it twice would copy it."""
    return not {each for each in iterate(left) if not isinstance(each, TABLES)}.isdisjoint(iterate(right))
