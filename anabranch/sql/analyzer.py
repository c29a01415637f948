"""What translation asks of Spark: types. `spark/analyze.py` answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation import Column


class Analyzer(Protocol):
    """Spark's analyzer. One call is one analysis, so callers ask for many expressions at once."""

    def types(self, expressions: Sequence[Expression], columns: Sequence[Column]) -> list[str]:
        """The Spark type of each expression over an input with these columns; `Outer` holes are columns, too."""

    def schema(self, sql: str) -> tuple[Column, ...]:
        """The schema of a whole query."""

    def body_of(self, function: str) -> str:
        """The SQL by which somebody defined the function; empty for Spark's own."""

    def constant(self, text: str) -> object:
        """The value of an expression that reads nothing; None where it is no constant."""


@dataclass(frozen=True, slots=True)
class TableBinding:
    """A table of the lake: its identity and its columns."""

    identity: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class ViewBinding:
    """A view, to be inlined; `columns` renames its output where given."""

    query: str
    columns: tuple[str, ...] = ()


TableLookup = Callable[[tuple[str, ...]], TableBinding | ViewBinding | None]
"""From the parts of a name to what it means; None where there is no such table."""
