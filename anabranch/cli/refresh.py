"""`anabranch refresh`: one tick."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli.lakes import CatalogOption, JsonOption, LakeOption, open_lake
from anabranch.cli.terminal import Exit, busy, print_json
from anabranch.cli.ticks import print_report
from anabranch.observe.report import Action


def refresh(
    names: Annotated[list[str] | None, typer.Argument(help="Stream tables; without names all that is pending.")] = None,
    lake: LakeOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> Exit:
    """Refresh everything pending in one tick, or the named tables and what must move with them.

    Exit code 1 if a stream table failed; the others are committed all the same.

    Example: anabranch refresh revenue_by_region
    """
    with open_lake(lake, catalog, as_json) as opened, busy("refreshing", as_json):
        report = opened.refresh(*(names or ()))
    if as_json:
        print_json(report.to_dict())
    else:
        print_report(report)
    failed = any(each.action is Action.FAILED for each in report.nodes.values())
    return Exit.NOT_SO if failed else Exit.DONE
