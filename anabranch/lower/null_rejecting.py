"""Conditions that no padded row can satisfy.

    filter (L left-join R on c, p)  =  filter (L join R on c, p)       if p is not true wherever R's columns are NULL

An inner join has the better delta rule, and its conditions can go anywhere. Conditions are opaque text; what surely is
NULL, true or false of NULL operands is followed (comparisons, arithmetic, AND, OR, NOT, IS NULL, CASE, coalesce), and
everything else counts as unknown.
Example: in `q < 0.2 * a` a padded `a` makes the product NULL, then the comparison, so the row is dropped either way.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import lru_cache

import sqlglot
from sqlglot import exp

from anabranch.algebra.expression import Expression, Ref


class _Known(Enum):
    """What is known of a value when the padded columns are NULL."""

    NULL = "null"
    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"


def rejects_padding(predicate: Expression, padded: frozenset[str]) -> bool:
    """Whether the predicate is surely not true when all the columns `padded` are NULL."""
    if not predicate.columns & padded or not predicate.deterministic:
        return False
    template = predicate.text(
        lambda hole: "padded" if isinstance(hole, Ref) and hole.name in padded else "kept",
    )
    return _is_never_true(template)


@lru_cache(maxsize=4096)
def _is_never_true(template: str) -> bool:
    try:
        node = sqlglot.parse_one(template, dialect="spark")
    except sqlglot.ParseError:
        return False
    return _known(node) in (_Known.NULL, _Known.FALSE)


def _known(node: exp.Expr) -> _Known:
    rule = _RULES.get(type(node))
    if rule is not None:
        return rule(node)
    if isinstance(node, _STRICT) and any(_known(each) is _Known.NULL for each in node.iter_expressions()):
        return _Known.NULL
    return _Known.UNKNOWN


_STRICT = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv,
    exp.Neg, exp.Like, exp.ILike, exp.RegexpLike, exp.Cast, exp.TryCast, exp.Abs, exp.Upper, exp.Lower, exp.Substring,
    exp.Trim, exp.Length,
)  # fmt: skip
"""NULL where any operand is. A type of a CAST is no operand, and never known to be NULL."""


def _column(node: exp.Expr) -> _Known:
    return _Known.NULL if node.name == "padded" and not node.args.get("table") else _Known.UNKNOWN


def _first_operand(node: exp.Expr) -> _Known:
    """BETWEEN and IN: NULL if what is compared is; with a known operand the others may still decide."""
    return _Known.NULL if _known(node.this) is _Known.NULL else _Known.UNKNOWN


def _not(node: exp.Expr) -> _Known:
    opposite = {_Known.TRUE: _Known.FALSE, _Known.FALSE: _Known.TRUE}
    inner = _known(node.this)
    return opposite.get(inner, inner)


def _and(node: exp.Expr) -> _Known:
    sides = {_known(node.this), _known(node.expression)}
    if _Known.FALSE in sides:
        return _Known.FALSE
    if _Known.UNKNOWN in sides:
        return _Known.UNKNOWN
    return _Known.NULL if _Known.NULL in sides else _Known.TRUE


def _or(node: exp.Expr) -> _Known:
    sides = {_known(node.this), _known(node.expression)}
    if _Known.TRUE in sides:
        return _Known.TRUE
    if _Known.UNKNOWN in sides:
        return _Known.UNKNOWN
    return _Known.NULL if _Known.NULL in sides else _Known.FALSE


def _is(node: exp.Expr) -> _Known:
    if not isinstance(node.expression, exp.Null):
        return _Known.UNKNOWN
    inner = _known(node.this)
    if inner is _Known.UNKNOWN:
        return _Known.UNKNOWN
    return _Known.TRUE if inner is _Known.NULL else _Known.FALSE


def _coalesce(node: exp.Expr) -> _Known:
    for each in (node.this, *node.expressions):
        found = _known(each)
        if found is not _Known.NULL:
            return found
    return _Known.NULL


def _case(node: exp.Expr) -> _Known:
    """The value of the first branch that may be taken, if every later one that may be taken agrees."""
    if node.this is not None:
        return _Known.UNKNOWN
    possible: set[_Known] = set()
    for branch in node.args["ifs"]:
        condition = _known(branch.this)
        if condition in (_Known.NULL, _Known.FALSE):
            continue
        possible.add(_known(branch.args["true"]))
        if condition is _Known.TRUE:
            break
    else:
        default = node.args.get("default")
        possible.add(_Known.NULL if default is None else _known(default))
    return possible.pop() if len(possible) == 1 else _Known.UNKNOWN


_RULES: dict[type[exp.Expr], Callable[[exp.Expr], _Known]] = {
    exp.Column: _column,
    exp.Null: lambda node: _Known.NULL,
    exp.Boolean: lambda node: _Known.TRUE if node.this else _Known.FALSE,
    exp.Paren: lambda node: _known(node.this),
    exp.Not: _not,
    exp.And: _and,
    exp.Or: _or,
    exp.Is: _is,
    exp.In: _first_operand,
    exp.Between: _first_operand,
    exp.Coalesce: _coalesce,
    exp.Case: _case,
}
