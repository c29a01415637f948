"""From the surface relation to the kernel: the rules in order, one loop, and a check of what comes out."""

from __future__ import annotations

from collections.abc import Callable

from anabranch.algebra.holes import outer_columns
from anabranch.algebra.relation import KERNEL, Relation, iterate
from anabranch.lower.names import FreshNames
from anabranch.lower.set_operations import lower_set_operations
from anabranch.lower.subqueries import lower_subqueries
from anabranch.lower.tidy import tidy

Rule = Callable[[Relation, FreshNames], Relation]

RULES: tuple[Rule, ...] = (lower_set_operations, lower_subqueries, tidy)


def lower(relation: Relation) -> Relation:
    """The same rows under the same columns, with kernel operators only."""
    names = FreshNames()
    lowered = relation
    for rule in RULES:
        lowered = rule(lowered, names)
    _check(relation, lowered)
    return lowered


def _check(relation: Relation, lowered: Relation) -> None:
    if lowered.columns != relation.columns:
        raise AssertionError(f"lowering changed the columns from {relation.columns} to {lowered.columns}")
    foreign = sorted({type(each).__name__ for each in iterate(lowered) if not isinstance(each, KERNEL)})
    if foreign:
        raise AssertionError(f"not kernel operators: {', '.join(foreign)}")
    if outer_columns(lowered):
        raise AssertionError(f"columns of no enclosing query: {', '.join(sorted(outer_columns(lowered)))}")
