"""What a plan gives, as plain Python values, without Spark: thousands of states can be checked this way."""

from __future__ import annotations

from collections import Counter
from typing import Any

from anabranch.store.catalog import Catalog, Table
from anabranch.store.changes import Plan
from anabranch.store.few import few_changes
from anabranch.store.local import perform_locally
from anabranch.store.protocol import ROWID, WEIGHT

from .tools import canonical


def evaluate(catalog: Catalog, table: Table, plan: Plan) -> list[tuple[int, int, tuple[Any, ...]]]:
    """Every row of the plan as (weight, row id, values)."""
    rows = perform_locally(catalog, table, plan)
    values = zip(*(rows.column(field.name).to_pylist() for field in table.fields), strict=True)
    weights, numbers = rows.column(WEIGHT).to_pylist(), rows.column(ROWID).to_pylist()
    return [(weight, number, canonical(row)) for weight, number, row in zip(weights, numbers, values, strict=True)]


def read_here(catalog: Catalog, table: Table, plan: Plan) -> dict[tuple[Any, ...], int] | None:
    """The change as the driver reads it: every row once; None where it leaves that to Spark."""
    rows = few_changes(catalog, table, plan)
    if rows is None:
        return None
    values = list(zip(*(rows.column(field.name).to_pylist() for field in table.fields), strict=True))
    found = dict(zip(map(canonical, values), rows.column(WEIGHT).to_pylist(), strict=True))
    assert len(found) == rows.num_rows
    return found


def weighed(rows: list[tuple[int, int, tuple[Any, ...]]]) -> dict[tuple[Any, ...], int]:
    """The rows as a consolidated Z-set."""
    total: Counter[tuple[Any, ...]] = Counter()
    for weight, _, values in rows:
        total[values] += weight
    return {values: weight for values, weight in total.items() if weight}
