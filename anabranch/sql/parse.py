"""Query text -> its shape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from anabranch.sql.from_syntax import Table
from anabranch.sql.node import SyntaxNode
from anabranch.sql.pipes import PipeGrammar
from anabranch.sql.query_syntax import Query
from anabranch.sql.tokens import Kind, Source, tokenize


def parse_query(text: str) -> tuple[Source, Query]:
    """The query's tokens and shape; one trailing semicolon is allowed."""
    source = tokenize(text)
    grammar = PipeGrammar(source)
    query = grammar.query()
    grammar.accept(";")
    if grammar.token().kind is not Kind.END:
        grammar.fail("expected the end of the query")
    return source, query


def nodes(root: object) -> Iterator[object]:
    """Every node below `root`, expressions and queries alike, in the order of their fields."""
    if isinstance(root, tuple):
        for each in root:
            yield from nodes(each)
    elif isinstance(root, SyntaxNode):
        yield root
        for field in fields(root):  # type: ignore[arg-type]
            yield from nodes(getattr(root, field.name))


def tables_in(root: object) -> tuple[Table, ...]:
    """The tables read below `root`, in the order of the text, names of CTEs left out."""
    found: list[Table] = []
    _collect_tables(root, frozenset(), found)
    return tuple(sorted(found, key=lambda table: table.start))


def _collect_tables(root: object, ctes: frozenset[str], found: list[Table]) -> None:
    if isinstance(root, tuple):
        for each in root:
            _collect_tables(each, ctes, found)
        return
    if isinstance(root, Table):
        if len(root.parts) > 1 or root.parts[0].lower() not in ctes:
            found.append(root)
        return
    if not isinstance(root, SyntaxNode):
        return
    if isinstance(root, Query):
        for cte in root.ctes:
            own = ctes | {cte.name.lower()} if root.recursive else ctes
            _collect_tables(cte.query, own, found)
            ctes = ctes | {cte.name.lower()}
    for field in fields(root):  # type: ignore[arg-type]
        if not (isinstance(root, Query) and field.name == "ctes"):
            _collect_tables(getattr(root, field.name), ctes, found)
