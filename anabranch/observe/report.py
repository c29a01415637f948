"""What a tick did, as values that print well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from anabranch.observe import html


class Action(StrEnum):
    """What was done with a node in a tick."""

    NO_DATA = "NO_DATA"
    DIFFERENTIAL = "DIFFERENTIAL"
    FULL = "FULL"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node in one tick. `reason` starts with a stable code word; `not_fused` is one for why it ran on its own."""

    name: str
    action: Action
    reason: str
    fused: bool = False
    rows_inserted: int = 0
    rows_deleted: int = 0
    seconds: float = 0.0
    error: Mapping[str, str] | None = None
    not_fused: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The report for programs."""
        return {
            "name": self.name,
            "action": self.action.value,
            "reason": self.reason,
            "fused": self.fused,
            "rows_inserted": self.rows_inserted,
            "rows_deleted": self.rows_deleted,
            "seconds": self.seconds,
            "error": None if self.error is None else dict(self.error),
        }

    def __str__(self) -> str:
        changed = f"+{self.rows_inserted} -{self.rows_deleted}" if self.rows_inserted or self.rows_deleted else ""
        hint = f"  {self.error['message']}" if self.error else ""
        return f"{self.name}: {self.action} {changed} {self.seconds * 1000:.0f} ms  {self.reason}{hint}"


@dataclass(frozen=True)
class Report(Mapping[str, NodeReport]):
    """One tick: `snapshot` is the lake's newest afterwards; `report[name]` is a node's share.

    `table_scans`: how often a table that stream tables read was scanned; what is at hand, and what is read by its
    position as a change, are not counted.
    """

    snapshot: int
    seconds: float
    spark_jobs: int | None
    nodes: Mapping[str, NodeReport] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    spark_stages: int | None = None
    table_scans: int = 0

    def __getitem__(self, name: str) -> NodeReport:
        folded = {each.lower(): report for each, report in self.nodes.items()}
        if name.lower() not in folded:
            raise KeyError(f"{name!r} took no part in this tick; these did: {', '.join(self.nodes) or 'none'}")
        return folded[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        jobs = "" if self.spark_jobs is None else f", {self.spark_jobs} Spark jobs"
        head = f"snapshot {self.snapshot}, {self.seconds:.2f} s{jobs}"
        return "\n".join([head, *(f"  {each}" for each in self.nodes.values()), *self.notices])

    def to_dict(self) -> dict[str, Any]:
        """The report for programs."""
        return {
            "snapshot": self.snapshot,
            "seconds": self.seconds,
            "spark_jobs": self.spark_jobs,
            "spark_stages": self.spark_stages,
            "table_scans": self.table_scans,
            "timings": dict(self.timings),
            "notices": list(self.notices),
            "nodes": [each.to_dict() for each in self.nodes.values()],
        }

    def _repr_html_(self) -> str:
        names = ("table", "action", "reason", "inserted", "deleted", "seconds")
        rows = (
            (each.name, each.action, each.reason, each.rows_inserted, each.rows_deleted, each.seconds)
            for each in self.nodes.values()
        )
        head = html.paragraph(f"snapshot {self.snapshot}, {self.seconds:.2f} s")
        return head + html.table(names, rows) + "".join(html.paragraph(each) for each in self.notices)
