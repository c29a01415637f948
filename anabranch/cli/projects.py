"""The project that plan and apply work on, and its lake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.terminal import busy
from anabranch.errors import NotFoundError, StorageError

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


@contextmanager
def lake_to_plan(project: Project, lake: str | None, catalog: str | None, as_json: bool) -> Iterator[Lake]:
    """The lake of a project, to look at. One that is not there yet is not made: an empty one stands for it."""
    from anabranch.lake import connect

    with ExitStack() as stack:
        try:
            with busy("opening the lake", as_json):
                opened = connect(lake or str(project.lake), catalog=catalog or project.catalog, create=False)
        except StorageError as error:
            if error.code != "LAKE_NOT_FOUND":
                raise
            opened = connect(stack.enter_context(TemporaryDirectory(prefix="anabranch-plan-")))
        yield stack.enter_context(opened)


def lake_of(project: Project, lake: str | None, catalog: str | None, as_json: bool) -> Lake:
    """The lake of a project, made if it is not there yet."""
    from anabranch.lake import connect

    with busy("opening the lake", as_json):
        return connect(lake or str(project.lake), catalog=catalog or project.catalog)
