"""What `*` stands for: columns of one table or of all, of the enclosing query's table, or fields of a struct.

t.*, s.*, * EXCEPT (a, s.c)    over t(a, s STRUCT<c, d>)
= a, s; s.c, s.d; named_struct('d', s.d) AS s
"""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.algebra.expression import Expression, Outer, Part, Ref
from anabranch.algebra.types import TypeShape, shape_of
from anabranch.sql.context import Context
from anabranch.sql.refused import refused
from anabranch.sql.scope import Field, Found, Scope
from anabranch.sql.statement_nodes import quoted
from anabranch.sql.structs import text_literal
from anabranch.sql.syntax import Star

Path = tuple[str, ...]


def spelled_out(context: Context, scope: Scope, star: Star) -> list[tuple[str, Expression]]:
    """The columns a star stands for, with their names."""
    values = _of_tables(scope, star)
    if values is None:
        values = _fields_of_struct(context, scope, star)
    if values is None:
        raise refused("NAME_NOT_UNDERSTOOD", ".".join((*star.qualifier, "*")), context.source.place(star.start))
    return values


def _of_tables(scope: Scope, star: Star) -> list[tuple[str, Expression]] | None:
    """None where no table is meant; an empty list where all of its columns are excluded."""
    fields, outer = scope.star(star.qualifier), False
    if not fields and star.qualifier and scope.find(star.qualifier) is None:
        fields, outer = scope.star_outer(star.qualifier), True
    found: list[tuple[str, Expression]] = []
    if not fields:
        return None
    for each in fields:
        excluded = [rest for parts in star.excluded for rest in _inside(each, parts)]
        if () not in excluded:
            hole = Outer(each.column.name) if outer else Ref(each.column.name)
            found.append((each.name, _without((hole,), each.column.type, excluded)))
    return found


def _inside(field: Field, parts: Path) -> Iterable[Path]:
    """What of the field an excluded name names: all of it (an empty path), a field inside of it, or nothing."""
    for width in range(len(parts)):
        if field.name.lower() == parts[width].lower() and field.matches(parts[:width]):
            yield tuple(part.lower() for part in parts[width + 1 :])


def _fields_of_struct(context: Context, scope: Scope, star: Star) -> list[tuple[str, Expression]] | None:
    """`s.*` where s is a column: its fields."""
    found = scope.find(star.qualifier) or scope.find_outer(star.qualifier)
    if found is None:
        return None
    (holder,) = context.typed([_holder(found)])
    excluded = [tuple(part.lower() for part in parts) for parts in star.excluded]
    return _fields(holder.parts, shape_of(holder.type), excluded)


def _holder(found: Found) -> Expression:
    hole = Outer(found.column.name) if found.outer else Ref(found.column.name)
    path = "".join(f".{quoted(part)}" for part in found.rest)
    return Expression((hole, path), "") if path else Expression((hole,), found.column.type)


def _fields(holder: tuple[Part, ...], shape: TypeShape, excluded: list[Path]) -> list[tuple[str, Expression]]:
    if shape.base != "struct":
        return []
    found: list[tuple[str, Expression]] = []
    for name, child in zip(shape.fields, shape.children, strict=True):
        rests = [path[1:] for path in excluded if path[0] == name.lower()]
        if () not in rests:
            found.append((name, _without((*holder, f".{quoted(name)}"), child.text, rests)))
    return found


def _without(value: tuple[Part, ...], type: str, excluded: list[Path]) -> Expression:
    """A value without some of its fields."""
    if not excluded:
        return Expression(value, type)
    parts: list[Part] = []
    for name, kept in _fields(value, shape_of(type), excluded):
        parts += [", " if parts else "named_struct(", f"{text_literal(name)}, ", *kept.parts]
    return Expression((*parts, ")"), "")
