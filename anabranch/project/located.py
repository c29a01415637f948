"""Errors that name a file and a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from anabranch.errors import AnabranchError
from anabranch.project.desired import Place

_LINE = re.compile(r"\bline (\d+)")
_NAMED = re.compile(r"[`'\"]([^`'\"]+)[`'\"]")
_OWN_LINES = ("PARSE_SYNTAX_ERROR", "QUERY_SYNTAX")
"""Errors whose line is one of the text as it was written; others know it only with names replaced."""


@contextmanager
def at(place: Place, text: str = "") -> Iterator[None]:
    """Errors inside are told with the place; `text` begins there, and is searched for what the error names."""
    try:
        yield
    except AnabranchError as error:
        error.place = error.place or str(_line_of(error, place, text))
        raise


def _line_of(error: AnabranchError, place: Place, text: str) -> Place:
    said = _LINE.search(f"{error.message} {error.detail}")
    if error.code in _OWN_LINES and said:
        return Place(place.file, place.line + int(said[1]) - 1)
    for name in _NAMED.findall(error.message):
        found = re.search(rf"\b{re.escape(name.split('.')[-1])}\b", text, re.IGNORECASE)
        if found:
            return Place(place.file, place.line + text.count("\n", 0, found.start()))
    return place
