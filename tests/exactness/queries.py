"""Whole random queries, so many of each construct as of every other."""

from __future__ import annotations

from collections import Counter
from random import Random

from tests.exactness import (
    constructs_groups,
    constructs_order,
    constructs_rows,
    constructs_subqueries,
)
from tests.exactness.generate import CONSTRUCTS, Generator
from tests.exactness.shapes import Made
from tests.exactness.sources import TABLES

MODULES = (constructs_rows, constructs_groups, constructs_subqueries, constructs_order)
"""Importing them fills the table of constructs."""
BELOW = {name: frozenset({name}) for name in TABLES}


def random_query(seed: int, depths: tuple[int, ...] = (0, 1, 1, 2)) -> Made:
    """The query of a seed: seeds one after the other put each construct on top in turn, over `depths` others."""
    names = sorted(CONSTRUCTS)
    rng = Random(f"query {seed}")
    return Generator(rng, TABLES, BELOW).query(names[seed % len(names)], rng.choice(depths))


def balanced_queries(count: int, depths: tuple[int, ...]) -> list[Made]:
    """So many queries that every construct is in about as many of them as every other."""
    used: Counter[str] = Counter()
    made = []
    for number in range(count):
        rng = Random(f"balanced {number}")
        on_top = min(sorted(CONSTRUCTS), key=lambda name: used[name])
        made.append(Generator(rng, TABLES, BELOW, used).query(on_top, rng.choice(depths)))
        used.update(made[-1].constructs)
    return made
