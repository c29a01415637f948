"""Inner join.

    d(L * R) = dL * R' + L * dR      L, R before the tick; L', R' after; * joins rows and multiplies their weights

Two terms, not three: R' already contains R + dR, so rows new on both sides count once.
Needs weights to multiply over addition, so outer joins have a rule of their own (outer_join.py).
Example: L = {(1, a)}, R = {}, dR = {(1, x): +1} gives {(1, a, x): +1}.
"""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.relation import Join, Relation, UnionAll
from anabranch.delta.versions import Versions


def delta_of_join(join: Join, versions: Versions) -> Relation:
    """The change of an inner join, one step deep; `versions` knows those of each side."""
    left_moved = replace(join, left=versions.change(join.left), right=versions.after(join.right))
    right_moved = replace(join, left=versions.before(join.left), right=versions.change(join.right))
    return UnionAll((left_moved, right_moved))
