"""Aggregate, Distinct, Window, TopK with keys: recompute the groups that the change touches.

    d G(R) = G(R' at K) - G(R at K)      K = the keys of dR, of both signs; "at K" = the rows whose keys are in K

A group outside K has the same rows in R and R'. Needs G to treat every group on its own, and K to compare as GROUP BY
does: `<=>`, so that the group of NULL is recomputed too.
Example: MAX by k, R = {(1, 5), (1, 7), (2, 3)}, dR = {(1, 7): -1}: K = {1}, gives {(1, 5): +1, (1, 7): -1}.
"""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.relation import Aggregate, Distinct, Relation, TopK, Window
from anabranch.delta.build import at, minus, touched_keys
from anabranch.delta.versions import Versions

Keyed = Aggregate | Distinct | Window | TopK


def delta_of_keyed(relation: Keyed, versions: Versions) -> Relation:
    """The touched groups as they are now, minus the touched groups as they were."""
    keys = group_keys(relation)
    touched = touched_keys(versions.change(relation.child), keys)
    now = replace(relation, child=at(versions.after(relation.child), keys, touched))
    then = replace(relation, child=at(versions.before(relation.child), keys, touched))
    return minus(now, then)


def group_keys(relation: Relation) -> tuple[str, ...]:
    """The columns whose equal values make a group; none where all rows are one group."""
    match relation:
        case Aggregate(keys=keys):
            return keys
        case Distinct():
            return relation.names
        case Window(partition=partition) | TopK(partition=partition):
            return partition
    return ()
