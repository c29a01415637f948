"""The project that plan and apply work on, and its lake."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.terminal import busy
from anabranch.errors import NotFoundError

if TYPE_CHECKING:
    from anabranch.lake import Lake
    from anabranch.project.find import Project

ProjectOption = Annotated[
    Path | None,
    typer.Option("--project", "-p", metavar="FOLDER", help="The project's folder; without it, here or above."),
]


def the_project(folder: Path | None) -> Project:
    """The project in the folder that was named, or the nearest one."""
    from anabranch.project.find import find_project, project_in

    found = find_project(Path.cwd()) if folder is None else project_in(folder)
    if found is None:
        place = f"{Path.cwd()} and above" if folder is None else str(folder)
        raise NotFoundError(
            "PROJECT_NOT_FOUND",
            f"there is no project in {place}",
            "a project has an anabranch.toml or a spark-pipeline.yml",
            "make one with `anabranch init shop`, or name its folder with --project",
        )
    return found


def lake_of(project: Project, lake: str | None, catalog: str | None, as_json: bool) -> Lake:
    """The lake of a project, made if it is not there yet; its folder's settings are its own."""
    from anabranch.lake import connect

    with busy("opening the lake", as_json):
        return connect(lake or str(project.lake), catalog=catalog or project.catalog)
