"""Few rows, read in the driver: a Spark job would take longer to plan than they take to read.

Rows and changes are those that Spark would read from the same plan. What has nested values is left to Spark, which can
tell whether two of them are identical.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.fuse.codes import comparable
from anabranch.store.catalog import Catalog, Table
from anabranch.store.changes import Plan
from anabranch.store.layout import check_readable
from anabranch.store.local import both_locally, cells_to_read, perform_locally
from anabranch.store.pick import miss
from anabranch.store.protocol import ROWID, WEIGHT
from anabranch.store.scan import FileScan, rows_at_most

FEW_ROWS = 50_000
FEW_CELLS = 5_000_000
"""So many values are decoded here at most: less work than planning a Spark job that does it."""

_PLACE = "__ab_place"


def few_rows(catalog: Catalog, table: Table, plan: Plan) -> pa.Table | None:
    """The rows of a plan, with ROWID; None if they are too many."""
    found = _performed(catalog, table, plan)
    return None if found is None else found.drop_columns([WEIGHT])


def few_changes(catalog: Catalog, table: Table, plan: Plan) -> pa.Table | None:
    """The rows of a plan as a consolidated Z-set, with WEIGHT; None if they are too many."""
    if any(field.children for field in table.fields):
        return None
    found = _performed(catalog, table, plan)
    return None if found is None else _consolidated(found.drop_columns([ROWID]))


def few_of_both(catalog: Catalog, table: Table, scans: Sequence[FileScan], names: Collection[str]) -> pa.Table | None:
    """These columns of the rows of two states, with ROWID, WAS_THERE and IS_THERE; None if that is much to read."""
    return both_locally(catalog, table, scans, names) if is_medium(scans, len(names)) else None


def is_medium(scans: Sequence[FileScan], columns: int) -> bool:
    """Whether so many columns of a table's files are read here."""
    return bool(scans) and are_few(scans, columns)


def are_few(scans: Sequence[FileScan], columns: int) -> bool:
    """Whether so many columns of some files are no more values than are decoded here."""
    return sum(each.file.rows for each in scans) * (columns + 1) <= FEW_CELLS


def _performed(catalog: Catalog, table: Table, plan: Plan) -> pa.Table | None:
    check_readable(table)
    rows = rows_at_most(plan.scans) + sum(rows.num_rows for _, rows in plan.inlined)
    if rows > FEW_ROWS or cells_to_read(catalog, table, plan) > FEW_CELLS:
        if rows <= FEW_ROWS:
            miss(catalog, table, [each for each in plan.scans if each.keep is not None])
        return None
    return perform_locally(catalog, table, plan)


def _consolidated(rows: pa.Table) -> pa.Table:
    """Rows that are the same byte for byte become one, with the sum of their weights; those of weight 0 go."""
    names = [str(place) for place in range(rows.num_columns - 1)]
    keys = [comparable(rows.column(place).combine_chunks()) for place in range(len(names))]
    weights = rows.column(WEIGHT)
    listed = pa.table([*keys, weights, pa.array(np.arange(rows.num_rows))], names=[*names, WEIGHT, _PLACE])
    if not names:
        return rows
    sums = listed.group_by(names).aggregate([(WEIGHT, "sum"), (_PLACE, "min")])
    left = sums.filter(pc.not_equal(sums.column(f"{WEIGHT}_sum"), 0))
    kept = rows.take(left.column(f"{_PLACE}_min"))
    return kept.set_column(kept.num_columns - 1, WEIGHT, left.column(f"{WEIGHT}_sum"))
