"""Compacts a table that holds negative zeros, which DuckLake's own compaction would not keep (see zeros.py).

Its small files, those with many deletes and the rows in the catalog are read here, deleted, and written again by Arrow
in one commit. The rows get new ids, and old snapshots keep their files until they expire.
"""

from __future__ import annotations

from anabranch.store.catalog import Catalog
from anabranch.store.changes import Plan, Planner
from anabranch.store.commit import Committer
from anabranch.store.layout import check_readable
from anabranch.store.local import perform_locally
from anabranch.store.protocol import ROWID, WEIGHT, Commit, Version, Write
from anabranch.store.scan import FileScan, rows_at_most

SMALL_ROWS = 100_000
MOST_ROWS = 1_000_000
"""So many rows are held in memory at a time; the rest waits for the next compaction."""


def compact_exactly(catalog: Catalog, committer: Committer, key: str, deleted_part: float) -> None:
    """Make one file of what is worth it; a conflict if others write to the table meanwhile."""
    head = Version(catalog.head())
    table = catalog.table(key, head)
    if table is None:
        return
    check_readable(table)
    plan = _worthwhile(Planner(catalog).rows(table, head.number), deleted_part)
    if plan is None:
        return
    rows = perform_locally(catalog, table, plan)
    ids, values = rows.column(ROWID).combine_chunks(), rows.drop_columns([ROWID, WEIGHT])
    write = Write(key, deletes=ids, inserts=(values,), since=head)
    committer.commit(Commit((write,), message=f"compact {table.info.name}", compacts=True))


def _worthwhile(plan: Plan, deleted_part: float) -> Plan | None:
    """The part of the plan to be written anew; None if it would hardly be smaller."""
    chosen: list[FileScan] = []
    rows = sum(int(each.num_rows) for _, each in plan.inlined)
    has_many_deletes = False
    for scan in sorted(plan.scans, key=lambda each: rows_at_most([each])):
        left = rows_at_most([scan])
        many = scan.file.rows - left > deleted_part * scan.file.rows
        if (left < SMALL_ROWS or many) and rows + left <= MOST_ROWS:
            chosen.append(scan)
            rows += left
            has_many_deletes |= many
    if not plan.inlined and not has_many_deletes and len(chosen) < 2:
        return None
    return Plan(chosen, plan.inlined)
