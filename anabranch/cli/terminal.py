"""What every command shares: printing for people and for programs, errors, exit codes, a clean Ctrl-C."""

from __future__ import annotations

import functools
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, ParamSpec

import typer
from rich import box
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table

from anabranch.errors import AnabranchError


class Exit(IntEnum):
    """How a command ends."""

    DONE = 0
    NOT_SO = 1
    USAGE = 2
    REFUSED = 3
    CHANGES = 4
    INTERRUPTED = 130


EXIT_MEANINGS = {
    Exit.DONE: "done",
    Exit.NOT_SO: "done, but something is wrong: a check found a difference, a stream table failed in a refresh",
    Exit.USAGE: "the command line is not understood",
    Exit.REFUSED: "an error; stderr tells code, message, detail and hint",
    Exit.CHANGES: "`plan --exit-code`: the lake is not yet as the project says",
    Exit.INTERRUPTED: "interrupted by Ctrl-C; what was not committed never happened",
}

P = ParamSpec("P")
log = logging.getLogger(__name__)
out = Console(highlight=False, soft_wrap=False)
err = Console(stderr=True, highlight=False)


def guarded(command: Callable[P, Exit | None]) -> Callable[P, None]:
    """A command whose errors are told in words and whose result is the exit code."""

    @functools.wraps(command)
    def run(*arguments: P.args, **options: P.kwargs) -> None:
        as_json = bool(options.get("as_json"))
        try:
            code = command(*arguments, **options) or Exit.DONE
        except AnabranchError as error:
            tell(error, as_json)
            code = Exit.REFUSED
        except KeyboardInterrupt:
            err.print("interrupted; what was not committed never happened")
            code = Exit.INTERRUPTED
        except BrokenPipeError:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  nobody reads any more; Python flushes it at the end
            code = Exit.DONE
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            log.debug("the command failed", exc_info=True)
            tell(_unexpected(error), as_json)
            code = Exit.REFUSED
        raise typer.Exit(code)

    return run


def _unexpected(error: Exception) -> AnabranchError:
    """What nobody foresaw, in words; the stack is for those who ask for it."""
    code = "FILE_NOT_USABLE" if isinstance(error, OSError | UnicodeDecodeError) else "INTERNAL_ERROR"
    message = str(error).split("\n")[0] or "no more is known"
    return AnabranchError(
        code, f"{type(error).__name__}: {message}", hint="`anabranch --log-level debug ...` tells more"
    )


def tell(error: AnabranchError, as_json: bool = False) -> None:
    """An error on stderr: code and message, then detail, then hint."""
    if as_json:
        print(json.dumps({"error": error.to_dict()}), file=sys.stderr)
        return
    place = f"{escape(error.place)}: " if error.place else ""
    err.print(f"[red bold]{escape(error.code)}[/red bold] {place}{escape(error.message)}")
    if error.detail:
        err.print(f"  {escape(error.detail)}")
    if error.hint:
        err.print(f"  [cyan]hint[/cyan] {escape(error.hint)}")


def print_json(value: Any) -> None:
    """A value for programs: one JSON document on stdout."""
    sys.stdout.write(json.dumps(value, default=str, indent=2, ensure_ascii=False) + "\n")


SHORT = {
    "snapshot": "#",
    "node_name": "name",
    "started_at": "when",
    "refresh_mode": "mode",
    "pending_changes": "pending",
    "rows_inserted": "in",
    "rows_deleted": "out",
    "seconds": "s",
}
"""Heads of columns, where the name of the field is longer than what it holds."""
LONG = ("reason", "error")
"""Columns that may take several lines."""


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    title: str | None = None,
    colours: Mapping[str, Callable[[Any], str]] | None = None,
) -> None:
    """Rows for people: numbers to the right, NULL as nothing."""
    table = Table(title=title, title_justify="left", header_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in columns:
        numeric = any(isinstance(row[name], int | float) for row in rows)
        head = SHORT.get(name, name.replace("_", " "))
        is_long = name in LONG
        justify: JustifyMethod = "right" if numeric else "left"
        table.add_column(head, justify=justify, overflow="fold", no_wrap=not is_long, min_width=14 if is_long else None)
    for row in rows:
        table.add_row(*(_cell(row[name], (colours or {}).get(name)) for name in columns))
    out.print(table)


def _cell(value: Any, colour: Callable[[Any], str] | None) -> str:
    text = "" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)
    style = colour(value) if colour else ""
    return f"[{style}]{escape(text)}[/{style}]" if style else escape(text)


@contextmanager
def busy(what: str, as_json: bool = False) -> Iterator[None]:
    """Show that something is going on, where somebody is looking."""
    if as_json or not err.is_terminal:
        yield
        return
    with err.status(what):
        yield


def state_colour(state: Any) -> str:
    """Green for what is well, red for what failed, yellow for what is held."""
    return {
        "ACTIVE": "green",
        "SUSPENDED": "red",
        "FAILED": "red",
        "PAUSED": "yellow",
        "WAITING": "yellow",
        "SKIPPED": "yellow",
        "DIFFERENTIAL": "green",
        "FULL": "cyan",
        "NO_DATA": "dim",
    }.get(str(state), "")
