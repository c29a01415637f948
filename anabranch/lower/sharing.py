"""Which operators of a plan have several readers."""

from __future__ import annotations

from collections import Counter

from anabranch.algebra.relation import Relation, iterate


def shared_by_several(root: Relation) -> frozenset[Relation]:
    """Operators that are read more than once. What is done for one reader only must not be done to them."""
    readers = Counter(child for relation in iterate(root) for child in relation.children)
    return frozenset(relation for relation, count in readers.items() if count > 1)
