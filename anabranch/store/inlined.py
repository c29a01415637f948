"""Rows that an outside client left in the catalog itself instead of in a file.

DuckLake reads them for us: it knows how it wrote them. They come in the schema of their snapshot and are brought to the
schema asked for by field id: renamed fields keep their values, fields that were not there yet get their default.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa

from anabranch.store.catalog import Table
from anabranch.store.connection import LAKE, Connection, identifier, text
from anabranch.store.defaults import default_array
from anabranch.store.project import by_name, names_of, project
from anabranch.store.protocol import ROWID


class InlinedRowsMovedError(Exception):
    """Somebody flushed the rows into a file between two looks at the catalog: look again."""


def read_inlined(connection: Connection, stored: Table, asked: Table, at: int, holders: dict[str, int]) -> pa.Table:
    """The inlined rows of `stored` (the table at the snapshot) in the columns of `asked`, and ROWID."""
    names = ", ".join(text(name) for name in holders)
    place = f"{LAKE}.{identifier(stored.info.schema)}.{identifier(stored.info.name)}"
    rows = connection.arrow(
        f"SELECT *, rowid AS {identifier(ROWID)} FROM {place} AT (VERSION => {at}) WHERE filename IN ({names})"
    )
    if rows.num_rows != sum(holders.values()):
        raise InlinedRowsMovedError
    if rows.column_names != [*(field.name for field in stored.fields), ROWID]:
        raise duckdb.BinderException(f"the handle remembers {place} with other columns")
    known = {field.id: position for position, field in enumerate(stored.fields)}
    find = by_name(names_of(stored.fields))
    arrays = [
        project(rows.column(known[field.id]).combine_chunks(), field, find)
        if field.id in known
        else default_array(field, rows.num_rows)
        for field in asked.fields
    ]
    arrays.append(rows.column(ROWID).combine_chunks())
    return pa.Table.from_arrays(arrays, names=[*(field.name for field in asked.fields), ROWID])
