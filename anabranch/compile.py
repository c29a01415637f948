"""Query text -> Program: the passes, in order.

    text -> translate -> surface relation -> lower -> kernel -> layout -> parts, each with its strategy

A query that cannot be differentiated still has a program: one part, filled by running the text as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.algebra.relation import Column, Output, Project, Relation, Scan, iterate
from anabranch.delta.choose import refusals_of
from anabranch.delta.state import Part, layout
from anabranch.errors import QueryError
from anabranch.lower.lower import lower
from anabranch.sql.analyzer import Analyzer
from anabranch.sql.refused import Refusal
from anabranch.sql.translate import TableLookup, Translation, translate

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

    @property
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

    @property
    def is_differential(self) -> bool:
        return not self.refusals


def compile_query(query: str, tables: TableLookup, analyzer: Analyzer) -> Program:
    """Compile a defining query; raises QueryError where Spark itself would not run it."""
    translation = translate(query, tables, analyzer)
    _check_names(translation.columns)
    if translation.relation is None or translation.refusals:
        return _as_it_is(query, translation, translation.refusals)
    kernel = lower(_named(translation.relation, translation.columns))
    refusals = refusals_of(kernel)
    if refusals:
        return _as_it_is(query, translation, refusals)
    return Program(
        query,
        translation.columns,
        layout(kernel),
        translation.tables,
        translation.relation,
        kernel,
        translation.notes,
    )


def _as_it_is(query: str, translation: Translation, refusals: tuple[Refusal, ...]) -> Program:
    whole = Scan(QUERY_ITSELF, translation.columns)
    return Program(
        query, translation.columns, layout(whole), translation.tables, notes=translation.notes, refusals=refusals
    )


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
