"""What the history keeps of a refresh."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from anabranch.definitions import StreamTable
from anabranch.graph.frontier import THIS_COMMIT, Frontier
from anabranch.observe.report import NodeReport


@dataclass(frozen=True)
class TickCost:
    """A tick on the way to its commit: its Spark jobs, and the seconds that each stage took until now."""

    id: str
    started_at: datetime
    spark_jobs: int | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)


def history_row(
    tick: TickCost, node: StreamTable, report: NodeReport, frontier: Mapping[str, Any] | None
) -> dict[str, Any]:
    """One node in one tick, and where it arrived; the store adds the snapshot."""
    row: dict[str, Any] = {
        "tick_id": tick.id,
        "node_id": node.id,
        "node_name": node.name,
        "started_at": tick.started_at.isoformat(),
        "action": report.action.value,
        "reason": report.reason,
        "rows_inserted": report.rows_inserted,
        "rows_deleted": report.rows_deleted,
        "seconds": report.seconds,
        "fused": report.fused,
    }
    details = {
        "frontier": frontier,
        "error": dict(report.error) if report.error else None,
        "not_fused": report.not_fused,
        "tick_jobs": tick.spark_jobs,
        "tick_seconds": {stage: round(seconds, 4) for stage, seconds in tick.seconds.items()} or None,
    }
    return row | {name: value for name, value in details.items() if value is not None}


def readable(frontier: Frontier, name_of: Callable[[str], str]) -> dict[str, Any]:
    """A frontier by the names of sources; a source written in this very commit has the row's own snapshot."""
    sources = {
        name_of(source): "this snapshot" if at == THIS_COMMIT else at.number for source, at in frontier.sources.items()
    }
    return {"sources": sources} | ({"clock": frontier.clock} if frontier.clock else {})
