"""The interactive shell: history, several lines to a statement, names completed with Tab, Ctrl-C drops the line."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.cli.results import print_result
from anabranch.cli.terminal import busy, out, tell
from anabranch.errors import AnabranchError, QueryError
from anabranch.spark.session import cancel_jobs
from anabranch.sql.statements import split_statements, statement_places
from anabranch.sql.tokens import tokenize

if TYPE_CHECKING:
    from anabranch.lake import Lake

with contextlib.suppress(ImportError):  # there is none on Windows
    import readline

WORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "JOIN", "LEFT JOIN", "ON", "AS"),
    *(
        "INSERT INTO",
        "VALUES",
        "UPDATE",
        "SET",
        "DELETE FROM",
        "MERGE INTO",
        "CREATE TABLE",
        "DROP TABLE",
        "SHOW TABLES",
    ),
    *("CREATE STREAM TABLE", "ALTER STREAM TABLE", "DROP STREAM TABLE", "REFRESH STREAM TABLE", "SHOW STREAM TABLES"),
    *("EXPLAIN STREAM TABLE", "SCHEDULE", "REFRESH MODE", "DIFFERENTIAL", "FULL", "IMMEDIATE", "AUTO", "DESCRIBE"),
)
HELP = """\
Statements end with ; and may span lines. Beside Spark SQL there are
  CREATE STREAM TABLE name SCHEDULE '2s' AS SELECT ...;     REFRESH STREAM TABLE [name];
  SHOW STREAM TABLES;  EXPLAIN STREAM TABLE name;           ALTER / DROP STREAM TABLE name ...;
\\d lists the tables, \\? shows this, \\q or Ctrl-D ends."""


def history_file() -> Path:
    """Where the lines of earlier shells are kept."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "anabranch" / "history"


class Shell:
    """Reads statements from a person until the end of input."""

    def __init__(self, lake: Lake, limit: int, read: Callable[[str], str] = input) -> None:
        self._lake = lake
        self._limit = limit
        self._read = read

    def run(self) -> None:
        """Read, run, print, until \\q or Ctrl-D."""
        out.print(repr(self._lake), markup=False)
        out.print("\\? shows help, \\q ends.", markup=False)
        with self._line_editing():
            pending = ""
            while True:
                try:
                    line = self._read("anabranch> " if not pending.strip() else "      ...> ")
                except EOFError:
                    out.print()
                    return
                except KeyboardInterrupt:
                    out.print("^C")
                    pending = ""
                    continue
                if not pending.strip() and line.strip().startswith("\\"):
                    if self._backslash(line.strip()):
                        return
                    continue
                pending = self._take(f"{pending}{line}\n")

    def _take(self, text: str) -> str:
        """Run the statements that are complete; the rest waits for more lines."""
        statements, rest = complete_statements(text)
        for statement in statements:
            self._perform(statement)
        return rest

    def _perform(self, statement: str) -> None:
        started = time.perf_counter()
        try:
            with busy("running"):
                rows = self._lake.sql(statement)
            print_result(rows, self._limit)
            out.print(f"[dim]{time.perf_counter() - started:.2f} s[/dim]")
        except AnabranchError as error:
            tell(error)
        except KeyboardInterrupt:
            if self._lake._engine.own_session.is_started:
                cancel_jobs(self._lake.spark)
            out.print("interrupted; what was not committed never happened")

    def _backslash(self, line: str) -> bool:
        """A command of the shell itself; True ends it."""
        if line in ("\\q", "\\quit"):
            return True
        if line == "\\d":
            pinned = self._lake._engine.pin()
            for name in pinned.table_names:
                kind = "stream table" if pinned.id_of(name) in pinned.nodes else "source"
                out.print(f"  {name}  ({kind})", markup=False)
        else:
            out.print(HELP, markup=False)
        return False

    @contextlib.contextmanager
    def _line_editing(self) -> Iterator[None]:
        if "readline" not in globals():
            yield
            return
        file = history_file()
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            readline.read_history_file(file)
        readline.set_completer(self._completion)
        readline.parse_and_bind("tab: complete")
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                readline.set_history_length(2000)
                readline.write_history_file(file)

    def _completion(self, typed: str, number: int) -> str | None:
        names = [*self._lake._engine.pin().table_names, *(WORDS if typed.isupper() else map(str.lower, WORDS))]
        found = [each for each in names if each.lower().startswith(typed.lower())]
        return found[number] if number < len(found) else None


def complete_statements(text: str) -> tuple[list[str], str]:
    """The statements that end with a semicolon, and what follows the last one. An open quote may still be closed."""
    try:
        tokens = tokenize(text).tokens
    except QueryError:
        return [], text
    ends = [token.end for token in tokens if token.upper == ";"]
    if not ends:
        return [], text if statement_places(text) else ""
    return split_statements(text[: ends[-1]]), text[ends[-1] :].lstrip()
