"""Performs a plan of file scans with pyarrow alone, so that thousands of states can be checked without Spark."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.store.catalog import Catalog, Field, Table
from anabranch.store.changes import Plan
from anabranch.store.layout import ROW_ID_COLUMN, SNAPSHOT_COLUMN, Layout, layout_of
from anabranch.store.protocol import ROWID
from anabranch.store.scan import FileScan

from .tools import canonical


def evaluate(catalog: Catalog, table: Table, plan: Plan) -> list[tuple[int, int, tuple[Any, ...]]]:
    """Every row of the plan as (weight, row id, values)."""
    found = []
    for scan in plan.scans:
        found += _rows_of(catalog, table, scan)
    for weight, inlined in plan.inlined:
        ids = inlined.column(ROWID).to_pylist()
        values = inlined.drop_columns([ROWID])
        for number, row in zip(ids, zip(*(each.to_pylist() for each in values.columns), strict=True), strict=True):
            found.append((weight, number, canonical(row)))
    return found


def weighed(rows: list[tuple[int, int, tuple[Any, ...]]]) -> dict[tuple[Any, ...], int]:
    """The rows as a consolidated Z-set."""
    total: Counter[tuple[Any, ...]] = Counter()
    for weight, _, values in rows:
        total[values] += weight
    return {values: weight for values, weight in total.items() if weight}


def _rows_of(catalog: Catalog, table: Table, scan: FileScan) -> list[tuple[int, int, tuple[Any, ...]]]:
    data = _load(scan.file.path)
    layout = layout_of(catalog, table, scan.file, scan.hidden)
    columns = [_column(data, field, layout) for field in table.fields]
    positions = np.arange(data.num_rows)
    there = np.ones(data.num_rows, dtype=bool)
    if SNAPSHOT_COLUMN in data.column_names:
        snapshots = np.array([each or 0 for each in data.column(SNAPSHOT_COLUMN).to_pylist()], dtype=np.int64)
        there &= snapshots > (-1 if scan.after is None else scan.after)
        there &= snapshots <= (1 << 62 if scan.upto is None else scan.upto)
    else:
        assert scan.after is None
    if scan.keep is not None:
        there &= np.isin(positions, scan.keep)
    if scan.drop is not None:
        there &= ~np.isin(positions, scan.drop)
    stored = data.column(ROW_ID_COLUMN).to_pylist() if ROW_ID_COLUMN in data.column_names else [None] * data.num_rows
    found = []
    for position in np.flatnonzero(there):
        number = stored[position]
        if number is None:
            assert scan.file.row_id_start is not None
            number = scan.file.row_id_start + int(position)
        found.append((scan.weight, number, canonical(tuple(column[position] for column in columns))))
    return found


def _column(data: pa.Table, field: Field, layout: Layout) -> list[Any]:
    if field.id in layout.missing:
        return [_default(field)] * data.num_rows
    if layout.mapping is None:
        ids = {
            int(each.metadata[b"PARQUET:field_id"]): position
            for position, each in enumerate(data.schema)
            if each.metadata and b"PARQUET:field_id" in each.metadata
        }
        if field.id in ids:
            return list(data.column(ids[field.id]).to_pylist())
    else:
        names = {key: name for key, _, name in layout.mapping}
        return list(data.column(names[field.id]).to_pylist())
    return [None] * data.num_rows


def _default(field: Field) -> Any:
    if field.initial_default is None:
        return None
    kinds: dict[str, Any] = {"bigint": int, "string": str, "double": float}
    return kinds[field.type](field.initial_default)


@lru_cache(maxsize=512)
def _load(path: str) -> pa.Table:
    return pq.ParquetFile(path).read()
