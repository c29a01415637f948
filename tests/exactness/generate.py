"""Random queries over all that is to be kept incrementally: a table of constructs, each made over random rows below.

Every column that a SELECT makes has a name of its own, and every column is read through an alias, so that what is
random are the queries and not the names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from tests.exactness.scalars import comparison, condition, named, value
from tests.exactness.shapes import Kind, Made, Rows, Shown, Sides

Construct = Callable[["Generator"], Made]
CONSTRUCTS: dict[str, Construct] = {}
NESTING = 0.75
TRIES = 3
SAMPLE = 6


def construct(function: Construct) -> Construct:
    """Enter a construct in the table, under its function's name."""
    CONSTRUCTS[function.__name__] = function
    return function


class Generator:
    """Makes one query. `tables` are what it may read, with the sources below each.

    `used` counts the constructs of queries made before; those that were used least are preferred.
    """

    def __init__(
        self,
        rng: Random,
        tables: Mapping[str, tuple[Shown, ...]],
        below: Mapping[str, frozenset[str]],
        used: Counter[str] | None = None,
    ):
        self.rng = rng
        self.used = Counter[str]() if used is None else used
        self.tables = tables
        self.below = below
        self.depth = 0
        self._number = 0

    def query(self, name: str, depth: int) -> Made:
        """A query with this construct on top, and up to `depth` others below it."""
        outer, self.depth = self.depth, depth
        try:
            made = CONSTRUCTS[name](self)
        finally:
            self.depth = outer
        return replace(made, constructs=made.constructs | {name})

    def fresh(self, prefix: str = "c") -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    def rows(self, *kinds: Kind) -> Rows:
        """Rows to read: a table, or a random query; with a column of each of the kinds, if any are named."""
        if self.depth > 0 and self.rng.random() < NESTING:
            for _ in range(TRIES):
                made = self.query(self._next(), self.depth - 1)
                if all(any(each.kind is kind for each in made.columns) for kind in kinds):
                    return self.derived(made)
        return self.table(*kinds)

    def _next(self) -> str:
        """A construct to stand below: of some, the one that was used least."""
        return min(self.rng.sample(sorted(CONSTRUCTS), SAMPLE), key=lambda name: self.used[name])

    def table(self, *kinds: Kind) -> Rows:
        fitting = [
            name
            for name, columns in self.tables.items()
            if all(any(each.kind is kind for each in columns) for kind in kinds)
        ]
        name = self.rng.choice(fitting)
        alias = self.fresh("r")
        made = Made(f"SELECT * FROM {name}", self.tables[name], frozenset(), self.below[name])
        return Rows(f"{name} AS {alias}", alias, self.tables[name], made)

    def derived(self, made: Made) -> Rows:
        alias = self.fresh("r")
        return Rows(f"({made.text}) AS {alias}", alias, made.columns, made)

    def again(self, rows: Rows) -> Rows:
        """The same rows once more."""
        alias = self.fresh("r")
        return replace(rows, text=rows.text.removesuffix(rows.alias) + alias, alias=alias)

    def some(self, rows: Rows, most: int = 3) -> tuple[list[str], tuple[Shown, ...]]:
        """Some of the columns, or values made of them: the items of a SELECT and what they show."""
        picked = self.rng.sample(list(rows.columns), min(len(rows.columns), self.rng.randint(1, most)))
        shown = tuple(Shown(self.fresh(), each.kind) for each in picked)
        items = [f"{value(self.rng, rows, each)} AS {name.name}" for each, name in zip(picked, shown, strict=True)]
        return items, shown

    def plain(self, rows: Rows, *kinds: Kind) -> list[Shown]:
        """Columns of these kinds, in random order."""
        found = rows.of_kind(*kinds)
        return self.rng.sample(found, len(found))

    def where(self, rows: Rows) -> str:
        return f" WHERE {condition(self.rng, [rows])}" if self.rng.random() < 0.3 else ""


def made_of(text: str, columns: tuple[Shown, ...], *parts: Rows | Made, joins: tuple[Sides, ...] = ()) -> Made:
    """A query over its parts: their constructs, sources and joins are in it."""
    below = [each.made if isinstance(each, Rows) else each for each in parts]
    return Made(
        text,
        columns,
        frozenset().union(*(each.constructs for each in below)),
        frozenset().union(*(each.sources for each in below)),
        (*joins, *(join for each in below for join in each.joins)),
    )


def sides(name: str, left: Rows | Made, right: Rows | Made) -> tuple[Sides, ...]:
    one, other = (each.made if isinstance(each, Rows) else each for each in (left, right))
    return (Sides(name, one.sources, other.sources),)


def on_clause(generator: Generator, left: Rows, right: Rows, residual: float = 0.3) -> str:
    """An equality between the sides, and now and then one more condition."""
    text = comparison(generator.rng, left, right, ("=", "=", "=", "<=>")) or "true"
    if generator.rng.random() < residual:
        text += f" AND {condition(generator.rng, [left, right])}"
    return text


def columns_of(rows: Rows) -> str:
    return ", ".join(named(rows, each) for each in rows.columns)
