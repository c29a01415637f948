"""Whole random queries, so many of each construct as of every other."""

from __future__ import annotations

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


def random_query(seed: int, depths: tuple[int, ...] = (0, 1, 1, 2)) -> Made:
    """The query of a seed: seeds one after the other put each construct on top in turn, over `depths` others."""
    names = sorted(CONSTRUCTS)
    rng = Random(f"query {seed}")
    generator = Generator(rng, TABLES, {name: frozenset({name}) for name in TABLES})
    return generator.query(names[seed % len(names)], rng.choice(depths))
