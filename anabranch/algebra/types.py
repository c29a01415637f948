"""Spark types as text (`decimal(12,2)`, `array<int>`): taken apart, compared for storing."""

from __future__ import annotations

from dataclasses import dataclass

NUMERIC = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
DATETIME = ("date", "timestamp", "timestamp_ntz", "timestamp_ltz")
STORABLE = (*NUMERIC, "boolean", "string", "binary", "date", "timestamp", "timestamp_ntz")
COMPOSITE = ("array", "map", "struct")


@dataclass(frozen=True, slots=True)
class TypeShape:
    """`base` is the word before `<` or `(`; children are element, key and value, or field types."""

    base: str
    text: str
    children: tuple[TypeShape, ...] = ()
    fields: tuple[str, ...] = ()


def shape_of(type: str) -> TypeShape:
    """Take a type apart.

    >>> shape_of("map<string,array<int>>").children[1].children[0].base
    'int'
    """
    text = type.strip()
    opening = text.find("<")
    if opening < 0 or text[:opening].lower() not in COMPOSITE:
        return TypeShape(text.split("(")[0].split(" ")[0].lower(), text.lower())
    base = text[:opening].lower()
    inner = _split(text[opening + 1 : -1])
    if base != "struct":
        return TypeShape(base, text, tuple(shape_of(each) for each in inner))
    pairs = [each.split(":", 1) for each in inner if each]
    return TypeShape(base, text, tuple(shape_of(kind) for _, kind in pairs), tuple(name for name, _ in pairs))


def _split(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    pieces, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        if letter in "<(":
            depth += 1
        elif letter in ">)":
            depth -= 1
        elif letter == "," and depth == 0:
            pieces.append(text[start:place])
            start = place + 1
    return [*pieces, text[start:]]


def assignable(from_type: str, to_type: str) -> bool:
    """Spark's ANSI store assignment: whether a value of one type may be stored in a column of another."""
    return _assignable(shape_of(from_type), shape_of(to_type))


def _assignable(given: TypeShape, wanted: TypeShape) -> bool:
    if given.text.lower() == wanted.text.lower() or given.base in ("void", "null"):
        return True
    if given.base in NUMERIC and wanted.base in NUMERIC:
        return True
    if wanted.base in ("string", "varchar", "char"):
        return given.base not in (*COMPOSITE, "variant")
    if given.base in DATETIME and wanted.base in DATETIME:
        return True
    if given.base == wanted.base == "interval":
        return ("month" in given.text or "year" in given.text) == ("month" in wanted.text or "year" in wanted.text)
    same_shape = given.base == wanted.base and len(given.children) == len(wanted.children) > 0
    return same_shape and all(map(_assignable, given.children, wanted.children))


def orderable(type: str) -> bool:
    """Whether Spark can sort by a column of this type."""
    shape = shape_of(type)
    if shape.base in ("map", "variant", "interval") and not shape.text.startswith("interval "):
        return False
    return all(orderable(each.text) for each in shape.children)


def storable(type: str) -> bool:
    """Whether a lake can hold values of this type and give them back as they were, as store/types.py checks."""
    shape = shape_of(type)
    if shape.base not in COMPOSITE:
        return shape.base in STORABLE and " collate " not in shape.text
    names = {name.lower() for name in shape.fields}
    all_held = bool(shape.children) and all(storable(each.text) for each in shape.children)
    return all_held and len(names) == len(shape.fields)


def quoted_type(type: str) -> str:
    """The type as it can be written in a query: names of struct fields in backquotes.

    >>> quoted_type("struct<a b:int>")
    'struct<`a b`:int>'
    """
    shape = shape_of(type)
    if shape.base not in COMPOSITE:
        return type
    inner = [quoted_type(each.text) for each in shape.children]
    if shape.base == "struct":
        names = ["`" + name.replace("`", "``") + "`" for name in shape.fields]
        inner = [f"{name}:{each}" for name, each in zip(names, inner, strict=True)]
    return f"{shape.base}<{','.join(inner)}>"
