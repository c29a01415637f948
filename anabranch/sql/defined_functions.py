"""Functions that users define in SQL: whether chance or the clock is in their bodies, or in what those call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from anabranch.sql.clock import readings
from anabranch.sql.determinism import NONDETERMINISTIC, WITHOUT_PARENTHESES
from anabranch.sql.tokens import Kind, tokenize


def hides_chance(functions: Iterable[str], body_of: Callable[[str], str]) -> bool:
    """Whether calling these functions may give another value next time. `body_of` is empty for Spark's own."""
    seen: set[str] = set()
    left = set(functions)
    while left:
        bodies = [body for body in map(body_of, left) if body]
        called = {name for body in bodies for name in _called_in(body)}
        if called & NONDETERMINISTIC or any(map(readings, bodies)):
            return True
        seen |= left
        left = called - seen
    return False


def _called_in(body: str) -> Iterator[str]:
    tokens = tokenize(body).tokens
    for token, following in pairwise(tokens):
        word = token.text.lower()
        if token.kind in (Kind.WORD, Kind.QUOTED) and (following.text == "(" or word in WITHOUT_PARENTHESES):
            yield word
