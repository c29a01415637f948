"""`anabranch demo`: the sales diamond, from an empty folder over live writes and a kill to a checked result."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from anabranch.cli import demo_shop as shop
from anabranch.cli.demo_kill import Victim
from anabranch.cli.lakes import JsonOption
from anabranch.cli.terminal import Exit, busy, out, print_json
from anabranch.errors import StateError

if TYPE_CHECKING:
    from anabranch.lake import Lake
    from anabranch.observe.report import Report

ROUNDS = 3
NEXT = """
What to try next:
  anabranch demo --folder demo    the same in a folder that stays; then, in it,
                                  anabranch status, graph, explain exec_summary
  anabranch init shop             a project folder of your own: plan, apply
  anabranch sql -l shop --create  a shell: CREATE STREAM TABLE ... AS SELECT ...
The ten lines of Python in README.md do the same as a library."""


def demo(
    folder: Annotated[Path | None, typer.Option(help="Build the lake here and keep it.")] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Open the web page on the lake afterwards.")] = False,
    seed: Annotated[int, typer.Option(help="Which random sales.")] = 7,
    as_json: JsonOption = False,
) -> Exit:
    """Build the sales diamond in a temporary lake, write to it, refresh it, kill a refresh, recover, and check it all.

    Example: anabranch demo
    """
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise StateError("FOLDER_NOT_EMPTY", f"{folder} is not empty", hint="name a folder that is new or empty")
    with ExitStack() as stack:
        place = str(folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="anabranch-demo-")))
        console = Console(quiet=True) if as_json else out
        correct, told = _run(place, console, seed, as_json)
        if as_json:
            print_json(told)
        console.print(NEXT)
        if serve:
            _serve(place)
    return Exit.DONE if correct else Exit.NOT_SO


def _run(folder: str, console: Console, seed: int, as_json: bool) -> tuple[bool, dict[str, Any]]:
    """The whole story on one lake; whether everything was right, and the figures."""
    from anabranch.lake import connect

    rng = Random(seed)
    with connect(folder) as lake, closing(Victim(folder)) as victim:
        with busy("starting Spark, filling the tables", as_json):
            shop.make_source(lake, rng, 200)
            for name, (query, schedule) in shop.STREAM_TABLES.items():
                created = lake.create_stream_table(name, query, schedule=schedule, refresh_mode="DIFFERENTIAL")
        console.print("[bold]sales[/bold] is a source with 200 rows. Three stream tables over it form a diamond:\n")
        console.print(repr(lake.dependency_tree("exec_summary")), markup=False)
        console.print("\n".join(created.notices), style="yellow", markup=False, soft_wrap=True)
        rounds = [_round(lake, rng, number, console, as_json) for number in range(1, ROUNDS + 1)]
        killed = _kill(lake, rng, victim, console, as_json)
        checks = _check(lake, console, as_json)
    told = {"folder": folder, "rounds": rounds, "kill": killed, "checks": checks}
    correct = all(each["equal"] for each in (*rounds, killed)) and killed["lost"] == 0
    return correct and all(each["ok"] for each in checks), told


def _round(lake: Lake, rng: Random, number: int, console: Console, as_json: bool) -> dict[str, Any]:
    """Write, refresh, and look whether both branches add up to the same."""
    if number == 1:
        console.print("\nLive writes. Each refresh works out what the change does, all in one commit.")
        console.print("To the right: rows that went and came, and both totals of the diamond:")
    with busy("writing and refreshing", as_json):
        written = shop.write_round(lake, rng, number)
        report = lake.refresh()
        found = shop.totals(lake)
    console.print(f"  {written:<28} snapshot {report.snapshot:>3}  {_changed(report):>12}  {_equation(found)}")
    return {"written": written, "equal": found.are_equal, "total": found.by_region, **report.to_dict()}


def _changed(report: Report) -> str:
    """How many rows of stream tables went and came."""
    nodes = report.nodes.values()
    return f"-{sum(each.rows_deleted for each in nodes)} +{sum(each.rows_inserted for each in nodes)} rows"


def _equation(found: shop.Totals) -> str:
    """Both totals, and whether they are the same."""
    sign = "[green]=[/green]" if found.are_equal else "[red]IS NOT[/red]"
    return f"{found.by_region} {sign} {found.by_product}"


def _kill(lake: Lake, rng: Random, victim: Victim, console: Console, as_json: bool) -> dict[str, Any]:
    """Another process refreshes and is killed before COMMIT; afterwards this one goes on as if nothing had been."""
    console.print(f"\nA crash. Process {victim.process} refreshes the same lake and gets SIGKILL amid its commit:")
    with busy("waiting for the other process to be killed", as_json):
        shop.write_round(lake, rng, ROUNDS + 1)
        before = shop.totals(lake)
        frontier = lake.frontier("exec_summary")
        died = victim.refresh_and_die()
        after = shop.totals(lake)
        lost = 0 if lake.frontier("exec_summary") == frontier and before == after else 1
        report = lake.refresh()
        found = shop.totals(lake)
    was = "killed" if died else "NOT killed"
    console.print(f"  {f'it was {was}; the lake shows what it showed before':<55}{_equation(after)}")
    console.print(
        f"  {'the next refresh':<28} snapshot {report.snapshot:>3}  {_changed(report):>12}  {_equation(found)}"
    )
    return {"killed": died, "lost": lost + (not died), "equal": found.are_equal, **report.to_dict()}


def _check(lake: Lake, console: Console, as_json: bool) -> list[dict[str, Any]]:
    """Every stream table against its query run from scratch, and what the last refreshes did."""
    console.print("\nCompared with each query run from scratch:")
    with busy("running every query from scratch", as_json):
        results = [lake.check(name) for name in shop.STREAM_TABLES]
    for result in results:
        console.print(f"  {'[green]ok[/green]' if result else '[red]WRONG[/red]'}  {result}")
    return [each.to_dict() for each in results]


def _serve(folder: str) -> None:
    """The web page on the demo's lake, until it is stopped."""
    from typer.main import get_command

    from anabranch.cli.main import app

    commands: dict[str, Any] = getattr(get_command(app), "commands", {})
    if "serve" not in commands:
        raise StateError("SERVE_MISSING", "this installation has no `anabranch serve`", hint="update anabranch")
    by_name = any(option == "--lake" for each in commands["serve"].params for option in each.opts)
    subprocess.run([sys.executable, "-m", "anabranch", "serve", *(["--lake"] if by_name else []), folder], check=False)
