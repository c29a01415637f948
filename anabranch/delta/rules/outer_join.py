"""Left, semi and anti join on condition c; full join.

    d(L op R) = dL op R' + (Lt op R' - Lt op R)      Lt = the rows of L for which c holds with some row of dR
    L full R  = L left R + padded(R anti L)

A row of L that meets no row of dR has the same partners in R and R', so only Lt can look different. The whole condition
decides, residual parts included: testing `l.k = r.k` alone would be correct but wide, testing the residual in a WHERE
would be wrong. Only the preserved side is ever a change, because the side that is tested for partners must be a bag.
Example: L = {(1, a)}, R = {}, dR = {(1, x): +1}, left join: Lt = L gives {(1, a, x): +1, (1, a, NULL): -1}.
"""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.relation import Join, JoinKind, Output, Project, Relation, UnionAll
from anabranch.delta.build import minus, null_of, touched_keys
from anabranch.delta.versions import Versions


def delta_of_outer_join(join: Join, versions: Versions) -> Relation:
    """The change of a left, full, semi or anti join."""
    if join.kind is not JoinKind.FULL:
        return _delta_of_preserving(join, versions)
    matched = replace(join, kind=JoinKind.LEFT)
    unmatched = Join(join.right, join.left, JoinKind.ANTI, join.on)
    return UnionAll((_delta_of_preserving(matched, versions), _padded(_delta_of_preserving(unmatched, versions), join)))


def _delta_of_preserving(join: Join, versions: Versions) -> Relation:
    left_moved = replace(join, left=versions.change(join.left), right=versions.after(join.right))
    touched = _touched(join, versions)
    partners_now = replace(join, left=touched, right=versions.after(join.right))
    partners_then = replace(join, left=touched, right=versions.before(join.right))
    return UnionAll((left_moved, minus(partners_now, partners_then)))


def _touched(join: Join, versions: Versions) -> Relation:
    """Lt: the rows of the left side that meet a changed row of the right one."""
    read = frozenset[str]().union(*(each.columns for each in join.on))
    names = [name for name in join.right.names if name in read] or join.right.names[:1]
    partners = touched_keys(versions.change(join.right), names)
    values = {name: key.value for name, key in zip(names, partners.columns, strict=True)}
    on = tuple(each.substitute(values) for each in join.on)
    return Join(versions.before(join.left), partners, JoinKind.SEMI, on)


def _padded(right_rows: Relation, join: Join) -> Relation:
    """Rows of the right side alone, the left side's columns NULL."""
    rights = tuple(Output(each.name, each.value) for each in join.right.columns)
    return Project(right_rows, (*(null_of(each) for each in join.left.columns), *rights))
