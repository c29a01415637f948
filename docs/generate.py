"""Writes docs/reference/ from the code: commands, settings, errors, reasons, what SQL runs in full (`make docs`).

A test compares the files with what this would write, so the reference cannot fall behind the code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.main import get_command

from anabranch.cli.main import app
from anabranch.cli.terminal import EXIT_MEANINGS
from anabranch.observe.reasons import REASONS
from anabranch.settings import SETTINGS
from anabranch.sql.refused import REFUSED

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
ABOUT_COMMANDS = """\
Every command prints for people and, with `--json`, for programs. Errors go to stderr: a code, a message, a detail, a
hint.

Which lake a command works on: `--lake`, else `ANABRANCH_LAKE`, else the project (`anabranch.toml` or
`spark-pipeline.yml`) of the current folder or of one above it, else the current folder itself.
"""
ABOUT_SETTINGS = """\
`connect(path, name=value)` wins over the environment (`ANABRANCH_` and the name in capitals), that over what the lake
keeps (`[settings]` of a [project](../projects.md)), that over the default. `lake.settings` shows each with its value
and where it is from.
"""
ABOUT_REASONS = """\
Every refresh records what was done with each stream table and why. The first word of the reason is stable.
[Why was it recomputed in full?](../how-to/why-full.md) walks through the ones people ask about.
"""
ABOUT_FULL = """\
All of Spark SQL may define a stream table. What is listed here cannot be kept incrementally: under AUTO it is
recomputed and compared, and hands only the difference on; under DIFFERENTIAL and IMMEDIATE it is refused with the
reason.
"""
ABOUT_ERRORS = """\
All are `anabranch.AnabranchError`, with `.code`, `.message`, `.detail`, `.hint`, and `.place` (file and line) where a
project's file is meant. Codes are stable words. Errors of Spark itself keep Spark's own condition as their code, such
as `UNRESOLVED_COLUMN.WITH_SUGGESTION`. `...` stands for what was given.
"""
MADE = "<!-- made from the code by `make docs`; change the code instead -->\n"


def pages() -> dict[str, str]:
    """Every page of the reference by file name."""
    return {
        "commands.md": commands(),
        "settings.md": settings(),
        "errors.md": errors(),
        "reasons.md": reasons(),
        "full-only.md": full_only(),
    }


def commands() -> str:
    """The command line: every command with its arguments, options and example."""
    group: Any = get_command(app)
    lines = [
        MADE,
        "# Commands\n",
        ABOUT_COMMANDS,
        _table(("exit code", "meaning"), [(str(int(code)), meaning) for code, meaning in EXIT_MEANINGS.items()]),
        "Before the command: "
        + ", ".join(f"`{_option(each)}`" for each in group.params if each.opts[0] != "--help")
        + ".\n",
    ]
    for name, command in group.commands.items():
        text, _, example = (command.help or "").partition("Example: ")
        lines += [f"## anabranch {name}\n", _paragraphs(text), f"```console\n$ {example.strip()}\n```\n"]
        rows = [(f"`{_option(each)}`", _meaning(each)) for each in command.params if each.name != "help"]
        lines.append(_table(("argument or option", "meaning"), rows))
    return _page(lines)


def _option(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"[{parameter.name.upper()}]" if not parameter.required else parameter.name.upper()
    return ", ".join(parameter.opts)


def _meaning(parameter: Any) -> str:
    text = parameter.help or ""
    if getattr(parameter, "envvar", None):
        text += f" Environment: `{parameter.envvar}`."
    if parameter.default not in (None, False, ()) and not parameter.required:
        text += f" Default: `{parameter.default}`."
    return text


def settings() -> str:
    """Every setting with its default and meaning."""
    rows = [
        (
            f"`{each.name}`",
            f"`{each.default}`",
            each.meaning + (f" ({' or '.join(each.choices)})" if each.choices else ""),
        )
        for each in SETTINGS.values()
    ]
    return _page(
        [
            MADE,
            "# Settings\n",
            ABOUT_SETTINGS,
            _table(("setting", "default", "meaning"), rows),
        ]
    )


def reasons() -> str:
    """Every reason code."""
    rows = [(f"`{each.code}`", each.actions, each.meaning, each.advice) for each in REASONS.values()]
    return _page(
        [
            MADE,
            "# Reasons\n",
            ABOUT_REASONS,
            _table(("reason", "action", "meaning", "what to do"), rows),
        ]
    )


def full_only() -> str:
    """What cannot be kept incrementally."""
    rows = [(each.construct, each.reason, each.hint) for each in REFUSED.values()]
    return _page(
        [
            MADE,
            "# What runs in full\n",
            ABOUT_FULL,
            _table(("construct", "why", "instead"), rows),
        ]
    )


@dataclass(frozen=True)
class ErrorCode:
    """One code as the code raises it."""

    code: str
    kind: str
    message: str
    hint: str


def errors() -> str:
    """Every error code, found in the source."""
    found: dict[str, ErrorCode] = {}
    for path in sorted((ROOT / "anabranch").rglob("*.py")):
        for each in _codes(path):
            found.setdefault(each.code, each)
    rows = [(f"`{each.code}`", each.kind, each.message, each.hint) for _, each in sorted(found.items())]
    return _page(
        [
            MADE,
            "# Errors\n",
            ABOUT_ERRORS,
            _table(("code", "class", "message", "hint"), rows),
        ]
    )


def _codes(path: Path) -> Iterator[ErrorCode]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.func.id.endswith("Error"):
            continue
        if len(node.args) < 2 or not isinstance(node.args[0], ast.Constant):
            continue
        code = node.args[0].value
        if isinstance(code, str) and re.fullmatch(r"[A-Z][A-Z_]+", code):
            hints = [each.value for each in node.keywords if each.arg == "hint"] or node.args[3:4]
            yield ErrorCode(code, node.func.id, _text(node.args[1]), _text(hints[0]) if hints else "")


def _text(node: ast.expr) -> str:
    """A literal, what is filled in as dots."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(each) if isinstance(each, ast.Constant) else "..." for each in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    return "..."


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return (
        "\n".join(
            "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in lines
        )
        + "\n"
    )


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(each.split()) for each in text.strip().split("\n\n")) + "\n"


def _page(lines: list[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    REFERENCE.mkdir(exist_ok=True)
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
