"""Reading tokens one after the other: the small vocabulary the grammar is written in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NoReturn, TypeVar

from anabranch.errors import QueryError
from anabranch.sql.tokens import Kind, Source, Token

T = TypeVar("T")

NO_ALIAS = frozenset(
    (
        *("AND", "ANTI", "AS", "BETWEEN", "CLUSTER", "CROSS", "DISTRIBUTE", "ELSE", "END", "ESCAPE", "EXCEPT", "FOR"),
        *("FROM", "FULL", "GROUP", "HAVING", "IN", "INNER", "INTERSECT", "IS", "JOIN", "LATERAL", "LEFT", "LIKE"),
        *("ILIKE", "LIMIT", "MINUS", "NATURAL", "NOT", "OFFSET", "ON", "OR", "ORDER", "PIVOT", "QUALIFY", "RIGHT"),
        *("RLIKE", "SELECT", "SEMI", "SET", "SORT", "TABLESAMPLE", "THEN", "UNION", "UNPIVOT", "USING", "VALUES"),
        *("WHEN", "WHERE", "WINDOW", "WITH"),
    )
)
"""Words that end an expression or a table, and so are no alias unless AS stands before them."""


class Cursor:
    """A position in the tokens. `accept` moves on if it can; `expect` moves on or raises."""

    def __init__(self, source: Source, index: int = 0, end: int | None = None) -> None:
        self.source = source
        self.index = index
        self.limit = len(source.tokens) - 1 if end is None else end

    def token(self, ahead: int = 0) -> Token:
        index = self.index + ahead
        return self.source.tokens[index] if index < self.limit else self.source.tokens[-1]

    def at(self, *texts: str, ahead: int = 0) -> bool:
        """Whether the next tokens are these words and symbols, in this order."""
        return all(self.token(ahead + place).upper == text for place, text in enumerate(texts))

    def at_any(self, texts: Iterable[str], ahead: int = 0) -> bool:
        return self.token(ahead).upper in texts and self.token(ahead).kind is not Kind.END

    def accept(self, *texts: str) -> bool:
        if self.at(*texts):
            self.index += len(texts)
            return True
        return False

    def expect(self, *texts: str) -> None:
        if not self.accept(*texts):
            self.fail(f"expected {' '.join(texts)}")

    def fail(self, message: str, index: int | None = None) -> NoReturn:
        place = self.index if index is None else index
        token = self.source.tokens[place]
        found = "the end" if token.kind is Kind.END else repr(self.source.text[token.start : token.end])
        raise QueryError(
            "QUERY_SYNTAX",
            f"{message}, found {found} at {self.source.place(place)}",
            hint="Spark's grammar is meant; see its SQL reference",
        )

    def attempt(self, rule: Callable[[], T]) -> T | None:
        """The rule's result, or None and no movement where it does not fit."""
        index = self.index
        try:
            return rule()
        except QueryError:
            self.index = index
            return None

    def at_name(self, ahead: int = 0) -> bool:
        return self.token(ahead).kind in (Kind.WORD, Kind.QUOTED)

    def name(self) -> str:
        """One identifier, any word."""
        if not self.at_name():
            self.fail("expected a name")
        self.index += 1
        return self.source.tokens[self.index - 1].text

    def names(self) -> tuple[str, ...]:
        """`a.b.c`"""
        parts = [self.name()]
        while self.at(".") and self.at_name(1):
            self.index += 1
            parts.append(self.name())
        return tuple(parts)

    def comma_separated(self, rule: Callable[[], T]) -> tuple[T, ...]:
        found = [rule()]
        while self.accept(","):
            found.append(rule())
        return tuple(found)

    def in_parentheses(self, rule: Callable[[], T]) -> T:
        self.expect("(")
        found = rule()
        self.expect(")")
        return found

    def name_list(self) -> tuple[str, ...]:
        """`(a, b)`"""
        return self.in_parentheses(lambda: self.comma_separated(self.name))

    def alias(self) -> str | None:
        """`AS name`, or a name that is no keyword here."""
        if self.accept("AS"):
            return self.name()
        if self.token().kind is Kind.QUOTED or (self.token().kind is Kind.WORD and self.token().upper not in NO_ALIAS):
            return self.name()
        return None

    def column_alias(self) -> str | None:
        """The same for a column: even a keyword, where nothing but the next column or FROM follows."""
        ends = self.token(1).kind is Kind.END or self.token(1).upper in (",", "FROM", ")")
        if self.token().kind is Kind.WORD and self.token().upper in NO_ALIAS and ends and not self.at("AS"):
            return self.name()
        return self.alias()

    def skip_balanced(self) -> None:
        """From an opening parenthesis to after its closing one."""
        self.expect("(")
        depth = 1
        while depth:
            if self.token().kind is Kind.END:
                self.fail("expected )")
            depth += self.at("(") - self.at(")")
            self.index += 1

    def type(self) -> None:
        """A data type, left as text."""
        word = self.name().upper()
        if self.accept("<"):
            self._type_arguments()
        elif word in ("ARRAY", "MAP", "STRUCT") and self.accept("<>"):
            pass
        if self.at("("):
            self.skip_balanced()
        if word == "INTERVAL":
            self.name()
            if self.accept("TO"):
                self.name()
        elif word in ("TIMESTAMP", "TIME") and self.at_any(("WITH", "WITHOUT")) and self.at("TIME", "ZONE", ahead=1):
            self.index += 3
        elif (word == "DOUBLE" and self.at("PRECISION")) or (word == "CHARACTER" and self.at("VARYING")):
            self.index += 1
        if self.accept("COLLATE"):
            self.name()

    def _type_arguments(self) -> None:
        depth = 1
        while depth:
            if self.token().kind is Kind.END:
                self.fail("expected >")
            depth += self.at("<") - self.at(">")
            self.index += 1
