"""What random queries are made of: kinds of columns, and a query's text with what is to be known of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Kind(Enum):
    """The kind of a column. What is INEXACT (a standard deviation) may differ in the last digits: it is only shown."""

    NUMBER = "number"
    TEXT = "text"
    AMOUNT = "amount"
    MEASURE = "measure"
    DAY = "day"
    TIME = "time"
    LIST = "list"
    INEXACT = "inexact"


NUMERIC = (Kind.NUMBER, Kind.AMOUNT, Kind.MEASURE)
ORDERED = (Kind.NUMBER, Kind.TEXT, Kind.AMOUNT, Kind.MEASURE, Kind.DAY, Kind.TIME)


@dataclass(frozen=True)
class Shown:
    """A column that a query shows."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class Sides:
    """The sources on either side of a join."""

    construct: str
    left: frozenset[str]
    right: frozenset[str]


@dataclass(frozen=True)
class Made:
    """A query: its text, its columns, the constructs in it, the sources it reads, and which are joined with which."""

    text: str
    columns: tuple[Shown, ...]
    constructs: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    joins: tuple[Sides, ...] = ()


@dataclass(frozen=True)
class Rows:
    """Something to stand in FROM, under an alias; `columns` are named with it."""

    text: str
    alias: str
    columns: tuple[Shown, ...]
    made: Made = field(repr=False)

    def of_kind(self, *kinds: Kind) -> list[Shown]:
        return [each for each in self.columns if each.kind in kinds]
