"""Performs a plan of file scans in the driver, with Arrow: for rows so few that a Spark job would cost more."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anabranch.algebra.relation import IS_THERE, WAS_THERE
from anabranch.store.catalog import Catalog, Field, Table
from anabranch.store.changes import Plan
from anabranch.store.decoded import Decoded
from anabranch.store.defaults import default_array
from anabranch.store.key_index import LARGE
from anabranch.store.layout import ROW_ID_COLUMN, SNAPSHOT_COLUMN, layout_of
from anabranch.store.pick import has_columns, rows_at
from anabranch.store.project import Finder, by_id, by_name, field_type, project
from anabranch.store.protocol import ROWID, WEIGHT
from anabranch.store.scan import FileScan

_LARGEST = 1 << 62
_decoded = Decoded(room=256 << 20)


def perform_locally(catalog: Catalog, table: Table, plan: Plan) -> pa.Table:
    """The rows of the plan: the table's columns, ROWID and WEIGHT, not consolidated."""
    schema = pa.schema(
        [
            *(pa.field(field.name, field_type(field)) for field in table.fields),
            pa.field(ROWID, pa.int64()),
            pa.field(WEIGHT, pa.int64()),
        ]
    )
    parts = [schema.empty_table()]
    for scan in plan.scans:
        parts.append(_rows_of(catalog, table, scan).cast(schema))
    for weight, rows in plan.inlined:
        parts.append(_weighed(rows.select(schema.names[:-1]), weight).cast(schema))
    return pa.concat_tables(parts)


def both_locally(catalog: Catalog, table: Table, scans: Sequence[FileScan], names: Collection[str]) -> pa.Table:
    """The rows of scans of two states: these columns, ROWID, WAS_THERE and IS_THERE."""
    narrow = table.with_columns(names)
    fields = (pa.field(each.name, field_type(each)) for each in narrow.fields)
    schema = pa.schema([*fields, pa.field(ROWID, pa.int64())])
    parts = [schema.append(pa.field(WAS_THERE, pa.bool_())).append(pa.field(IS_THERE, pa.bool_())).empty_table()]
    for scan in scans:
        rows = _rows_of(catalog, narrow, scan).drop_columns([WEIGHT]).cast(schema)
        parts.append(_there(rows, scan))
    return pa.concat_tables(parts)


def _there(rows: pa.Table, scan: FileScan) -> pa.Table:
    """Rows of a file, less those that were gone before, with WAS_THERE and IS_THERE."""
    first, second = scan.there or (True, True)
    now = np.full(scan.file.rows, second)
    if scan.gone is not None:
        now[scan.gone] = False
    if scan.drop is not None:
        now = np.delete(now, scan.drop)
    flagged = rows.append_column(WAS_THERE, pa.array(np.full(rows.num_rows, first)))
    return flagged.append_column(IS_THERE, pa.array(now))


def cells_to_read(catalog: Catalog, table: Table, plan: Plan) -> int:
    """How many values have to be decoded, those included that are only passed over."""
    rows = sum(each.file.rows for each in plan.scans if not _has_index(catalog, table, each))
    return (rows + sum(int(rows.num_rows) for _, rows in plan.inlined)) * (len(table.fields) + 1)


def _has_index(catalog: Catalog, table: Table, scan: FileScan) -> bool:
    """Whether chosen rows of a large file are read from its index."""
    is_chosen = scan.keep is not None and scan.drop is None and scan.after is None and scan.upto is None
    return is_chosen and scan.file.rows > LARGE and has_columns(catalog, table, scan)


def _rows_of(catalog: Catalog, table: Table, scan: FileScan) -> pa.Table:
    if scan.keep is not None and _has_index(catalog, table, scan):
        rows = rows_at(catalog, table, scan, scan.keep)
        if rows is not None:
            return _weighed(rows, scan.weight)
    layout = layout_of(catalog, table, scan.file, scan.hidden)
    find = by_id if layout.mapping is None else by_name({key: name for key, _, name in layout.mapping})
    fields = () if scan.file.rows <= LARGE else table.fields
    data = _decoded.get((scan.file, fields), lambda: _read(scan.file.path, fields, find))
    mask = pa.array(_mask(data, scan))
    there = data.filter(mask)
    arrays = []
    for field in table.fields:
        position = None if field.id in layout.missing else find(there.schema, field)
        if field.id in layout.missing:
            arrays.append(default_array(field, there.num_rows))
        elif position is None:
            arrays.append(pa.nulls(there.num_rows, field_type(field)))
        else:
            arrays.append(project(there.column(position).combine_chunks(), field, find))
    arrays.append(_row_ids(data, scan).filter(mask))
    names = [*(field.name for field in table.fields), ROWID]
    return _weighed(pa.Table.from_arrays(arrays, names=names), scan.weight)


def _mask(data: pa.Table, scan: FileScan) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    there = np.ones(data.num_rows, dtype=bool)
    if SNAPSHOT_COLUMN in data.column_names and (scan.after is not None or scan.upto is not None):
        snapshots = np.asarray(data.column(SNAPSHOT_COLUMN).fill_null(0), dtype=np.int64)
        there &= snapshots > (-1 if scan.after is None else scan.after)
        there &= snapshots <= (_LARGEST if scan.upto is None else scan.upto)
    if scan.keep is not None:
        chosen = np.zeros(data.num_rows, dtype=bool)
        chosen[scan.keep] = True
        there &= chosen
    if scan.drop is not None:
        there[scan.drop] = False
    return there


def _row_ids(data: pa.Table, scan: FileScan) -> pa.Array:
    if scan.file.row_id_start is None:
        counted = pa.nulls(data.num_rows, pa.int64())
    else:
        counted = pa.array(np.arange(data.num_rows, dtype=np.int64) + scan.file.row_id_start)
    if ROW_ID_COLUMN not in data.column_names:
        return counted
    stored = data.column(ROW_ID_COLUMN).combine_chunks()
    return pc.coalesce(stored, counted)


def _weighed(rows: pa.Table, weight: int) -> pa.Table:
    return rows.append_column(WEIGHT, pa.array(np.full(rows.num_rows, weight, dtype=np.int64)))


def _read(path: str, fields: tuple[Field, ...], find: Finder) -> pa.Table:
    """The file's rows: with `fields`, their columns and our own only."""
    with pq.ParquetFile(path) as file:
        if not fields:
            return file.read()
        schema = file.schema_arrow
        places = {find(schema, each) for each in fields}
        own = {schema.get_field_index(name) for name in (ROW_ID_COLUMN, SNAPSHOT_COLUMN)}
        wanted = sorted(place for place in places | own if place is not None and place >= 0)
        return file.read(columns=[schema.field(place).name for place in wanted])
