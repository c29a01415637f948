"""Which lake a command works on, and its options.

The first of these that names one: `--lake`, the environment variable ANABRANCH_LAKE, the project (`anabranch.toml` or
`spark-pipeline.yml`) of the current folder or of one above it, the current folder itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.terminal import busy
from anabranch.errors import StorageError

if TYPE_CHECKING:
    from anabranch.lake import Lake

LakeOption = Annotated[
    str | None,
    typer.Option(
        "--lake",
        "-l",
        envvar="ANABRANCH_LAKE",
        metavar="FOLDER",
        help="The lake. Without it: the project's (anabranch.toml) here or above, or the current folder.",
    ),
]
CatalogOption = Annotated[
    str | None,
    typer.Option(
        "--catalog", envvar="ANABRANCH_CATALOG", metavar="PLACE", help="A catalog elsewhere: postgres:dbname=..."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


@dataclass(frozen=True)
class Where:
    """A lake's folder, and its catalog if that is not in it."""

    path: str
    catalog: str | None = None


def find_lake(lake: str | None, catalog: str | None) -> Where:
    """The lake that the options, the project or the current folder name."""
    if lake is not None:
        return Where(lake, catalog)
    from anabranch.project.find import find_project

    project = find_project(Path.cwd())
    if project is not None:
        return Where(str(project.lake), catalog or project.catalog)
    if catalog is not None or (Path.cwd() / "catalog.sqlite").is_file():
        return Where(".", catalog)
    raise StorageError(
        "LAKE_NOT_CHOSEN",
        "which lake is meant is not said",
        f"{Path.cwd()} is no lake, and neither here nor above is there an anabranch.toml or a spark-pipeline.yml",
        "pass --lake FOLDER, set ANABRANCH_LAKE, or begin with `anabranch init` or `anabranch demo`",
    )


def open_lake(lake: str | None, catalog: str | None, as_json: bool = False, create: bool = False) -> Lake:
    """Open the lake that is meant; Spark starts only when a command needs it."""
    where = find_lake(lake, catalog)
    with busy("opening the lake", as_json):
        from anabranch.lake import connect

        try:
            return connect(where.path, catalog=where.catalog, create=create)
        except StorageError as error:
            if error.code == "LAKE_NOT_FOUND":
                error.hint = "`anabranch apply` makes the lake of a project, `anabranch sql --create` an empty one"
            raise
