"""What is going on in a lake, as tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from anabranch.definitions import Condition
from anabranch.engine import Engine
from anabranch.observe.report import Report
from anabranch.observe.sizes import Sizes
from anabranch.pinned import Pinned
from anabranch.schedule import decide as decisions
from anabranch.schedule.decide import decide
from anabranch.situation import graph_state, pin_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STATUS = pa.schema(
    [
        ("name", pa.string()),
        ("refresh_mode", pa.string()),
        ("schedule", pa.string()),
        ("state", pa.string()),
        ("rows", pa.int64()),
        ("refreshed_at", pa.string()),
        ("pending_changes", pa.int64()),
        ("consecutive_errors", pa.int64()),
        ("error", pa.string()),
        ("hint", pa.string()),
        ("query", pa.string()),
        ("waiting_for", pa.string()),
    ]
)
PENDING = pa.schema(
    [
        ("name", pa.string()),
        ("input", pa.string()),
        ("since", pa.int64()),
        ("upto", pa.int64()),
        ("changed_rows_at_most", pa.int64()),
    ]
)


def status(engine: Engine) -> pa.Table:
    """One row a stream table."""
    pinned = engine.pin()
    sizes = Sizes(engine.store)
    waiting: dict[str, int] = {}
    for row in pending_rows(pinned, sizes):
        waiting[row["name"]] = waiting.get(row["name"], 0) + row["changed_rows_at_most"]
    rows = []
    waits = waits_of(engine, pinned)
    for node in pinned.nodes.values():
        condition = pinned.conditions[node.id]
        error = condition.last_error or {}
        refreshed = condition.refreshed_at
        rows.append(
            {
                "name": node.name,
                "refresh_mode": node.refresh_mode.value,
                "schedule": node.schedule,
                "state": _state(condition, node.id in waits),
                "rows": sizes.shown_rows(pinned, node),
                "refreshed_at": None if refreshed is None else datetime.fromtimestamp(refreshed, UTC).isoformat(),
                "pending_changes": waiting.get(node.name, 0),
                "consecutive_errors": condition.consecutive_errors,
                "error": error.get("message"),
                "hint": error.get("hint"),
                "query": node.query,
                "waiting_for": waits.get(node.id),
            }
        )
    return pa.Table.from_pylist(rows, STATUS)


def _state(condition: Condition, waits: bool) -> str:
    if condition.paused or condition.suspended:
        return "PAUSED" if condition.paused else "SUSPENDED"
    return "WAITING" if waits else "ACTIVE"


def waits_of(engine: Engine, pinned: Pinned) -> dict[str, str]:
    """Nodes that could not be refreshed now, and for what they wait."""
    now = datetime.now(UTC)
    decided = decide(graph_state(engine, pinned), pin_of(engine, pinned, now), now, frozenset(pinned.nodes))
    return {each.node: each.text for each in decided if each.action is decisions.Action.WAIT}


def pending_changes(engine: Engine) -> pa.Table:
    """Per stream table and direct input, how many changed rows wait, at most."""
    return pa.Table.from_pylist(pending_rows(engine.pin(), Sizes(engine.store)), PENDING)


def report_frame(engine: Engine, report: Report) -> DataFrame:
    """A tick's report as rows."""
    rows = [each.to_dict() | {"snapshot": report.snapshot} for each in report.nodes.values()]
    schema = pa.schema(
        [
            ("name", pa.string()),
            ("action", pa.string()),
            ("reason", pa.string()),
            ("fused", pa.bool_()),
            ("rows_inserted", pa.int64()),
            ("rows_deleted", pa.int64()),
            ("seconds", pa.float64()),
            ("snapshot", pa.int64()),
        ]
    )
    return engine.session.createDataFrame(pa.Table.from_pylist(rows, schema))


def pending_rows(pinned: Pinned, sizes: Sizes) -> list[dict[str, Any]]:
    """Per stream table and direct input that changed since it was read, how many changed rows wait, at most."""
    rows = []
    for node in pinned.nodes.values():
        for table, since in sorted(pinned.frontiers[node.id].inputs.items()):
            stored = pinned.part(pinned.nodes[table].shown.table).id if table in pinned.nodes else table
            if stored not in pinned.tables:
                continue
            changed = sizes.changed(stored, since, pinned.version)
            if changed is not None:
                rows.append(
                    {
                        "name": node.name,
                        "input": pinned.name_of(table),
                        "since": since.number,
                        "upto": pinned.version.number,
                        "changed_rows_at_most": changed,
                    }
                )
    return rows
