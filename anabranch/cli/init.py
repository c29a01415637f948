"""`anabranch init`: a project folder to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli.lakes import JsonOption
from anabranch.cli.terminal import out, print_json


def init(
    folder: Annotated[Path, typer.Argument(help="The new folder; `.` for the current one.")],
    as_json: JsonOption = False,
) -> None:
    """Make a project folder: anabranch.toml and one SQL file a table.

    Example: anabranch init shop
    """
    from anabranch.project.new import make_project

    files = make_project(folder)
    if as_json:
        print_json({"folder": str(folder), "files": files})
        return
    for name in files:
        out.print(f"  {folder / name}")
    inside = "" if folder.absolute() == Path.cwd() else f"cd {folder} && "
    out.print(f"\nNext: {inside}anabranch plan, then anabranch apply")
