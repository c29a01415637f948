"""`anabranch bench`: how fast refreshing is here, against other ways to do it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from anabranch.cli.lakes import JsonOption
from anabranch.cli.terminal import Exit, err, guarded, out, print_json

bench = typer.Typer(no_args_is_help=True, help="How fast refreshing is here, against other ways to do it.")


def tpch(
    scale: Annotated[float, typer.Option(help="TPC-H's scale factor.")] = 0.01,
    changes: Annotated[int, typer.Option(help="Changed rows in each tick.")] = 1000,
    ticks: Annotated[int, typer.Option(help="Ticks that are measured, after three to warm up.")] = 3,
    folder: Annotated[Path | None, typer.Option(help="Where to keep the lake for the next run.")] = None,
    output: Annotated[Path | None, typer.Option(help="Write everything measured to this JSON file.")] = None,
    full: Annotated[bool, typer.Option(help="Recompute the queries in full, too.")] = True,
    as_json: JsonOption = False,
) -> Exit:
    """Refresh the 22 TPC-H queries and 8 stream tables on top of them: fused, one by one, and in full.

    Example: anabranch bench tpch --scale 0.1 --changes 1000 --ticks 5
    """
    from anabranch.bench.run import Options, run

    with err.status("starting Spark") as status:
        found = run(Options(scale, changes, ticks, full), folder, status.update)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(found, indent=1) + "\n")
    if as_json:
        print_json(found)
        return Exit.DONE
    table = Table("way", "seconds (median)", "least", "most", "jobs", "stages", "scans")
    for way, seconds in found["seconds"].items():
        if seconds is not None:
            counted = [
                str(found["ticks"][-1][way].get(key, "")) for key in ("spark_jobs", "spark_stages", "table_scans")
            ]
            table.add_row(way, *(f"{seconds[key]:.2f}" for key in ("median", "least", "most")), *counted)
    out.print(table)
    out.print(f"fused_vs_sequential   {found['fused_vs_sequential']:.2f}  (seconds of fused / one by one)")
    if found["differential_vs_full"] is not None:
        out.print(f"differential_vs_full  {found['differential_vs_full']:.2f}  (seconds of full / fused)")
    return Exit.DONE


bench.command("tpch")(guarded(tpch))
