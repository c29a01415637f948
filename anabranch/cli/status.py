"""`anabranch status`: every stream table at a glance."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from anabranch.cli.lakes import CatalogOption, JsonOption, LakeOption, open_lake
from anabranch.cli.terminal import out, print_json, print_rows, state_colour

SHOWN = ("name", "state", "refresh_mode", "schedule", "rows", "refreshed", "pending_changes", "error")


def status(lake: LakeOption = None, catalog: CatalogOption = None, as_json: JsonOption = False) -> None:
    """Show every stream table: state, mode, schedule, rows, age, waiting changes, error.

    Example: anabranch status --lake shop
    """
    with open_lake(lake, catalog, as_json) as opened:
        rows = opened.status().to_pylist()
        summary = repr(opened)
    if as_json:
        print_json(rows)
        return
    out.print(summary, markup=False)
    if rows:
        now = datetime.now(UTC)
        print_rows([row | {"refreshed": _age(row, now)} for row in rows], _shown(rows), colours={"state": state_colour})
    for row in rows:
        for key in ("hint", "waiting_for"):
            if row[key]:
                out.print(f"  {row['name']}: {row[key]}", markup=False)


def _shown(rows: list[dict[str, Any]]) -> list[str]:
    """Without the column of errors where there are none."""
    return [name for name in SHOWN if name != "error" or any(row["error"] for row in rows)]


def _age(row: dict[str, Any], now: datetime) -> str:
    if row["refreshed_at"] is None:
        return "never"
    return f"{in_words((now - datetime.fromisoformat(row['refreshed_at'])).total_seconds())} ago"


def in_words(seconds: float) -> str:
    """A duration in its largest unit."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
