"""`anabranch check`: compare stream tables with their queries run from scratch."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import Progress

from anabranch.cli.lakes import CatalogOption, JsonOption, LakeOption, open_lake
from anabranch.cli.terminal import Exit, err, out, print_json


def check(
    names: Annotated[list[str] | None, typer.Argument(help="Stream tables; without names all.")] = None,
    lake: LakeOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> Exit:
    """Compare stream tables with their queries run from scratch on the same inputs. Exit code 1 if one differs.

    Example: anabranch check revenue_by_region
    """
    with open_lake(lake, catalog, as_json) as opened:
        wanted = names or opened.status().column("name").to_pylist()
        results = []
        with Progress(console=err, transient=True, disable=as_json or not err.is_terminal) as progress:
            task = progress.add_task("checking", total=len(wanted))
            for name in wanted:
                progress.update(task, description=f"checking {name}")
                results.append(opened.check(name))
                progress.advance(task)
    if as_json:
        print_json([each.to_dict() for each in results])
    for result in [] if as_json else results:
        out.print("[green]ok[/green]   " if result else "[red]WRONG[/red]", end=" ")
        out.print(repr(result), markup=False)
    return Exit.DONE if all(results) else Exit.NOT_SO
