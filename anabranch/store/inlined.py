"""Rows that an outside client left in the catalog itself instead of in a file.

DuckLake reads them for us: it knows how it wrote them. They come in the schema of their snapshot and are brought to the
schema asked for by field id: renamed fields keep their values, fields that were not there yet get their default.
"""

from __future__ import annotations

import pyarrow as pa

from anabranch.spark.types import parse_type
from anabranch.store.arrow import arrow_type
from anabranch.store.catalog import Field, Table
from anabranch.store.connection import LAKE, Connection, identifier, text
from anabranch.store.protocol import ROWID
from anabranch.store.types import duckdb_type


class InlinedRowsMovedError(Exception):
    """Somebody flushed the rows into a file between two looks at the catalog: look again."""


def read_inlined(connection: Connection, stored: Table, asked: Table, at: int, holders: dict[str, int]) -> pa.Table:
    """The inlined rows of `stored` (the table at the snapshot) in the columns of `asked`, and ROWID."""
    columns = ", ".join(f"{identifier(field.name)} AS f{field.id}" for field in stored.fields)
    names = ", ".join(text(name) for name in holders)
    place = f"{LAKE}.{identifier(stored.info.schema)}.{identifier(stored.info.name)}"
    rows = connection.arrow(
        f"SELECT rowid AS {identifier(ROWID)}, {columns} FROM {place} AT (VERSION => {at}) WHERE filename IN ({names})"
    )
    if rows.num_rows != sum(holders.values()):
        raise InlinedRowsMovedError
    known = {field.id: field for field in stored.fields}
    arrays = []
    for field in asked.fields:
        if field.id in known:
            source = rows.column(f"f{field.id}").combine_chunks()
            arrays.append(_project(source, known[field.id], field))
        else:
            arrays.append(_default(connection, field, rows.num_rows))
    arrays.append(rows.column(ROWID).combine_chunks())
    return pa.Table.from_arrays(arrays, names=[*(field.name for field in asked.fields), ROWID])


def _default(connection: Connection, field: Field, count: int) -> pa.Array:
    kind = _arrow(field)
    if field.initial_default is None:
        return pa.nulls(count, kind)
    value = connection.arrow(f"SELECT CAST({text(field.initial_default)} AS {duckdb_type(field.type)}) AS x")
    return pa.repeat(value.column("x").cast(kind)[0], count)


def _project(array: pa.Array, source: Field, target: Field) -> pa.Array:
    """The values with the target's fields, matched by id."""
    if target.type.startswith("struct<"):
        inner = {child.id: position for position, child in enumerate(source.children)}
        children = [
            _project(array.field(inner[child.id]), source.children[inner[child.id]], child)
            if child.id in inner
            else pa.nulls(len(array), _arrow(child))
            for child in target.children
        ]
        fields = [pa.field(child.name, part.type) for child, part in zip(target.children, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
    if target.type.startswith("array<"):
        values = _project(array.values, source.children[0], target.children[0])
        return pa.ListArray.from_arrays(array.offsets, values, mask=array.is_null())
    if target.type.startswith("map<"):
        keys = _project(array.keys, source.children[0], target.children[0])
        items = _project(array.items, source.children[1], target.children[1])
        return pa.MapArray.from_arrays(array.offsets, keys, items, mask=array.is_null())
    return array.cast(_arrow(target))


def _arrow(field: Field) -> pa.DataType:
    if field.type.startswith("struct<"):
        return pa.struct([pa.field(child.name, _arrow(child)) for child in field.children])
    if field.type.startswith("array<"):
        return pa.list_(_arrow(field.children[0]))
    if field.type.startswith("map<"):
        return pa.map_(_arrow(field.children[0]), _arrow(field.children[1]))
    return arrow_type(parse_type(field.type))
