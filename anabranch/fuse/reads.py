"""Which rows of a table a plan needs: those that meet a small relation in a join.

    read(J)  =  rows of T whose keys occur in S        J joins S (about as large as the change) with T on equalities

T may be filtered and projected on the way; its key is then an expression over the columns of T itself. Rows beyond
those needed do no harm: the join that asked for them passes them over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation import After, Before, Filter, Join, JoinKind, Project, Relation, Stored
from anabranch.delta.equalities import matches
from anabranch.fuse.wide import base_of

Table = Before | After | Stored


@dataclass(frozen=True)
class Read:
    """A table read by keys: `keys` over the table's own columns, equal to `values` over the small relation.

    `large` is the table with the filters and projections above it.
    """

    table: Table
    keys: tuple[Expression, ...]
    small: Relation
    values: tuple[Expression, ...]
    null_safe: tuple[bool, ...]
    large: Relation


def read_of(join: Join, is_small: Callable[[Relation], bool]) -> tuple[str, Read] | None:
    """The side of a join that reads a table by keys, `left` or `right`, and what it reads; None if neither does."""
    sides = [("right", join.right, join.left)]
    if join.kind in (JoinKind.INNER, JoinKind.SEMI):
        sides.append(("left", join.left, join.right))
    if join.kind is JoinKind.FULL:
        return None
    for name, large, small in sides:
        table = base_of(large)
        if not isinstance(table, Table) or not is_small(small):
            continue
        found = [(match, _at_table(large, match.column)) for match in matches(join, large, small)]
        usable = [(match, key) for match, key in found if key is not None and key.deterministic]
        if usable:
            return name, Read(
                table,
                tuple(key for _, key in usable if key is not None),
                small,
                tuple(match.value for match, _ in usable),
                tuple(match.null_safe for match, _ in usable),
                large,
            )
    return None


def name_of(table: Table) -> str:
    """The table, whatever its version."""
    return table.part if isinstance(table, Stored) else table.table.rpartition("@")[0] or table.table


def over(relation: Relation, table: Relation) -> Relation:
    """The same chain of filters and projections over another table."""
    match relation:
        case Filter(child, predicates):
            return Filter(over(child, table), predicates)
        case Project(child, outputs):
            return Project(over(child, table), outputs)
    return table


def _at_table(relation: Relation, name: str) -> Expression | None:
    """A column of the chain as an expression over the table's columns."""
    value = relation.column(name).value
    while isinstance(relation, Filter | Project):
        if isinstance(relation, Project):
            value = value.substitute({each.name: each.value for each in relation.outputs})
        relation = relation.child
    return value


def columns_needed(relation: Relation) -> frozenset[str]:
    """The columns of the table that the chain reads."""
    needed = frozenset(relation.names)
    while isinstance(relation, Filter | Project):
        if isinstance(relation, Project):
            needed = frozenset().union(*(each.value.columns for each in relation.outputs))
        else:
            needed = needed.union(*(each.columns for each in relation.predicates))
        relation = relation.child
    return needed
