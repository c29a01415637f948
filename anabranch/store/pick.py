"""Rows of a large table picked by their keys, in the driver: what it costs follows the rows picked, not the table.

Large files are looked into through their indexes (key_index.py), small ones are decoded as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.algebra.relation import IS_THERE, WAS_THERE
from anabranch.store.catalog import Catalog, Field, Table
from anabranch.store.defaults import default_array
from anabranch.store.key_index import LARGE, FileIndex, Keys
from anabranch.store.layout import layout_of
from anabranch.store.project import field_type
from anabranch.store.protocol import ROWID, Asked
from anabranch.store.scan import FileScan, Positions


def by_size(scans: Sequence[FileScan]) -> tuple[list[FileScan], list[FileScan]]:
    """The scans of files that have an index, or should have one, and the others."""
    return [each for each in scans if each.file.rows > LARGE], [each for each in scans if each.file.rows <= LARGE]


def can_pick(catalog: Catalog, table: Table, scans: Sequence[FileScan], keys: Collection[str]) -> bool:
    """Whether rows of these files are found by one of the keys, and the table's columns of them read."""
    fields = [each for each in table.fields if each.name in keys]
    return all(
        catalog.indexes.of(scan.file).has(_in_file(catalog, table, scan))
        and any(catalog.indexes.of(scan.file).has((), [each]) for each in fields)
        for scan in scans
    )


def has_columns(catalog: Catalog, table: Table, scan: FileScan) -> bool:
    """Whether the table's columns of any row of the file are read from its index."""
    return catalog.indexes.of(scan.file).has(_in_file(catalog, table, scan))


def miss(catalog: Catalog, table: Table, scans: Sequence[FileScan], keys: Collection[str] = ()) -> None:
    """Rows of these files are read without an index: next time there should be one."""
    for scan in by_size(scans)[0]:
        columns = _in_file(catalog, table, scan)
        catalog.indexes.miss(scan.file, columns, [each for each in columns if each.name in keys])


def pick(
    catalog: Catalog, table: Table, scans: Sequence[FileScan], wanted: Collection[str], asked: Asked, limit: int
) -> pa.Table | None:
    """The rows of large files in either of two states: the columns wanted, ROWID and both flags.

    None if they are too many, or an index is gone meanwhile.
    """
    fields = {each.name: each for each in table.fields}
    narrow = table.with_columns(wanted)
    schema = _schema(narrow)
    parts = [schema.empty_table()]
    for scan in scans:
        index = catalog.indexes.of(scan.file)
        found = [each for keys in asked if (each := _found(index, fields, keys)) is not None]
        if len(found) < len(asked):
            return None
        positions = np.unique(np.concatenate(found))
        if scan.drop is not None:
            positions = positions[~np.isin(positions, scan.drop)]
        limit -= len(positions)
        rows = None if limit < 0 else rows_at(catalog, narrow, scan, positions)
        if rows is None:
            return None
        parts.append(_told(rows, scan, positions).cast(schema))
    return pa.concat_tables(parts)


def matching(rows: pa.Table, asked: Asked) -> pa.Table:
    """Those of the rows that are asked for."""
    wanted = [
        reduce(pc.and_, [_is_among(rows.column(name), *values) for name, values in each.items()]) for each in asked
    ]
    return rows.filter(reduce(pc.or_, wanted))


def rows_at(catalog: Catalog, table: Table, scan: FileScan, positions: Positions) -> pa.Table | None:
    """The rows of a file at these positions, with ROWID, from its index; None if it has none of these columns."""
    index, there = catalog.indexes.of(scan.file), _in_file(catalog, table, scan)
    if not index.has(there):
        return None
    arrays = [
        index.values(each, positions) if each in there else default_array(each, len(positions)) for each in table.fields
    ]
    arrays.append(index.row_ids(positions, scan.file.row_id_start))
    return pa.Table.from_arrays(arrays, names=[*(each.name for each in table.fields), ROWID])


def _in_file(catalog: Catalog, table: Table, scan: FileScan) -> list[Field]:
    """The columns that the file may have; it is too old for the others."""
    missing = layout_of(catalog, table, scan.file, scan.hidden).missing
    return [each for each in table.fields if each.id not in missing]


def _found(
    index: FileIndex, fields: Mapping[str, Field], asked: Mapping[str, tuple[pa.Array, bool]]
) -> Positions | None:
    """The fewest rows that any of the columns leaves; None if no rows are found by any."""
    known = [name for name in asked if index.has([], [fields[name]])]
    return min((index.find(fields[name], _keys(fields[name], *asked[name])) for name in known), key=len, default=None)


def _keys(field: Field, values: pa.Array, with_null: bool) -> Keys:
    return Keys.of(values.cast(field_type(field)), with_null)


def _is_among(values: pa.ChunkedArray, known: pa.Array, with_null: bool) -> pa.Array:
    wanted = known.cast(values.type)
    return pc.is_in(values, wanted if with_null else wanted.drop_null())


def _told(rows: pa.Table, scan: FileScan, positions: Positions) -> pa.Table:
    """The rows with WAS_THERE and IS_THERE."""
    was, now = scan.there or (True, True)
    is_there = np.full(len(positions), now)
    if scan.gone is not None:
        is_there &= ~np.isin(positions, scan.gone)
    return rows.append_column(WAS_THERE, pa.array(np.full(len(positions), was))).append_column(
        IS_THERE, pa.array(is_there)
    )


def _schema(table: Table) -> pa.Schema:
    fields = [pa.field(each.name, field_type(each)) for each in table.fields]
    flags = [pa.field(WAS_THERE, pa.bool_()), pa.field(IS_THERE, pa.bool_())]
    return pa.schema([*fields, pa.field(ROWID, pa.int64()), *flags])
