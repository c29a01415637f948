"""`anabranch sql`: a shell, statements, files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli.lakes import CatalogOption, JsonOption, LakeOption, open_lake
from anabranch.cli.results import print_result
from anabranch.cli.shell import Shell
from anabranch.cli.terminal import Exit, busy
from anabranch.errors import NotFoundError
from anabranch.sql.statements import split_statements


def sql(
    files: Annotated[list[Path] | None, typer.Argument(help="Files of statements; `-` is stdin.")] = None,
    command: Annotated[list[str] | None, typer.Option("--command", "-c", help="Statements; may be repeated.")] = None,
    limit: Annotated[int, typer.Option(help="Show at most so many rows of a result.")] = 1000,
    create: Annotated[bool, typer.Option("--create", help="Make the lake if it is not there.")] = False,
    lake: LakeOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> Exit:
    """Run SQL: Spark SQL and the STREAM TABLE statements; without -c and files a shell.

    With --json each statement prints one line of JSON: columns and rows. The first error ends the command.

    Example: anabranch sql -c "SELECT * FROM revenue_by_region"
    """
    texts = [*(command or ()), *(_text_of(file) for file in files or ())]
    if not texts and not sys.stdin.isatty():
        texts = [sys.stdin.read()]
    with open_lake(lake, catalog, as_json, create) as opened:
        if not texts:
            Shell(opened, limit).run()
            return Exit.DONE
        for statement in (each for text in texts for each in split_statements(text)):
            with busy("running", as_json):
                rows = opened.sql(statement)
            print_result(rows, limit, as_json)
    return Exit.DONE


def _text_of(file: Path) -> str:
    if str(file) == "-":
        return sys.stdin.read()
    if not file.is_file():
        raise NotFoundError("FILE_NOT_FOUND", f"there is no file {str(file)!r}")
    return file.read_text(encoding="utf-8")
