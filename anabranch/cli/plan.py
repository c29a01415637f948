"""`anabranch plan`: what apply would do."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from anabranch.cli.lakes import CatalogOption, JsonOption, LakeOption
from anabranch.cli.projects import ProjectOption, lake_to_plan, the_project
from anabranch.cli.terminal import Exit, busy, out, print_json
from anabranch.project.steps import Plan, Verb

COLOURS = {
    Verb.CREATE: "green",
    Verb.ALTER: "yellow",
    Verb.RENAME: "yellow",
    Verb.DROP: "red",
    Verb.ADOPT: "dim",
}


def plan(
    project: ProjectOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Compare only, compile nothing; starts no Spark.")] = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="End with 4 if there is something to do.")] = False,
    lake: LakeOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> Exit:
    """Show what would make the lake as the project says: create, alter, rename, drop; rebuild or not.

    New and changed queries are compiled, so that errors show before anything is done, with file and line.

    Example: anabranch plan --exit-code
    """
    from anabranch.project.apply import check_project, plan_project
    from anabranch.project.read import read_project

    found = the_project(project)
    desired = read_project(found)
    with lake_to_plan(found, lake, catalog, as_json) as opened:
        planned = plan_project(opened._engine, desired)
        modes = {}
        if planned and not quick:
            with busy("compiling", as_json):
                modes = dict(check_project(opened._engine, desired).modes)
    if as_json:
        print_json(planned.to_dict() | {"modes": modes})
    else:
        print_plan(planned, modes)
    return Exit.CHANGES if exit_code and planned else Exit.DONE


def print_plan(planned: Plan, modes: dict[str, str]) -> None:
    """One line a step, coloured like a diff; below a stream table how it will be refreshed."""
    if not planned:
        out.print("nothing to do: the lake is as the project says")
    for step in planned.steps:
        place = f"  [dim]{escape(str(step.place))}[/dim]" if step.place else ""
        colour = "red bold" if step.loses_data else COLOURS[step.verb]
        out.print(f"[{colour}]{escape(str(step))}[/{colour}]{place}", soft_wrap=True)
        if step.name in modes:
            out.print(f"    {modes[step.name]}", markup=False, soft_wrap=True)
    for notice in planned.notices:
        out.print(notice, markup=False, style="yellow")
