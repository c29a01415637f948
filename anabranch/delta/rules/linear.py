"""Filter, Project, UnionAll, Negate, Expand, Generate.

    d op(X, ...) = op(dX, ...)

They treat each row on its own and pass its weight on, so op(X + dX) = op(X) + op(dX). Needs deterministic expressions:
`rand() < 0.5` would keep a row and not retract it.
Example: X = {1, 5}, dX = {5: -1, 7: +1}, Filter x > 4 gives {5: -1, 7: +1}.
"""

from __future__ import annotations

from anabranch.algebra.relation import Relation
from anabranch.algebra.walk import with_children
from anabranch.delta.versions import Versions


def delta_of_linear(relation: Relation, versions: Versions) -> Relation:
    """The operator on the change of its inputs."""
    return with_children(relation, {each: versions.change(each) for each in relation.children})
