"""The command line."""

from __future__ import annotations

import typer
from rich.console import Console

from anabranch.cli.serve import serve
from anabranch.errors import AnabranchError

app = typer.Typer(no_args_is_help=True, add_completion=False, help="SQL-defined tables kept fresh on Apache Spark.")
console = Console()


@app.callback()
def main() -> None:
    """SQL-defined tables kept fresh on Apache Spark."""


@app.command()
def demo() -> None:
    """Run the sales example in a temporary lake.

    Example: anabranch demo
    """
    from anabranch.cli.demo import run_demo

    try:
        correct = run_demo(console)
    except AnabranchError as error:
        Console(stderr=True).print(str(error), style="red", highlight=False, markup=False)
        raise typer.Exit(2) from None
    if not correct:
        raise typer.Exit(1)


app.command()(serve)
