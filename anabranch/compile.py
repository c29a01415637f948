"""Query text -> Program: the passes, in order.

    text -> translate -> surface relation -> lower -> kernel -> layout -> parts, each with its strategy

A query that cannot be differentiated still has a program: one part, filled by running the text as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from anabranch.algebra.relation import Column, Output, Project, Relation, Scan, iterate
from anabranch.delta.choose import refusals_of
from anabranch.delta.state import Part, layout
from anabranch.errors import QueryError
from anabranch.lower.lower import lower
from anabranch.sql.analyzer import Analyzer, TableBinding, TableLookup, ViewBinding
from anabranch.sql.clock import DATE, INSTANT, Reading, clock_of, fixed, readings
from anabranch.sql.determinism import WITHOUT_PARENTHESES
from anabranch.sql.ordering import DROPPED
from anabranch.sql.refused import REFUSED, Refusal, refused
from anabranch.sql.statement_nodes import SelectStatement
from anabranch.sql.statements import parse_statement
from anabranch.sql.translate import DEFECTS, Translation, translate

QUERY_ITSELF = "query"
"""The table name under which a part reads the defining query run as it is."""


@dataclass(frozen=True)
class Program:
    """What a stream table's query compiles to. `refusals` say why it is not differential; empty when it is."""

    query: str
    columns: tuple[Column, ...]
    parts: tuple[Part, ...]
    tables: frozenset[str]
    relation: Relation | None = None
    kernel: Relation | None = None
    notes: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    clock: str | None = None
    views: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def columns_read(self) -> dict[str, frozenset[str]]:
        """Per table, the columns that the query reads; all of them where it runs as it is."""
        read: dict[str, frozenset[str]] = {}
        for part in self.parts:
            for relation in iterate(part.relation):
                for child in relation.children:
                    if isinstance(child, Scan):
                        used = _columns_used(relation, child)
                        read[child.table] = read.get(child.table, frozenset()) | used
        return read

    @cached_property
    def columns_needed(self) -> dict[str, frozenset[str]]:
        """The same, and all columns of a table that the query shows as it is."""
        shown = [each.relation for each in self.parts if isinstance(each.relation, Scan)]
        return self.columns_read | {each.table: frozenset(each.names) for each in shown}

    @property
    def is_differential(self) -> bool:
        return not self.refusals

    @property
    def is_settled(self) -> bool:
        """Whether the query left an order open that had to be settled, so that its text alone has several answers."""
        return any(note != DROPPED for note in self.notes)


@dataclass(frozen=True)
class Clock:
    """What a query sees as now: a date or an instant, in the time zone that the query is defined under."""

    at: str
    zone: str


def compile_query(query: str, tables: TableLookup, analyzer: Analyzer, clock: Clock | None = None) -> Program:
    """Compile a defining query; raises QueryError where Spark itself would not run it.

    One that reads the date is compiled for the day of `clock`, and is differential that day long.
    """
    names = _Names(tables)
    translation = translate(query, names, analyzer)
    _check_names(translation.columns)
    refusals = translation.refusals
    found = _readings(query, names)
    reads = clock_of(found)
    if reads == DATE and clock is not None:
        translation = _on_that_day(query, translation, names, analyzer, clock)
        refusals = translation.refusals
    elif reads is not None:
        reads = INSTANT
        refusals = refusals or _time_refusals(found)
    if translation.relation is None or refusals:
        return _as_it_is(query, translation, names, refusals, reads)
    try:
        kernel = lower(_named(translation.relation, translation.columns))
        parts = layout(kernel)
        refusals = refusals_of(kernel)
    except DEFECTS as error:
        refusals = (refused("TRANSLATION_FAILED", f"{type(error).__name__}: {error}").refusal,)
    if refusals:
        return _as_it_is(query, translation, names, refusals, reads)
    return Program(
        query,
        translation.columns,
        parts,
        translation.tables,
        translation.relation,
        kernel,
        translation.notes,
        clock=reads,
        views=names.views,
    )


class _Names:
    """Remembers what the names of a query were found to mean, the texts of views among them."""

    def __init__(self, tables: TableLookup) -> None:
        self._tables = tables
        self.views: dict[str, str] = {}
        self.columns: set[str] = set()

    def __call__(self, parts: tuple[str, ...]) -> TableBinding | ViewBinding | None:
        found = self._tables(parts)
        match found:
            case ViewBinding(text):
                self.views[".".join(parts).lower()] = text
            case TableBinding(_, columns):
                self.columns |= {column.name.lower() for column in columns}
        return found

    def tables_of(self, query: str) -> frozenset[str]:
        """The tables that a query reads, through views too."""
        statement = parse_statement(query)
        read: set[str] = set()
        for parts in statement.query.table_names if isinstance(statement, SelectStatement) else ():
            match self(parts):
                case TableBinding(identity):
                    read.add(identity)
                case ViewBinding(text):
                    read |= self.tables_of(text)
        return frozenset(read)


def _readings(query: str, names: _Names) -> tuple[Reading, ...]:
    """Where the query and the views in it read the clock."""
    bare = WITHOUT_PARENTHESES - names.columns
    return tuple(each for text in (query, *names.views.values()) for each in readings(text, bare))


def _on_that_day(query: str, translation: Translation, names: _Names, analyzer: Analyzer, clock: Clock) -> Translation:
    """The translation with the date fixed; the columns keep the names that the user's own text gives them."""
    bare = WITHOUT_PARENTHESES - names.columns

    def tables(parts: tuple[str, ...]) -> TableBinding | ViewBinding | None:
        found = names(parts)
        return ViewBinding(fixed(found.query, clock.at, clock.zone, bare)) if isinstance(found, ViewBinding) else found

    that_day = translate(fixed(query, clock.at, clock.zone, bare), tables, analyzer)
    return replace(that_day, columns=translation.columns)


def _as_it_is(
    query: str,
    translation: Translation,
    names: _Names,
    refusals: tuple[Refusal, ...],
    reads: str | None,
) -> Program:
    whole = Scan(QUERY_ITSELF, translation.columns)
    read = translation.tables | names.tables_of(query)
    return Program(
        query,
        translation.columns,
        layout(whole),
        read,
        notes=translation.notes,
        refusals=refusals,
        clock=reads,
        views=names.views,
    )


def _time_refusals(found: tuple[Reading, ...]) -> tuple[Refusal, ...]:
    """A query that reads the time changes although no source does."""
    names = sorted({each.word for each in found})
    return tuple(replace(REFUSED["TIME_FUNCTION"], construct=f"time function {name}") for name in names)


def _named(relation: Relation, columns: tuple[Column, ...]) -> Relation:
    """The relation under the names that readers see."""
    outputs = zip(columns, relation.columns, strict=True)
    return Project(relation, tuple(Output(shown.name, inner.value) for shown, inner in outputs))


def _columns_used(reader: Relation, scan: Scan) -> frozenset[str]:
    if isinstance(reader, Project):
        return frozenset().union(*(each.value.columns for each in reader.outputs))
    return frozenset(scan.names)


def _check_names(columns: tuple[Column, ...]) -> None:
    seen: dict[str, str] = {}
    for each in columns:
        if each.name.lower() in seen:
            raise QueryError(
                "DUPLICATE_COLUMN",
                f"the query has two columns named {each.name!r}",
                f"its columns: {', '.join(column.name for column in columns)}",
                "give each output column a name of its own with AS",
            )
        seen[each.name.lower()] = each.name
