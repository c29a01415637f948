"""Arrow values brought to a table's columns by field: what was renamed keeps its value, what is missing is NULL."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from anabranch.spark.types import parse_type
from anabranch.store.arrow import arrow_type
from anabranch.store.catalog import Field

Finder = Callable[["pa.Schema | pa.StructType", Field], "int | None"]
"""Where a field is among the fields of a schema or struct."""


def by_name(names: dict[int, str]) -> Finder:
    """Find fields by the names that these ids have in the data."""

    def find(fields: pa.Schema | pa.StructType, wanted: Field) -> int | None:
        position = fields.get_field_index(names[wanted.id]) if wanted.id in names else -1
        return position if position >= 0 else None

    return find


def by_id(fields: pa.Schema | pa.StructType, wanted: Field) -> int | None:
    """Find a field by the id that its Parquet file gives it."""
    for position in range(len(fields.names)):
        metadata = fields.field(position).metadata
        if metadata and metadata.get(b"PARQUET:field_id") == str(wanted.id).encode():
            return position
    return None


def names_of(fields: tuple[Field, ...]) -> dict[int, str]:
    """Names by id, at every depth."""
    found: dict[int, str] = {}
    for field in fields:
        found |= {field.id: field.name} | names_of(field.children)
    return found


def project(array: pa.Array, target: Field, find: Finder) -> pa.Array:
    """The values in the target's type."""
    if target.type.startswith("struct<"):
        children = []
        for child in target.children:
            position = find(array.type, child)
            inner = pa.nulls(len(array), field_type(child)) if position is None else array.field(position)
            children.append(inner if position is None else project(inner, child, find))
        fields = [pa.field(child.name, part.type) for child, part in zip(target.children, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
    if target.type.startswith("array<"):
        values = project(array.values, target.children[0], find)
        return pa.ListArray.from_arrays(array.offsets, values, mask=array.is_null())
    if target.type.startswith("map<"):
        keys = project(array.keys, target.children[0], find)
        items = project(array.items, target.children[1], find)
        return pa.MapArray.from_arrays(array.offsets, keys, items, mask=array.is_null())
    return array.cast(field_type(target))


def field_type(field: Field) -> pa.DataType:
    """The Arrow type of a column."""
    if field.type.startswith("struct<"):
        return pa.struct([pa.field(child.name, field_type(child)) for child in field.children])
    if field.type.startswith("array<"):
        return pa.list_(field_type(field.children[0]))
    if field.type.startswith("map<"):
        return pa.map_(field_type(field.children[0]), field_type(field.children[1]))
    return arrow_type(parse_type(field.type))
