"""Global aggregates, windows and top-N over all rows, recursion: recompute and take the difference.

    d G(R) = G(R') - G(R)

Always true, and reads everything twice; `state` stores such results, so that G(R) is read instead of recomputed.
Example: SUM over all rows, R = {1, 2}, dR = {2: -1}, gives {1: +1, 3: -1}; the row of a global aggregate never dies.
"""

from __future__ import annotations

from anabranch.algebra.relation import Relation
from anabranch.delta.build import minus
from anabranch.delta.versions import Versions


def delta_of_recompute(relation: Relation, versions: Versions) -> Relation:
    """The operator as it is now, minus the operator as it was."""
    return minus(versions.after(relation), versions.before(relation))
