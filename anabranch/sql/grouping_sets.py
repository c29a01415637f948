"""GROUP BY with ROLLUP, CUBE and GROUPING SETS.

    GROUP BY ROLLUP (a, b)  =  every row three times, as (a, b, 0), (a, NULL, 1), (NULL, NULL, 3), grouped by all three

The last column is Spark's grouping id: a bit per grouping expression, the first the highest, set where it is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from anabranch.algebra.expression import Expression, expression
from anabranch.algebra.relation import Column, Expand, Relation
from anabranch.algebra.types import quoted_type
from anabranch.sql.build import Key
from anabranch.sql.context import Context
from anabranch.sql.query_syntax import Group, GroupItem, GroupKind
from anabranch.sql.syntax import Expr


def grouping_sets(group: Group) -> list[tuple[Expr, ...]] | None:
    """The sets of expressions to group by, or None for a plain GROUP BY."""
    plain = [each.sets[0][0] for each in group.items if each.kind is GroupKind.PLAIN]
    if group.suffix is not None:
        if group.suffix.kind is GroupKind.SETS:
            return _sets_of(group.suffix)
        return _sets_of(GroupItem(group.suffix.kind, tuple((each,) for each in plain)))
    if all(each.kind is GroupKind.PLAIN for each in group.items):
        return None
    parts = [_sets_of(each) for each in group.items]
    return [tuple(each for piece in combination for each in piece) for combination in product(*parts)]


def _sets_of(item: GroupItem) -> list[tuple[Expr, ...]]:
    match item.kind:
        case GroupKind.PLAIN:
            return [item.sets[0]]
        case GroupKind.SETS:
            return [each for nested in item.nested for each in _sets_of(nested)]
        case GroupKind.ROLLUP:
            prefixes = range(len(item.sets), -1, -1)
            return [tuple(each for piece in item.sets[:count] for each in piece) for count in prefixes]
        case GroupKind.CUBE:
            choices = product(*((piece, ()) for piece in item.sets))
            return [tuple(each for piece in choice for each in piece) for choice in choices]


def grouping_expressions(group: Group, sets: Sequence[tuple[Expr, ...]]) -> list[Expr]:
    """All grouping expressions in the order of the text."""
    if group.suffix is not None:
        return [each.sets[0][0] for each in group.items]
    return sorted({each for one in sets for each in one}, key=lambda node: node.start)


@dataclass(frozen=True)
class Expanded:
    """Rows repeated per grouping set. `copies` are the keys with NULL where left out; `identity` is the grouping id."""

    relation: Relation
    copies: tuple[Column, ...]
    identity: Column
    position: Column | None

    @property
    def keys(self) -> tuple[str, ...]:
        position = () if self.position is None else (self.position.name,)
        return (*(each.name for each in self.copies), self.identity.name, *position)


def expand(
    context: Context, relation: Relation, keys: Sequence[Column], sets: Sequence[frozenset[Key]], of: Sequence[Key]
) -> Expanded:
    """Repeat every row once per set. `of` are the canonical forms of the keys, by which the sets name them."""
    copies = tuple(context.fresh(each.name, each.type) for each in keys)
    identity = context.fresh("grouping_id", "bigint")
    position = context.fresh("grouping_set", "int") if len(set(sets)) < len(sets) else None
    projections: list[tuple[Expression, ...]] = []
    for number, included in enumerate(sets):
        row = [each.value for each in relation.columns]
        bits = 0
        for key, form in zip(keys, of, strict=True):
            bits = bits * 2 + (form not in included)
            row.append(key.value if form in included else null_of(key.type))
        row.append(Expression((f"{bits}L",), "bigint"))
        if position is not None:
            row.append(Expression((str(number),), "int"))
        projections.append(tuple(row))
    added = (*copies, identity, *(() if position is None else (position,)))
    return Expanded(Expand(relation, tuple(projections), (*relation.columns, *added)), copies, identity, position)


def null_of(type: str) -> Expression:
    return Expression((f"CAST(NULL AS {quoted_type(type)})",), type)


def grouping_bit(identity: Column, place: int, count: int) -> Expression:
    """grouping(key): whether the key is left out of this row's set."""
    return expression(f"CAST(shiftright({{}}, {count - 1 - place}) & 1L AS TINYINT)", "tinyint", identity.value)
