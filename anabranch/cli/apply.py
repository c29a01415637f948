"""`anabranch apply`: make the lake as the project says."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli.lakes import CatalogOption, JsonOption, LakeOption
from anabranch.cli.plan import print_plan
from anabranch.cli.projects import ProjectOption, lake_of, the_project
from anabranch.cli.terminal import Exit, busy, print_json
from anabranch.cli.ticks import print_report


def apply(
    project: ProjectOption = None,
    allow_data_loss: Annotated[bool, typer.Option("--allow-data-loss", help="Sources may lose rows or columns.")] = (
        False
    ),
    lake: LakeOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> Exit:
    """Make the lake as the project says, all stream tables in one commit. Doing it again changes nothing.

    Example: anabranch apply --project shop
    """
    from anabranch.project.apply import apply_project
    from anabranch.project.read import read_project

    found = the_project(project)
    desired = read_project(found)
    with lake_of(found, lake, catalog, as_json) as opened, busy("compiling and filling", as_json):
        done = apply_project(opened._engine, desired, allow_data_loss)
    if as_json:
        print_json(done.to_dict())
        return Exit.DONE
    print_plan(done.plan, {})
    if done.report is not None:
        print_report(done.report)
    return Exit.DONE
