"""A kernel relation -> its change. Rules say what the change of one operator is; this file walks the plan.

    dT             = Change(T)                        for a table that changed
    d op(X, Y)     = RULES[op]                        over X, X', dX, Y, Y', dY

Operators with no changed table below have no change, and terms that use it are dropped by `simplify`: they are not in
the plan at all.
"""

from __future__ import annotations

from collections.abc import Callable

from anabranch.algebra.relation import (
    Aggregate,
    Change,
    Distinct,
    Empty,
    Expand,
    Filter,
    Fixpoint,
    Generate,
    Join,
    JoinKind,
    Negate,
    Project,
    Recursion,
    Relation,
    Scan,
    TableFunction,
    TopK,
    UnionAll,
    Values,
    Window,
    iterate,
)
from anabranch.delta.rules.join import delta_of_join
from anabranch.delta.rules.keyed import delta_of_keyed, group_keys
from anabranch.delta.rules.linear import delta_of_linear
from anabranch.delta.rules.outer_join import delta_of_outer_join
from anabranch.delta.rules.recompute import delta_of_recompute
from anabranch.delta.simplify import simplify
from anabranch.delta.versions import Versions

Rule = Callable[..., Relation]


def _delta_of_scan(scan: Scan, versions: Versions) -> Relation:
    return Change(scan.table, scan.columns)


def _delta_of_constant(relation: Relation, versions: Versions) -> Relation:
    """Constants never change; the change of a recursion is its Fixpoint's to find."""
    return Empty(relation.columns)


def _delta_of_any_join(join: Join, versions: Versions) -> Relation:
    rule = delta_of_join if join.kind is JoinKind.INNER else delta_of_outer_join
    return rule(join, versions)


def _delta_of_grouped(relation: Aggregate | Window | TopK, versions: Versions) -> Relation:
    rule = delta_of_keyed if group_keys(relation) else delta_of_recompute
    return rule(relation, versions)


RULES: dict[type[Relation], Rule] = {
    Scan: _delta_of_scan,
    Empty: _delta_of_constant,
    Values: _delta_of_constant,
    TableFunction: _delta_of_constant,
    Recursion: _delta_of_constant,
    Filter: delta_of_linear,
    Project: delta_of_linear,
    UnionAll: delta_of_linear,
    Negate: delta_of_linear,
    Expand: delta_of_linear,
    Generate: delta_of_linear,
    Join: _delta_of_any_join,
    Distinct: delta_of_keyed,
    Aggregate: _delta_of_grouped,
    Window: _delta_of_grouped,
    TopK: _delta_of_grouped,
    Fixpoint: delta_of_recompute,
}


def versions_of(relation: Relation, changed: frozenset[str]) -> Versions:
    """Every version of every operator of the plan."""
    versions = Versions(changed)
    for each in iterate(relation):
        versions.note(each, RULES[type(each)])
    return versions


def change_of(relation: Relation, changed: frozenset[str]) -> Relation | None:
    """The change of the relation when only the tables `changed` may have changed; None where that changes nothing."""
    change = simplify(versions_of(relation, changed).change(relation))
    return None if isinstance(change, Empty) else change
