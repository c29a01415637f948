"""Questions about expressions: what stands in them, and what they are without their parentheses."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.sql.functions import AGGREGATES
from anabranch.sql.syntax import Aliased, Call, Conjunction, Expr, Nested, Not, Paren


def strip(node: Expr) -> Expr:
    """Without parentheses around it."""
    while isinstance(node, Paren):
        node = node.inner
    return node


def strip_nots(node: Expr) -> tuple[Expr, bool]:
    """Without parentheses and NOTs, and whether an odd number of NOTs was there; only where a subquery is below."""
    inner, negative = strip(node), False
    while isinstance(inner, Not):
        inner, negative = strip(inner.operand), not negative
    if isinstance(inner, Nested):
        return inner, negative
    return strip(node), False


def conjuncts(node: Expr | None) -> list[Expr]:
    """The operands of AND, however nested."""
    if node is None:
        return []
    node = strip(node)
    if isinstance(node, Conjunction):
        return [each for operand in node.operands for each in conjuncts(operand)]
    return [node]


def below(node: Expr) -> Iterator[Expr]:
    """The node and everything below it, subqueries' insides left out."""
    yield node
    for child in node.children:
        yield from below(child)


def calls_in(node: Expr) -> Iterator[Call]:
    return (each for each in below(node) if isinstance(each, Call))


def nested_in(node: Expr) -> Iterator[Nested]:
    return (each for each in below(node) if isinstance(each, Nested))


def is_aggregate(node: Expr) -> bool:
    """An aggregate call that is not a window call. FILTER and DISTINCT make any call one."""
    if not isinstance(node, Call) or node.over is not None:
        return False
    return node.function in AGGREGATES or node.distinct or node.filter is not None or bool(node.within)


def aggregates_in(node: Expr) -> Iterator[Call]:
    """The outermost aggregate calls."""
    if isinstance(node, Call) and is_aggregate(node):
        yield node
        return
    for child in node.children:
        yield from aggregates_in(child)


def windows_in(node: Expr) -> Iterator[Call]:
    """The window calls."""
    for each in below(node):
        if isinstance(each, Call) and each.over is not None:
            yield each


def has_aggregate(node: Expr) -> bool:
    return next(aggregates_in(node), None) is not None


def unaliased(node: Expr) -> Expr:
    return node.value if isinstance(node, Aliased) else node
