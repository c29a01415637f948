"""Statement text -> statement value.

parse_statement("DROP STREAM TABLE IF EXISTS revenue") == DropStreamTable(("revenue",), if_exists=True)
"""

from __future__ import annotations

from anabranch.errors import QueryError
from anabranch.sql.change_grammar import ChangeGrammar
from anabranch.sql.expressions import QUERY_STARTS
from anabranch.sql.from_syntax import Table
from anabranch.sql.statement_grammar import at_end
from anabranch.sql.statement_nodes import Fragment, OtherStatement, SelectStatement, Statement
from anabranch.sql.tokens import Kind, tokenize


def parse_statement(text: str) -> Statement:
    """One statement; a trailing semicolon is allowed. What is not ours is left to Spark, with the tables it reads."""
    source = tokenize(text)
    grammar = ChangeGrammar(source)
    if at_end(grammar):
        raise QueryError("QUERY_SYNTAX", "there is no statement", hint="give one SQL statement")
    if grammar.at_any(QUERY_STARTS) or grammar.at("("):
        return grammar.change() or _query(grammar)
    first = grammar.token().upper
    statement = grammar.definition()
    if statement is None:
        grammar.index = 0
        statement = grammar.change()
    if statement is None:
        return OtherStatement(first, text.strip().rstrip(";").rstrip())
    if not at_end(grammar):
        grammar.fail("expected the end of the statement")
    return statement


def _query(grammar: ChangeGrammar) -> SelectStatement:
    """A query. Where our grammar does not follow, Spark may: its tables are then the names after FROM and JOIN."""
    fragment = grammar.attempt(grammar.query_fragment)
    if fragment is not None and at_end(grammar):
        return SelectStatement(fragment)
    end = len(grammar.source.tokens) - 1
    tables: list[Table] = []
    for index in range(end):
        grammar.index = index + 1
        if grammar.source.tokens[index].upper in ("FROM", "JOIN") and grammar.at_name():
            parts = grammar.names()
            tables.append(Table(index + 1, grammar.index, parts, grammar.alias(), name_end=index + 2 * len(parts)))
    return SelectStatement(Fragment(grammar.source, 0, end, tuple(tables)))


def table_names(query: str) -> tuple[tuple[str, ...], ...]:
    """The names of the tables a query reads."""
    return _query(ChangeGrammar(tokenize(query))).query.table_names


def split_statements(text: str) -> list[str]:
    """The statements of a script, without their semicolons; comments between them are dropped."""
    return [text[start:end] for start, end in statement_places(text)]


def statement_places(text: str) -> list[tuple[int, int]]:
    """Where each statement of a script starts and ends, its semicolon left out."""
    places: list[tuple[int, int]] = []
    start: int | None = None
    previous = 0
    for token in tokenize(text).tokens:
        ended = token.kind is Kind.END or token.upper == ";"
        if ended and start is not None:
            places.append((start, previous))
            start = None
        elif not ended and start is None:
            start = token.start
        previous = token.end
    return places
