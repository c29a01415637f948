"""Read narrowly: what meets a small relation need only hold the rows that can meet it.

    L op S = (L at keys of S) op S      S small (made of a change), keys = the equalities of the join
    S op R = S op (R at keys of S)

Run after the rules: they state which rows count, this pass moves that statement down to the tables.
"""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.relation import Change, Empty, Join, JoinKind, Relation
from anabranch.algebra.walk import transform
from anabranch.delta.equalities import matches
from anabranch.delta.restrict import Restrictor
from anabranch.delta.restrict_join import partners
from anabranch.delta.restriction import TABLES, Key, Restriction, is_table, narrow_key_set
from anabranch.delta.simplify import simplify


def narrow(root: Relation) -> Relation:
    """The same change, reading tables by the keys that the change touches."""
    restrictor = Restrictor()
    small = Smallness()

    def narrowed(relation: Relation) -> Relation:
        return _narrow_join(relation, restrictor, small) if isinstance(relation, Join) else relation

    return simplify(transform(root, narrowed))


class Smallness:
    """Which relations are about as large as the change, remembered."""

    def __init__(self) -> None:
        self._known: dict[Relation, bool] = {}

    def __call__(self, relation: Relation) -> bool:
        waiting = [relation]
        while waiting:
            unknown = [each for each in waiting[-1].children if each not in self._known]
            if unknown:
                waiting.extend(unknown)
            else:
                known = waiting.pop()
                self._known[known] = self._judge(known)
        return self._known[relation]

    def _judge(self, relation: Relation) -> bool:
        match relation:
            case Change() | Empty():
                return True
            case Join():
                return self._judge_join(relation)
        return bool(relation.children) and all(self._known[each] for each in relation.children)

    def _judge_join(self, join: Join) -> bool:
        """A join is small where a small side picks the rows of the other by keys, or keeps its own rows only."""
        left, right = self._known[join.left], self._known[join.right]
        by_keys = bool(matches(join, join.left, join.right) or matches(join, join.right, join.left))
        match join.kind:
            case JoinKind.INNER:
                return (left or right) and (by_keys or (left and right))
            case JoinKind.SEMI:
                return left or (right and by_keys)
            case JoinKind.ANTI:
                return left
            case JoinKind.LEFT:
                return left and (by_keys or right)
        return left and right


def _narrow_join(join: Join, restrictor: Restrictor, small: Smallness) -> Relation:
    left_small, right_small = small(join.left), small(join.right)
    if left_small and not right_small and join.kind is not JoinKind.FULL:
        return replace(join, right=partners(restrictor, join, join.right, join.left))
    if right_small and not left_small and join.kind is JoinKind.SEMI:
        return _narrow_semi(restrictor, join)
    if right_small and not left_small and join.kind is JoinKind.INNER:
        return replace(join, left=partners(restrictor, join, join.left, join.right))
    return join


def _narrow_semi(restrictor: Restrictor, join: Join) -> Relation:
    """A restriction by a key set disappears where pushing it down was exact."""
    found = matches(join, join.left, join.right)
    if not found:
        return join
    decides_all = len(found) == len(join.on) and all(match.null_safe for match in found)
    if isinstance(join.left, TABLES) or (is_table(join.left) and not decides_all):
        return join
    keys = tuple(Key(match.column, present=not match.null_safe) for match in found)
    keyset = narrow_key_set(join.right, [match.value for match in found])
    pushed = restrictor.push(join.left, Restriction(keys, keyset))
    return pushed.relation if pushed.exact and decides_all else replace(join, left=pushed.relation)
