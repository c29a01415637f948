"""Random values and conditions over columns. Nothing here raises, whatever the rows are."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.exactness.shapes import ORDERED, Kind, Rows, Shown
from tests.exactness.sources import AMOUNTS, DAYS, MEASURES, MINUTES, NUMBERS, WORDS

LITERALS = {
    Kind.NUMBER: NUMBERS,
    Kind.TEXT: WORDS,
    Kind.AMOUNT: AMOUNTS,
    Kind.MEASURE: MEASURES,
    Kind.DAY: DAYS,
    Kind.TIME: MINUTES,
}
VALUES = {
    Kind.NUMBER: ("{0}", "{0}", "{0} % 2", "coalesce({0}, 0)", "-{0}", "CASE WHEN {1} THEN {0} END", "if({1}, {0}, 9)"),
    Kind.TEXT: ("{0}", "{0}", "upper({0})", "concat({0}, '!')", "coalesce({0}, '-')", "CASE WHEN {1} THEN {0} END"),
    Kind.AMOUNT: ("{0}", "{0} * 2", "coalesce({0}, 0)", "CAST({0} AS DECIMAL(20,2)) + 1"),
    Kind.MEASURE: ("{0}", "{0} * 2", "coalesce({0}, 0D)"),
    Kind.DAY: ("{0}", "{0} + INTERVAL 1 DAY", "date_trunc('MONTH', {0})::date"),
    Kind.TIME: ("{0}", "{0} + INTERVAL '5' MINUTE"),
    Kind.LIST: ("{0}", "sort_array({0})", "transform({0}, e -> e + 1)"),
    Kind.INEXACT: ("{0}",),
}


def named(rows: Rows, column: Shown) -> str:
    return f"{rows.alias}.{column.name}"


def value(rng: Random, rows: Rows, column: Shown) -> str:
    """The column itself, or something of the same kind made of it."""
    text = rng.choice(VALUES[column.kind])
    return text.format(named(rows, column), condition(rng, [rows], 0) if "{1}" in text else "")


def condition(rng: Random, sides: Sequence[Rows], depth: int = 1) -> str:
    """A condition over the columns of one or more sides."""
    if depth and rng.random() < 0.4:
        first, second = condition(rng, sides, depth - 1), condition(rng, sides, depth - 1)
        return rng.choice(("({0} AND {1})", "({0} OR {1})", "NOT ({0})", "({0} OR NOT {1})")).format(first, second)
    choices = [(rows, each) for rows in sides for each in rows.of_kind(*ORDERED)]
    if not choices:
        return "true"
    rows, column = rng.choice(choices)
    literals = LITERALS[column.kind]
    text = rng.choice(
        ("{0} = {1}", "{0} <> {1}", "{0} > {1}", "{0} <= {1}", "{0} IS NOT NULL", "{0} IS NULL", "{0} <=> {1}",
         "{0} IN ({1}, {2})", "{0} NOT IN ({1}, {2})", "{0} BETWEEN {1} AND {2}")
    )  # fmt: skip
    return "(" + text.format(named(rows, column), rng.choice(literals), rng.choice(literals)) + ")"


def comparison(rng: Random, left: Rows, right: Rows, operators: Sequence[str] = ("=",)) -> str | None:
    """A condition between a column of either side, of one kind; None where there is none."""
    pairs = [
        (one, other) for one in left.of_kind(*ORDERED) for other in right.of_kind(*ORDERED) if one.kind is other.kind
    ]
    if not pairs:
        return None
    one, other = rng.choice(pairs)
    return f"{named(left, one)} {rng.choice(operators)} {named(right, other)}"
