"""What a project says a lake should be, as values. Reading files makes them; plan and apply look at nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch.errors import QueryError
from anabranch.sql.statement_nodes import ColumnDefinition
from anabranch.sql.tokens import Kind, tokenize


@dataclass(frozen=True)
class Place:
    """A line of a file, as the user sees the file: relative to the project's folder."""

    file: str
    line: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class WantedTable:
    """A stream table that there should be."""

    name: str
    query: str
    place: Place
    schedule: str | None = None
    refresh_mode: str = "AUTO"
    diamond_consistency: str | None = None
    diamond_schedule_policy: str | None = None


@dataclass(frozen=True)
class WantedView:
    """A view that there should be."""

    name: str
    query: str
    place: Place


@dataclass(frozen=True)
class WantedSource:
    """A table that people write to: made if it is missing, never filled or emptied."""

    name: str
    columns: tuple[ColumnDefinition, ...]
    place: Place


@dataclass(frozen=True)
class Desired:
    """All that a project says. `notices` tell what was left aside."""

    name: str
    tables: Mapping[str, WantedTable] = field(default_factory=dict)
    views: Mapping[str, WantedView] = field(default_factory=dict)
    sources: Mapping[str, WantedSource] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    @property
    def queries(self) -> tuple[WantedTable | WantedView, ...]:
        """All that is defined by a query."""
        return (*self.tables.values(), *self.views.values())


def desired_of(
    name: str,
    found: list[WantedTable | WantedView | WantedSource],
    settings: Mapping[str, str] | None = None,
    notices: tuple[str, ...] = (),
) -> Desired:
    """Everything by its name in lower case; two things of one name are refused with both places."""
    by_name: dict[str, WantedTable | WantedView | WantedSource] = {}
    for each in found:
        other = by_name.setdefault(each.name.lower(), each)
        if other is not each:
            raise QueryError(
                "DEFINED_TWICE",
                f"{each.name!r} is defined twice",
                f"at {other.place} and at {each.place}",
                "rename one of them, or remove it",
            )
    return Desired(
        name,
        {key: each for key, each in by_name.items() if isinstance(each, WantedTable)},
        {key: each for key, each in by_name.items() if isinstance(each, WantedView)},
        {key: each for key, each in by_name.items() if isinstance(each, WantedSource)},
        dict(settings or {}),
        notices,
    )


def normal(query: str, renamed: Mapping[str, str] | None = None) -> str:
    """A query's tokens alone: comments, white space and a last semicolon mean nothing.

    `renamed` gives tables their earlier names back (new name in lower case -> old name), where a name can be a table's.
    """
    source = tokenize(query)
    words: list[str] = []
    for index, token in enumerate(source.tokens):
        if token.kind is Kind.END or (token.upper == ";" and source.tokens[index + 1].kind is Kind.END):
            continue
        text = query[token.start : token.end]
        earlier = (renamed or {}).get(token.text.lower()) if token.kind in (Kind.WORD, Kind.QUOTED) else None
        before = source.tokens[index - 1].upper if index else ""
        is_table = before in ("FROM", "JOIN", ",") or source.tokens[index + 1].upper == "."
        words.append(earlier if earlier is not None and is_table else text)
    return " ".join(words)
