"""`anabranch history`: what every refresh did, and why."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from anabranch.cli.lakes import CatalogOption, JsonOption, LakeOption, open_lake
from anabranch.cli.terminal import out, print_json, print_rows, state_colour

SHOWN = ("snapshot", "started_at", "node_name", "action", "reason", "rows_inserted", "rows_deleted", "seconds")


def history(
    name: Annotated[str | None, typer.Argument(help="One stream table; without it all.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many rows.")] = 20,
    lake: LakeOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what refreshes did and why, newest first.

    Example: anabranch history revenue_by_region --limit 5
    """
    with open_lake(lake, catalog, as_json) as opened:
        wanted = None if name is None else opened._engine.pin().node(name).id
        rows = opened.history(limit if wanted is None else None).to_pylist()
    rows = [row for row in rows if wanted is None or row["node_id"] == wanted][:limit]
    if as_json:
        print_json(rows)
    elif not rows:
        out.print("nothing was refreshed yet")
    else:
        shown = [row | {"started_at": _when(str(row["started_at"]))} for row in rows]
        print_rows(shown, SHOWN, colours={"action": state_colour})


def _when(at: str) -> str:
    """The time of today, the date of another day, both in UTC."""
    today = datetime.now(UTC).isoformat()[:10]
    return at[11:19] if at.startswith(today) else at[:10]
