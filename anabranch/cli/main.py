"""The command line: one file a command, one line here."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli import (
    apply,
    bench,
    check,
    demo,
    diamonds,
    explain,
    graph,
    history,
    init,
    plan,
    refresh,
    serve,
    sql,
    status,
)
from anabranch.cli.logs import LogFormat, LogLevel, log_to_stderr
from anabranch.cli.terminal import guarded, out

app = typer.Typer(no_args_is_help=True, add_completion=True, context_settings={"help_option_names": ["-h", "--help"]})

BEGIN, WORK, LOOK = "Begin", "Work", "Look (starts no Spark)"

app.command("demo", rich_help_panel=BEGIN)(guarded(demo.demo))
app.command("init", rich_help_panel=BEGIN)(guarded(init.init))
app.command("plan", rich_help_panel=WORK)(guarded(plan.plan))
app.command("apply", rich_help_panel=WORK)(guarded(apply.apply))
app.command("sql", rich_help_panel=WORK)(guarded(sql.sql))
app.command("refresh", rich_help_panel=WORK)(guarded(refresh.refresh))
app.command("serve", rich_help_panel=WORK)(guarded(serve.serve))
app.command("check", rich_help_panel=WORK)(guarded(check.check))
app.command("explain", rich_help_panel=WORK)(guarded(explain.explain))
app.add_typer(bench.bench, name="bench", rich_help_panel=WORK)
app.command("status", rich_help_panel=LOOK)(guarded(status.status))
app.command("history", rich_help_panel=LOOK)(guarded(history.history))
app.command("graph", rich_help_panel=LOOK)(guarded(graph.graph))
app.command("diamonds", rich_help_panel=LOOK)(guarded(diamonds.diamonds))


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        out.print(version("anabranch"))
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")] = False,
    log_level: Annotated[LogLevel, typer.Option(envvar="ANABRANCH_LOG_LEVEL", help="What is logged to stderr.")] = (
        LogLevel.WARNING
    ),
    log_format: Annotated[LogFormat, typer.Option(envvar="ANABRANCH_LOG_FORMAT", help="How it is written.")] = (
        LogFormat.TEXT
    ),
) -> None:
    """SQL-defined tables kept fresh on Apache Spark.

    Begin with `anabranch demo`, or with `anabranch init shop`.
    """
    log_to_stderr(log_level, log_format)
