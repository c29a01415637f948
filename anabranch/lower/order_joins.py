"""Order the inner joins of one FROM so that each joins on something.

    (part x supplier) join lineitem on c and d  =  (part join lineitem on c) join supplier on d

People list tables in any order and leave it to the optimizer. Here the order matters more than in one query: the change
of a join is made of its sides, and a product of two tables is no side to be left with. Tables are taken as written,
each time the first one that an equality (or else any condition) connects with those before; a product comes last.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation import Join, JoinKind, Relation, iterate
from anabranch.algebra.walk import with_children
from anabranch.lower.build import filtered, pick
from anabranch.lower.names import FreshNames
from anabranch.lower.sharing import shared_by_several


def order_joins(root: Relation, names: FreshNames) -> Relation:
    """Reorder every group of neighbouring inner joins that has a product in it."""
    shared = shared_by_several(root)
    done: dict[Relation, Relation] = {}
    for relation in iterate(root):
        if _is_inner(relation):
            inputs, conditions = _flattened(relation, shared)
            if _has_product(relation, shared):
                done[relation] = pick(_joined([done[each] for each in inputs], conditions), relation.columns)
                continue
        done[relation] = with_children(relation, {child: done[child] for child in relation.children})
    return done[root]


def _is_inner(relation: Relation) -> bool:
    return isinstance(relation, Join) and relation.kind is JoinKind.INNER


def _joins(top: Relation, shared: frozenset[Relation]) -> list[Join]:
    """The inner joins of the group, the top one first; a shared one is a table to its readers."""
    found: list[Join] = []
    waiting = [top]
    while waiting:
        relation = waiting.pop()
        if isinstance(relation, Join) and _is_inner(relation) and (relation is top or relation not in shared):
            found.append(relation)
            waiting += [relation.right, relation.left]
    return found


def _flattened(top: Relation, shared: frozenset[Relation]) -> tuple[list[Relation], list[Expression]]:
    """The inputs of the group as written, left to right, and all its conditions, the innermost first."""
    joins = _joins(top, shared)
    inside = set(joins)
    inputs: list[Relation] = []

    def collect(relation: Relation) -> None:
        for side in relation.children:
            if side in inside:
                collect(side)
            else:
                inputs.append(side)

    collect(top)
    return inputs, [condition for join in reversed(joins) for condition in join.on]


def _has_product(top: Relation, shared: frozenset[Relation]) -> bool:
    """Whether some join of the group, not the last alone, connects nothing."""
    joins = _joins(top, shared)
    return len(joins) > 1 and any(not _connects(join.on, join.left.names, join.right.names) for join in joins)


def _connects(conditions: Sequence[Expression], left: Sequence[str], right: Sequence[str]) -> bool:
    return any(each.columns & set(left) and each.columns & set(right) for each in conditions)


def _joined(inputs: list[Relation], conditions: list[Expression]) -> Relation:
    """Join the inputs one by one; a condition is tested as soon as its columns are there."""
    current, waiting, pending = inputs[0], inputs[1:], conditions
    while waiting:
        following = _next(current, waiting, pending)
        waiting = [each for each in waiting if each is not following]
        names = {*current.names, *following.names}
        ready = tuple(each for each in pending if each.columns <= names)
        pending = [each for each in pending if each not in ready]
        current = Join(current, following, JoinKind.INNER, ready)
    return filtered(current, tuple(pending))


def _next(current: Relation, waiting: list[Relation], conditions: list[Expression]) -> Relation:
    """The first input connected by an equality, else by any condition that can be tested, else the first."""
    for wanted in (True, False):
        for each in waiting:
            names = {*current.names, *each.names}
            usable = [
                item for item in conditions if item.columns <= names and (item.equality is not None or not wanted)
            ]
            if _connects(usable, current.names, each.names):
                return each
    return waiting[0]
