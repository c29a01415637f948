"""How the columns of a table lie in its files, and what Spark is asked for.

A column is its field id. Spark reads by id, but pushes filters down by *name*: after `RENAME a TO b, ADD a` a filter on
the new `a` would prune old files by the old one. So a column is asked for under its own name only if it has had that
name since the table was created, and under a made-up name, which no file has, otherwise. Files that were added as they
are have no ids; the catalog maps their names.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql.types import ArrayType, DataType, LongType, MapType, StructField, StructType

from anabranch.errors import StorageError
from anabranch.spark.quote import quoted
from anabranch.spark.types import parse_type
from anabranch.store.catalog import Catalog, DataFile, Field, Table
from anabranch.store.defaults import default_literal

ROW_ID_COLUMN = "_ducklake_internal_row_id"
SNAPSHOT_COLUMN = "_ducklake_internal_snapshot_id"
_ROW_ID_FIELD = 2147483540
_SNAPSHOT_FIELD = 2147483539
_FIELD_ID = "parquet.field.id"

Mapping = dict[int, tuple[int | None, str, bool]]


@dataclass(frozen=True, slots=True)
class Layout:
    """Files of one layout are read together: the same name mapping, the same columns to be filled in."""

    mapping: tuple[tuple[int, int | None, str], ...] | None
    missing: frozenset[int]


def layout_of(catalog: Catalog, table: Table, file: DataFile, hidden: frozenset[int] = frozenset()) -> Layout:
    """The layout of one file for the columns of the table, of which some may be hidden."""
    if file.mapping is None:
        # Whether a file has a column does not follow from its age: a rewrite makes a new file with the old columns.
        late = [field for field in table.fields if field.initial_default is not None]
        present = _field_ids_in(file.path) if late else frozenset()
        return Layout(None, hidden | {field.id for field in late if field.id not in present})
    mapping = catalog.name_mapping(file.mapping)
    if partitions := [name for _, name, is_partition in mapping.values() if is_partition]:
        raise StorageError(
            "HIVE_PARTITIONED_FILE",
            f"a file of {table.info.schema}.{table.info.name} keeps columns in its path: {', '.join(partitions)}",
            detail=f"The file is {file.path}.",
            hint="Insert its rows into the lake instead of adding the file.",
        )
    known = tuple(sorted((key, parent, name) for key, (parent, name, _) in mapping.items()))
    return Layout(known, hidden | {field.id for field in table.fields if field.id not in mapping})


def check_readable(table: Table) -> None:
    """Refuse a table with a column that Spark cannot read, by name."""
    unreadable = [f"{field.name} ({field.type})" for field in table.fields if not field.readable]
    if unreadable:
        raise StorageError(
            "COLUMN_NOT_READABLE",
            f"table {table.info.schema}.{table.info.name} has columns of types that Spark cannot read",
            detail=f"These are: {', '.join(unreadable)}.",
            hint="Have their writer change them to types of Spark SQL, or drop them.",
        )
    if inner := [field.name for field in table.fields if field.has_inner_default]:
        raise StorageError(
            "COLUMN_NOT_READABLE",
            f"table {table.info.schema}.{table.info.name} has struct fields with defaults",
            detail=f"They are in: {', '.join(inner)}.",
            hint="Have their writer add the fields without a default.",
        )


def requested(table: Table, layout: Layout) -> tuple[StructType, list[str]]:
    """The schema to ask the files for, and the expressions that make the table's columns from it."""
    if layout.mapping is None:
        return _requested_by_id(table, layout)
    return _requested_by_name(table, layout)


def _requested_by_id(table: Table, layout: Layout) -> tuple[StructType, list[str]]:
    asked, expressions = [], []
    for field in table.fields:
        name = field.name if _is_original(field, table.created) else f"__ab_field_{field.id}"
        if field.id in layout.missing:
            expressions.append(f"{_filler(field)} AS {quoted(field.name)}")
        else:
            asked.append(_identified(name, _type_by_id(field, table.created), field.id))
            # A cast to the type it has: it costs nothing and leaves the ids behind, which are the file's own affair.
            expressions.append(f"CAST({quoted(name)} AS {field_sql(field)}) AS {quoted(field.name)}")
    asked.append(_identified(ROW_ID_COLUMN, LongType(), _ROW_ID_FIELD))
    asked.append(_identified(SNAPSHOT_COLUMN, LongType(), _SNAPSHOT_FIELD))
    return StructType(asked), expressions


def _requested_by_name(table: Table, layout: Layout) -> tuple[StructType, list[str]]:
    assert layout.mapping is not None
    names: dict[int, str] = {key: name for key, _, name in layout.mapping}
    asked, expressions = [], []
    for field in table.fields:
        if field.id not in layout.missing:
            asked.append(StructField(names[field.id], _type_by_name(field, names)))
            expressions.append(f"CAST({quoted(names[field.id])} AS {field_sql(field)}) AS {quoted(field.name)}")
        else:
            expressions.append(f"{_filler(field)} AS {quoted(field.name)}")
    return StructType(asked), expressions


def _filler(field: Field) -> str:
    """The value of a column in rows that do not have it."""
    return default_literal(field) if field.initial_default is not None else f"CAST(NULL AS {field_sql(field)})"


def field_sql(field: Field) -> str:
    """The column's type as it stands in a CAST; Spark casts structs by position, which renames their fields."""
    inner = [field_sql(child) for child in field.children]
    if field.type.startswith("struct<"):
        named = (f"{quoted(child.name)}:{kind}" for child, kind in zip(field.children, inner, strict=True))
        return f"struct<{','.join(named)}>"
    return f"{field.type.partition('<')[0]}<{','.join(inner)}>" if inner else field.type


def schema_of(table: Table) -> StructType:
    """The table's columns as the schema of a DataFrame."""
    return StructType([StructField(field.name, _type_by_name(field, {})) for field in table.fields])


def _type_by_id(field: Field, created: int) -> DataType:
    """Inner fields are asked for by id too, unless their names have never changed."""
    if _is_original(field, created):
        return _type_by_name(field, {})
    return _nested(field, lambda child: _identified(child.name, _type_by_id(child, created), child.id))


def _type_by_name(field: Field, names: dict[int, str]) -> DataType:
    return _nested(field, lambda child: StructField(names.get(child.id, child.name), _type_by_name(child, names)))


def _nested(field: Field, build: Any) -> DataType:
    if field.type.startswith("struct<"):
        return StructType([build(child) for child in field.children])
    if field.type.startswith("array<"):
        return ArrayType(build(field.children[0]).dataType)
    if field.type.startswith("map<"):
        return MapType(build(field.children[0]).dataType, build(field.children[1]).dataType)
    return parse_type(field.type)


def _identified(name: str, data_type: DataType, key: int) -> StructField:
    return StructField(name, data_type, True, {_FIELD_ID: key})


def _is_original(field: Field, created: int) -> bool:
    return field.begin == created and all(_is_original(child, created) for child in field.children)


@lru_cache(maxsize=4096)
def _field_ids_in(path: str) -> frozenset[int]:
    """The field ids of a file's top-level columns, from its footer."""
    schema = pq.read_schema(path)
    found = (each.metadata.get(b"PARQUET:field_id") if each.metadata else None for each in schema)
    return frozenset(int(key) for key in found if key is not None)
