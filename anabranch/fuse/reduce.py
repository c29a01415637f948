"""Plans with every part that needs no expression worked out, as far as the rows it reads are at hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pyarrow as pa

from anabranch.algebra.relation import Empty, Relation
from anabranch.algebra.walk import operators, with_children
from anabranch.delta.simplify import simplify_one
from anabranch.fuse.at_hand import work_out

Known = Callable[[Relation], pa.Table | None]
NewLeaf = Callable[[Relation, pa.Table], Relation]


def reduced(roots: Sequence[Relation], known: Known, new_leaf: NewLeaf, limit: int) -> tuple[Relation, ...]:
    """The same plans, smaller. `known`: the rows of a relation that are at hand; `new_leaf`: stands for new ones."""
    order = tuple(operators(roots))
    readers = Counter(roots) + Counter(child for relation in order for child in relation.children)
    rows: dict[Relation, pa.Table] = {}
    done: dict[Relation, Relation] = {}

    def settled(relation: Relation) -> Relation:
        """What the relation's readers read from now on."""
        if relation not in done:
            done[relation] = _leaf(relation, rows[relation], known, new_leaf)
        return done[relation]

    for relation in order:
        here = _rows(relation, rows, known, limit)
        if here is not None:
            rows[relation] = here
        else:
            done[relation] = simplify_one(with_children(relation, {each: settled(each) for each in relation.children}))
        readers.subtract(relation.children)
        for child in relation.children:
            if not readers[child]:
                rows.pop(child, None)  # so many tables would not be small together
    return tuple(settled(root) for root in roots)


def _rows(relation: Relation, rows: dict[Relation, pa.Table], known: Known, limit: int) -> pa.Table | None:
    """The relation's rows, if they are at hand or can be worked out of those that are."""
    here = known(relation)
    if here is None and relation.children and all(child in rows for child in relation.children):
        here = work_out(relation, [rows[child] for child in relation.children], limit)
    return here


def _leaf(relation: Relation, rows: pa.Table, known: Known, new_leaf: NewLeaf) -> Relation:
    if not rows.num_rows:
        return Empty(relation.columns)
    return relation if known(relation) is rows else new_leaf(relation, rows)
