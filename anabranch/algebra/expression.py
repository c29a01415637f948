"""Scalar expressions: the user's own Spark SQL text, with holes where it reads a column.

We never regenerate an expression: Spark evaluates the slice of text the user wrote. What the engine needs to know is
which columns it reads (the holes), its type (from Spark's analyzer) and whether it is deterministic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from anabranch.algebra.types import TypeShape, shape_of


@dataclass(frozen=True, slots=True)
class Ref:
    """A hole: the value of a column of the operator's own input."""

    name: str


@dataclass(frozen=True, slots=True)
class Outer:
    """A hole: the value of a column of the enclosing query's current row. Exists only above `lower/`."""

    name: str


Part = str | Ref | Outer


@dataclass(frozen=True, slots=True)
class Equality:
    """The two sides of a conjunct `left = right`, or `left <=> right` where NULL equals NULL."""

    left: Expression
    right: Expression
    null_safe: bool


@dataclass(frozen=True, slots=True)
class Expression:
    """Spark SQL text with holes. `text` pieces hold no comments, so an expression may stand on one line."""

    parts: tuple[Part, ...]
    type: str
    deterministic: bool = True
    equality: Equality | None = None
    columns: frozenset[str] = field(init=False, repr=False, compare=False)
    """Names of the input columns read."""
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Plans are compared by hash and by the columns that they read, thousands of times a tick."""
        object.__setattr__(self, "columns", frozenset(part.name for part in self.parts if isinstance(part, Ref)))
        object.__setattr__(self, "_hash", hash((self.parts, self.type, self.deterministic, self.equality)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def outer_columns(self) -> frozenset[str]:
        """Names of the enclosing query's columns read."""
        return frozenset(part.name for part in self.parts if isinstance(part, Outer))

    @property
    def is_column(self) -> bool:
        """True for a bare column of the input, which needs no parentheses and no evaluation."""
        return len(self.parts) == 1 and isinstance(self.parts[0], Ref)

    def text(self, hole: Callable[[Ref | Outer], str]) -> str:
        """The expression as text, each hole filled in by `hole`."""
        return "".join(part if isinstance(part, str) else hole(part) for part in self.parts)

    def substitute(self, values: Mapping[str, Expression]) -> Expression:
        """Replace input columns by expressions; columns not in `values` stay."""
        return self._replace_holes(lambda part: values.get(part.name) if isinstance(part, Ref) else None)

    def bind_outer(self, values: Mapping[str, Expression]) -> Expression:
        """Replace the enclosing query's columns by expressions; those not in `values` stay."""
        return self._replace_holes(lambda part: values.get(part.name) if isinstance(part, Outer) else None)

    def _replace_holes(self, value_of: Callable[[Ref | Outer], Expression | None]) -> Expression:
        parts: list[Part] = []
        deterministic = self.deterministic
        for part in self.parts:
            value = None if isinstance(part, str) else value_of(part)
            if value is None:
                parts.append(part)
                continue
            parts.extend(_enclosed(value.parts))
            deterministic = deterministic and value.deterministic
        equality = self.equality and Equality(
            self.equality.left._replace_holes(value_of),
            self.equality.right._replace_holes(value_of),
            self.equality.null_safe,
        )
        return replace(self, parts=_join_text(parts), deterministic=deterministic, equality=equality)

    def __str__(self) -> str:
        return self.text(lambda hole: hole.name if isinstance(hole, Ref) else f"outer.{hole.name}")


def column(name: str, type: str) -> Expression:
    """A bare column."""
    return Expression((Ref(name),), type)


def expression(template: str, type: str, *arguments: Expression | str) -> Expression:
    """Build an expression of our own: each `{}` of the template takes an expression (parenthesised) or plain text.

    >>> str(expression("coalesce({}, 0)", "bigint", column("n", "bigint")))
    'coalesce(n, 0)'
    """
    pieces = template.split("{}")
    if len(pieces) != len(arguments) + 1:
        raise ValueError(f"{template!r} has {len(pieces) - 1} holes, {len(arguments)} arguments were given")
    parts: list[Part] = [pieces[0]]
    deterministic = True
    for argument, piece in zip(arguments, pieces[1:], strict=True):
        if isinstance(argument, str):
            parts.append(argument)
        else:
            parts.extend(_enclosed(argument.parts))
            deterministic = deterministic and argument.deterministic
        parts.append(piece)
    return Expression(_join_text(parts), type, deterministic)


def equals(left: Expression, right: Expression, null_safe: bool = False) -> Expression:
    """The conjunct `left = right` (or `<=>`), known to be an equality. Maps, which Spark groups by but does not
    compare, are equal if their sorted entries are; a collation is said again, as a column's yields to another's."""
    left, right = _comparable(left), _comparable(right)
    built = expression("{} <=> {}" if null_safe else "{} = {}", "boolean", left, right)
    return replace(built, equality=Equality(left, right, null_safe))


def _comparable(value: Expression) -> Expression:
    if value.type.startswith("string collate "):
        return expression(f"{{}} COLLATE {value.type.removeprefix('string collate ')}", value.type, value)
    shape = shape_of(value.type)
    if not _has_map(shape):
        return value
    template, type = _without_maps(shape, "{}")
    return expression(template, type, *[value] * template.count("{}"))


def _has_map(shape: TypeShape) -> bool:
    return shape.base == "map" or any(map(_has_map, shape.children))


def _without_maps(shape: TypeShape, text: str, depth: int = 0) -> tuple[str, str]:
    """The value of `text` with sorted entries in place of maps, at any depth, and its type."""
    if not _has_map(shape):
        return text, shape.text
    item = f"__ab_{depth}"
    match shape.base:
        case "map":
            key, mapped = shape.children
            entry, type = _without_maps(mapped, f"{item}.value", depth + 1)
            entries = f"transform(map_entries({text}), {item} -> named_struct('key', {item}.key, 'value', {entry}))"
            return f"sort_array({entries})", f"array<struct<key:{key.text},value:{type}>>"
        case "array":
            element, type = _without_maps(shape.children[0], item, depth + 1)
            return f"transform({text}, {item} -> {element})", f"array<{type}>"
    fields = [
        _without_maps(each, f"{text}.`{name.replace('`', '``')}`", depth)
        for name, each in zip(shape.fields, shape.children, strict=True)
    ]
    built = ", ".join(f"'{place}', {field}" for place, (field, _) in enumerate(fields))
    types = ",".join(f"{place}:{type}" for place, (_, type) in enumerate(fields))
    return f"IF({text} IS NULL, NULL, named_struct({built}))", f"struct<{types}>"


def negated(operand: Expression) -> Expression:
    """`NOT operand`."""
    return expression("NOT {}", "boolean", operand)


def is_negated_column(candidate: Expression) -> str | None:
    """The column's name if the expression is `NOT column`, as built by `negated`."""
    match candidate.parts:
        case ("NOT ", Ref(name)):
            return name
    return None


def _enclosed(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts as an operand: in parentheses, unless they are a column or one word of text."""
    if len(parts) == 1 and (not isinstance(parts[0], str) or _WORD.fullmatch(parts[0])):
        return parts
    return ("(", *parts, ")")


_WORD = re.compile(r"\w+|'[^']*'")


def _join_text(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Merge neighbouring pieces of text and drop empty ones, so that equal expressions are equal values."""
    joined: list[Part] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    return tuple(joined)
