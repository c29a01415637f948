"""Add partition columns to window calls, in their text.

    partitioned(`rank() OVER (PARTITION BY a ORDER BY b)`, k)  =  `rank() OVER (PARTITION BY k, a ORDER BY b)`
    partitioned(`rank() OVER (ORDER BY b)`, k)                 =  `rank() OVER (PARTITION BY k ORDER BY b)`

A window call is the user's text, so the columns are put into the text: the tokenizer finds every OVER and what follows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import sqlglot
from sqlglot import TokenType

from anabranch.algebra.expression import Expression, Part
from anabranch.algebra.relation import Column

_HOLE = re.compile(r"__ab_hole_(\d+)__")


def partitioned(call: Expression, columns: Sequence[Column]) -> Expression:
    """The window call with the columns put before its own partition columns."""
    holes: list[Part] = []

    def numbered(hole: Part) -> str:
        holes.append(hole)
        return f"__ab_hole_{len(holes) - 1}__"

    text = call.text(numbered)
    added = ", ".join(each.value.text(numbered) for each in columns)
    for place, opening in reversed(_places(text)):
        inserted = f"{added}, " if opening else f"PARTITION BY {added} "
        text = text[:place] + inserted + text[place:]
    return replace(call, parts=_with_holes(text, holes))


def _places(text: str) -> list[tuple[int, bool]]:
    """Where partition columns go: (offset, whether a PARTITION BY is there already)."""
    tokens = sqlglot.tokenize(text, read="spark")
    found: list[tuple[int, bool]] = []
    for over, parenthesis, following in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if over.token_type is not TokenType.OVER:
            continue
        if parenthesis.token_type is not TokenType.L_PAREN:
            raise ValueError(f"{text}: a window must be spelled out after OVER, not named")
        has_partition = following.token_type in (TokenType.PARTITION_BY, TokenType.DISTRIBUTE_BY)
        found.append((_after_gap(text, following.end + 1) if has_partition else parenthesis.end + 1, has_partition))
    return found


def _after_gap(text: str, place: int) -> int:
    while text[place].isspace():
        place += 1
    return place


def _with_holes(text: str, holes: list[Part]) -> tuple[Part, ...]:
    pieces = _HOLE.split(text)
    parts: list[Part] = []
    for index, piece in enumerate(pieces):
        if index % 2:
            parts.append(holes[int(piece)])
        elif piece:
            parts.append(piece)
    return tuple(parts)
