"""Code blocks of a Markdown page, run in order as a reader would: Python in one namespace, commands in a folder."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from anabranch.cli.main import app

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN_ONLY = ("text", "mermaid", "toml", "yaml", "sql", "")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language and its text."""

    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    return [Block(*found) for found in _BLOCK.findall(page.read_text(encoding="utf-8"))]


def run_python(text: str, names: dict[str, Any]) -> None:
    """A block of Python, as pasted."""
    exec(compile(text, "block", "exec"), names)


def run_console(text: str) -> None:
    """The lines that begin with a dollar sign: our command and `cd`; each has to succeed. `make` is passed over."""
    for line in text.splitlines():
        if not line.startswith("$ "):
            continue
        program, *arguments = shlex.split(line[2:], comments=True)
        if program == "cd":
            os.chdir(arguments[0])
            continue
        if program == "make":
            continue
        assert program == "anabranch", f"what should run {line!r}?"
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, f"{line}\n{result.stdout}\n{result.stderr}"


def links(page: Path) -> list[str]:
    """The targets of a page's links to other files."""
    found = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    return [each for each in found if "://" not in each]
