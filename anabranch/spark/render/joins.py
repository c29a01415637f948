"""Joins: weights multiply; a missing weight is 1.

    INNER  l * r        LEFT  l * coalesce(r, 1)        FULL  coalesce(l, 1) * coalesce(r, 1)        SEMI, ANTI  l

The side that is tested for partners must be a bag: a Z-set there is summed up first and then has positive weights,
which may multiply. A condition on the tested side moves into ON, one on the preserved side stays in WHERE.

Spark joins without an equality by sending one side to all, in a job of its own and only once for a plan. Where both
sides are at hand an equality that always holds is put before the condition: `CAST(l.x IS NULL AS INT) & 0 = ...`.
"""

from __future__ import annotations

from collections import Counter

from anabranch.algebra.relation import Filter, Join, JoinKind, Project, Relation, Support
from anabranch.spark.render.block import Block, Shape, Weight, conjunction, references
from anabranch.spark.render.scope import Scope

KEYWORDS = {
    JoinKind.INNER: "JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.FULL: "FULL JOIN",
    JoinKind.SEMI: "LEFT SEMI JOIN",
    JoinKind.ANTI: "LEFT ANTI JOIN",
}


def render_join(relation: Join, scope: Scope) -> Shape:
    """... [kind] JOIN ... ON ..."""
    read = references(relation.on)
    left = _left_side(relation, scope, read)
    right = _right_side(relation, scope, read)
    both = Block({**left.cells, **right.cells}, source="")
    on = tuple(both.fill(each) for each in relation.on)
    where = left.where
    if relation.kind is JoinKind.INNER:
        where += right.where
    else:
        on = _with_a_key(relation, left, right, on + right.where)
    keeps_right = relation.kind not in (JoinKind.SEMI, JoinKind.ANTI)
    return Block(
        cells=both.cells if keeps_right else left.cells,
        source=_source(relation.kind, left, right, on),
        weight=_weight(relation.kind, left.weight, right.weight),
        where=where,
        broadcast=left.broadcast + right.broadcast + _small_side(relation, right, scope),
        recursions=left.recursions | right.recursions,
        local=left.local and right.local,
        scattered=relation.kind in (JoinKind.INNER, JoinKind.FULL),
    )


def _left_side(relation: Join, scope: Scope, read: Counter[str]) -> Block:
    child = relation.left
    is_full = relation.kind is JoinKind.FULL
    block = scope.positive(child) if is_full else scope.open(child)
    plain = block.is_bare and not block.where if is_full else block.can_give(_demand(child, read, passed_on=True))
    return _joinable(block, child, scope, plain)


def _right_side(relation: Join, scope: Scope, read: Counter[str]) -> Block:
    child = relation.right
    inner = relation.kind is JoinKind.INNER
    block = scope.open(child) if inner else scope.positive(child)
    match relation.kind:
        case JoinKind.INNER:
            plain = block.can_give(_demand(child, read, passed_on=True))
        case JoinKind.SEMI | JoinKind.ANTI:
            plain = block.can_give(_demand(child, read, passed_on=False))
        case JoinKind.LEFT:
            plain = block.is_bare
        case JoinKind.FULL:
            plain = block.is_bare and not block.where
    return _joinable(block, child, scope, plain)


def _joinable(block: Block, child: Relation, scope: Scope, plain: bool) -> Block:
    is_gathered = not (block.local and block.scattered) or block.recursions
    return block if plain and not block.laterals and is_gathered else scope.close(block, child.names)


def _demand(child: Relation, read: Counter[str], passed_on: bool) -> Counter[str]:
    """How often each column of the child stands in the result: in ON, and once more if it is passed on."""
    return Counter({name: read[name] + passed_on for name in child.names})


def _with_a_key(relation: Join, left: Block, right: Block, on: tuple[str, ...]) -> tuple[str, ...]:
    """The condition with an equality that always holds, if it has none and all rows are at hand."""
    sides = [next((cell for cell in side.cells.values() if cell.bare), None) for side in (left, right)]
    zeros = [f"(CAST({cell.text} IS NULL AS INT) & 0)" for cell in sides if cell is not None]
    has_key = any(each.equality for each in relation.on)
    return on if has_key or len(zeros) < 2 or not (left.local and right.local) else (" = ".join(zeros), *on)


def _source(kind: JoinKind, left: Block, right: Block, on: tuple[str, ...]) -> str:
    if kind is JoinKind.INNER and not on:
        return f"{left.source} CROSS JOIN {_one_item(right)}"
    return f"{left.source} {KEYWORDS[kind]} {_one_item(right)} ON {conjunction(on)}"


def _one_item(block: Block) -> str:
    return block.source if block.alias else f"({block.source})"


def _weight(kind: JoinKind, left: Weight | None, right: Weight | None) -> Weight | None:
    if kind in (JoinKind.SEMI, JoinKind.ANTI):
        return left
    if kind is JoinKind.FULL:
        left = _or_one(left)
    if kind is not JoinKind.INNER:
        right = _or_one(right)
    if left is None or right is None:
        return left or right
    return left.times(right)


def _or_one(weight: Weight | None) -> Weight | None:
    """The weight of a row that may be missing."""
    return weight and Weight(1, (f"coalesce({weight.text}, 1L)",))


def _small_side(relation: Join, right: Block, scope: Scope) -> tuple[str, ...]:
    """The keys of a change are few: send them to the rows, not the rows to them. A broadcast is a job of its own."""
    is_by_keys = relation.kind in (JoinKind.SEMI, JoinKind.LEFT)
    if right.alias is None or not (scope.broadcast_keys and is_by_keys) or scope.is_local(relation.left):
        return ()
    keys = relation.right
    while isinstance(keys, Project | Filter):
        keys = keys.child
    is_few = isinstance(keys, Support) or (scope.is_bound(keys) and scope.is_local(keys))
    return (right.alias,) if is_few else ()
