"""Conditions that every branch of an OR repeats.

    (A and B) or (A and C)  implies  A

The OR itself stays; A is one more condition, and often the only equality of a join (TPC-H Q19 is written this way).
Conditions are opaque text, so branches and conjuncts are found by tokens: outside of parentheses, CASE and BETWEEN.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import sqlglot
from sqlglot import Token, TokenType

from anabranch.algebra.expression import Equality, Expression, Outer, Part, Ref, column

_HOLE = re.compile(r"__ab_hole_(\d+)__")
_OPENING = (TokenType.L_PAREN, TokenType.CASE)
_CLOSING = (TokenType.R_PAREN, TokenType.END)

Tokens = list[Token]


def common_conjuncts(predicate: Expression, types: Mapping[str, str]) -> tuple[Expression, ...]:
    """The conjuncts that every branch of an OR has, in the order of the first; none if it is no OR."""
    if " or " not in " ".join(part.lower() for part in predicate.parts if isinstance(part, str)):
        return ()
    holes: list[Ref | Outer] = []

    def numbered(hole: Ref | Outer) -> str:
        if hole not in holes:
            holes.append(hole)
        return f"__ab_hole_{holes.index(hole)}__"

    text = predicate.text(numbered)
    branches = _split(_unwrapped(sqlglot.tokenize(text, read="spark")), TokenType.OR)
    if len(branches) < 2:
        return ()
    conjuncts = [[_unwrapped(each) for each in _split(_unwrapped(branch), TokenType.AND)] for branch in branches]
    repeated = set.intersection(*({_text(text, each) for each in branch} for branch in conjuncts))
    found = dict.fromkeys(written for each in conjuncts[0] if (written := _text(text, each)) in repeated)
    return tuple(_expression(each, holes, types, predicate.deterministic) for each in found)


def _split(tokens: Tokens, separator: TokenType) -> list[Tokens]:
    """The pieces between the separators that stand outside of parentheses and CASE; BETWEEN keeps its AND."""
    pieces: list[Tokens] = [[]]
    depth = 0
    between = 0
    for token in tokens:
        kind = token.token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth == 0 and kind is TokenType.BETWEEN:
            between += 1
        if depth == 0 and kind is TokenType.AND and between:
            between -= 1
        elif depth == 0 and kind is separator:
            pieces.append([])
            continue
        pieces[-1].append(token)
    return pieces


def _unwrapped(tokens: Tokens) -> Tokens:
    """Without the parentheses around the whole."""
    while len(tokens) > 2 and tokens[0].token_type is TokenType.L_PAREN and _closes_at(tokens) == len(tokens) - 1:
        tokens = tokens[1:-1]
    return tokens


def _closes_at(tokens: Tokens) -> int:
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0:
            return place
    return -1


def _text(text: str, tokens: Tokens) -> str:
    return " ".join(text[token.start : token.end + 1] for token in tokens)


def _expression(text: str, holes: list[Ref | Outer], types: Mapping[str, str], deterministic: bool) -> Expression:
    parts: list[Part] = []
    for index, piece in enumerate(_HOLE.split(text)):
        if index % 2:
            parts.append(holes[int(piece)])
        elif piece:
            parts.append(piece)
    return Expression(tuple(parts), "boolean", deterministic, _equality(tuple(parts), lambda name: types[name]))


def _equality(parts: tuple[Part, ...], type_of: Callable[[str], str]) -> Equality | None:
    match parts:
        case (Ref(left), (" = " | " <=> ") as sign, Ref(right)):
            sides = column(left, type_of(left)), column(right, type_of(right))
            return Equality(*sides, null_safe=sign == " <=> ")
    return None
