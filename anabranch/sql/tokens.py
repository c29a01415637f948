"""Text -> tokens, each with its place in the text.

sqlglot's tokenizer knows Spark's lexical rules (strings, escapes, comments, numbers with suffixes). We keep from it
where each token starts and ends, because every expression is later cut from the user's own text by its tokens.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from typing import ClassVar

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from anabranch.errors import QueryError


class Kind(Enum):
    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """`text` is the source text, except for a quoted name (its name) and a plain string (its value)."""

    kind: Kind
    text: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        return self.text.upper() if self.kind in (Kind.WORD, Kind.SYMBOL) else ""


class _Tokenizer(Spark.Tokenizer):
    """Every statement is tokenized to its end: sqlglot would keep the rest of SHOW or EXPLAIN as one string."""

    COMMANDS: ClassVar[set[TokenType]] = set()


_STRINGS = {
    TokenType.STRING,
    TokenType.RAW_STRING,
    TokenType.HEX_STRING,
    TokenType.BIT_STRING,
    TokenType.BYTE_STRING,
    TokenType.NATIONAL_STRING,
    TokenType.UNICODE_STRING,
    TokenType.HEREDOC_STRING,
}
_QUOTES = "'\""
_WORD = re.compile(r"\w[\w]*", re.UNICODE)


@dataclass(frozen=True)
class Source:
    """A query text and its tokens; the last token is the END."""

    text: str
    tokens: tuple[Token, ...]

    def slice(self, start: int, end: int) -> str:
        """The text of tokens `start` to `end` (exclusive): comments and runs of white space become one space."""
        pieces: list[str] = []
        for index in range(start, end):
            token = self.tokens[index]
            if index > start and self.tokens[index - 1].end < token.start:
                pieces.append(" ")
            pieces.append(self.text[token.start : token.end])
        return "".join(pieces)

    @cached_property
    def has_odd_names(self) -> bool:
        """Whether a name in backquotes is no plain word, such as `count(1)`."""
        return any(each.kind is Kind.QUOTED and not each.text.isidentifier() for each in self.tokens)

    def gap_before(self, index: int) -> bool:
        """Whether white space or a comment stands before the token."""
        return index > 0 and self.tokens[index - 1].end < self.tokens[index].start

    def place(self, index: int) -> str:
        """Line and column of a token, for messages."""
        offset = self.tokens[min(index, len(self.tokens) - 1)].start
        line = self.text.count("\n", 0, offset) + 1
        return f"line {line}, column {offset - (self.text.rfind(chr(10), 0, offset) + 1) + 1}"


@lru_cache(maxsize=1_000)
def tokenize(text: str) -> Source:
    """The tokens of a text; hints and comments are left out. One query is read many times over, and never changes."""
    try:
        raw = list(_Tokenizer(dialect=Spark()).tokenize(text))
    except TokenError as error:
        raise _not_closed(text) from error
    tokens: list[Token] = []
    for each in raw:
        start, end = each.start, each.end + 1
        if each.token_type is TokenType.HINT:
            continue
        if tokens and tokens[-1].start == start:
            # sqlglot makes `1`, `::`, `BIGINT` of the one word `1L`
            tokens[-1] = Token(Kind.NUMBER, text[start:end], start, end)
            continue
        tokens.extend(_tokens_of(each.token_type, each.text, text, start, end))
    tokens.append(Token(Kind.END, "", len(text), len(text)))
    return Source(text, tuple(tokens))


def _tokens_of(kind: TokenType, value: str, text: str, start: int, end: int) -> list[Token]:
    source = text[start:end]
    if kind is TokenType.IDENTIFIER:
        return [Token(Kind.QUOTED, value, start, end)]
    if kind in _STRINGS and source[-1] in _QUOTES:
        return [Token(Kind.STRING, value, start, end)]
    if kind is TokenType.NUMBER:
        return [Token(Kind.NUMBER, source, start, end)]
    words = list(_WORD.finditer(source))
    if words and words[0].start() == 0:
        return [Token(Kind.WORD, word.group(), start + word.start(), start + word.end()) for word in words]
    return [Token(Kind.SYMBOL, source, start, end)]


_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/|(?!/\*)[^'"`]""", re.DOTALL)


def _not_closed(text: str) -> QueryError:
    """Where a quote or a comment begins that has no end: what a tokenizer stumbles over."""
    offset = 0
    while found := _QUOTED.match(text, offset):
        offset = found.end()
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    return QueryError(
        "QUERY_SYNTAX",
        f"what begins at line {line}, column {column} has no end",
        f"it begins with: {text[offset : offset + 20]!r}",
        "close the quote or the comment",
    )
