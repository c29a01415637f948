"""Spark SQL text -> surface relation."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.algebra.relation import Column, Relation
from anabranch.errors import QueryError
from anabranch.sql.analyzer import Analyzer, TableBinding, TableLookup, ViewBinding
from anabranch.sql.context import Context, Findings
from anabranch.sql.defined_functions import hides_chance
from anabranch.sql.parse import parse_query
from anabranch.sql.query import query_rows
from anabranch.sql.refused import Refusal, RefusedError, refused
from anabranch.sql.scope import AmbiguousNameError
from anabranch.sql.statements import table_names

DEFECTS = (AssertionError, IndexError, KeyError, RecursionError, TypeError, ValueError)
"""What a mistake of ours raises. The query still runs in full; the refusal says what happened."""


@dataclass(frozen=True)
class Translation:
    """A query as a relation. With refusals it cannot be differential, and the relation may be missing.

    `columns` are Spark's own names and types, by position those of the relation. `tables` are the identities read.
    """

    relation: Relation | None
    columns: tuple[Column, ...]
    tables: frozenset[str]
    notes: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    time_functions: frozenset[str] = frozenset()

    @property
    def settled(self) -> str | None:
        """How orders that Spark leaves open were settled, for explain."""
        return "\n".join(self.notes) or None


def translate(query: str, tables: TableLookup, analyzer: Analyzer) -> Translation:
    """Translate a query that Spark accepts; what Spark rejects is raised as its own QueryError.

    >>> translate("SELECT a FROM t", tables, analyzer).relation      # doctest: +SKIP
    """
    columns = analyzer.schema(query)
    findings = Findings()
    relation: Relation | None = None
    try:
        source, parsed = parse_query(query)
        context = Context(source, analyzer, tables, findings, query_rows)
        relation = query_rows(context, parsed, None).relation
        _check_columns(relation, columns)
        if hides_chance(findings.functions, analyzer.body_of):
            raise refused("NONDETERMINISTIC_FUNCTION", "inside a function that somebody defined")
    except RefusedError as error:
        relation = None
        findings.refusals.append(error.refusal)
    except AmbiguousNameError as error:
        relation = None
        findings.refusals.append(refused("NAME_NOT_UNDERSTOOD", f"{error} is ambiguous").refusal)
    except QueryError as error:
        relation = None
        findings.refusals.append(refused("SYNTAX_NOT_UNDERSTOOD", error.message).refusal)
    except DEFECTS as error:
        relation = None
        findings.refusals.append(refused("TRANSLATION_FAILED", f"{type(error).__name__}: {error}").refusal)
    tables_found = frozenset(findings.tables) if relation is not None else tables_read(query, tables)
    return Translation(
        relation,
        columns,
        tables_found,
        tuple(findings.notes),
        tuple(dict.fromkeys(findings.refusals)),
        frozenset(findings.time_functions),
    )


def tables_read(query: str, tables: TableLookup) -> frozenset[str]:
    """The identities of all tables below a query, views looked through; asks no analyzer."""
    found: set[str] = set()
    seen: set[tuple[str, ...]] = set()
    texts = [query]
    while texts:
        for name in table_names(texts.pop()):
            binding = None if name in seen else tables(name)
            seen.add(name)
            if isinstance(binding, TableBinding):
                found.add(binding.identity)
            elif isinstance(binding, ViewBinding):
                texts.append(binding.query)
    return frozenset(found)


def _check_columns(relation: Relation, columns: tuple[Column, ...]) -> None:
    """What was translated must have the types of what was written."""
    found, wanted = [each.type for each in relation.columns], [each.type for each in columns]
    if found != wanted:
        raise refused("EXPRESSION_NOT_UNDERSTOOD", f"types {', '.join(found)} instead of {', '.join(wanted)}")


__all__ = ["TableBinding", "TableLookup", "Translation", "ViewBinding", "tables_read", "translate"]
