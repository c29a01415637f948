"""`make soak-sql`: 3,000 random queries through ten ticks each, in as many goes as it takes.

One line a graph is appended to results/random-sql.txt, and the next go runs those that have no line yet. How often
each construct was moved is kept beside it; `--summary` prints it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.spark.session import local_session
from tests.exactness.queries import random_query
from tests.exactness.run_graph import WrongError, run_graph
from tests.exactness.tally import Tally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GRAPHS, NODES, TICKS = 150, 20, 10
DEPTHS = (1, 2, 2, 3)
OFTEN = (250, 250, 100)
"""Of each construct, so many ticks with a changed result, with a retraction, with both sides of a join changed."""
FIRST_SEED = 10_000
RESULTS = Path(__file__).parent / "results"
LINES, TALLY = RESULTS / "random-sql.txt", RESULTS / "random-sql-tally.json"


def run(spark: SparkSession, number: int) -> Tally:
    """One graph through its ticks; raises WrongError."""
    first, tally = FIRST_SEED + number * NODES, Tally()
    made = {f"n{seed}": random_query(seed, DEPTHS) for seed in range(first, first + NODES)}
    run_graph(spark, made, TICKS, tally, compiled=number % 10 == 0)
    return tally


def run_aside(number: int) -> tuple[Tally, str, float]:
    """One graph in a process of its own: how often constructs moved, the stream table that was wrong, seconds."""
    started, tally, wrong = time.monotonic(), Tally(), "none"
    try:
        tally = run(local_session({"spark.master": "local[1]"}), number)
    except WrongError as error:
        wrong = error.name or "unknown"
        print(error, file=sys.stderr, flush=True)
    return tally, wrong, time.monotonic() - started


def go_on(graphs: int, seconds: float, processes: int) -> None:
    """Run graphs that were not run yet, so many or so long."""
    done = {int(line.split()[1]) for line in LINES.read_text().splitlines()} if LINES.exists() else set()
    waiting = [number for number in range(GRAPHS) if number not in done][:graphs]
    ends = time.monotonic() + seconds
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        running: dict[Future[tuple[Tally, str, float]], int] = {}
        while running or waiting:
            while waiting and len(running) < processes and time.monotonic() < ends:
                number = waiting.pop(0)
                running[pool.submit(run_aside, number)] = number
            if not running:
                break
            for each in wait(running, return_when=FIRST_COMPLETED).done:
                _add_line(running.pop(each), *each.result())


def _add_line(number: int, tally: Tally, wrong: str, seconds: float) -> None:
    first = FIRST_SEED + number * NODES
    line = (
        f"graph {number:3} seeds {first} to {first + NODES - 1} queries {NODES} ticks {TICKS} "
        f"constructs {len(tally.present)} changed {tally.results_changed} wrong {wrong} ({seconds:.0f} s)"
    )
    with LINES.open("a") as file:
        file.write(line + "\n")
    TALLY.write_text(json.dumps(Tally.sum((_kept(), tally)).to_json(), indent=0, sort_keys=True) + "\n")
    print(line, flush=True)


def shortcomings(often: tuple[int, int, int] = OFTEN) -> list[str]:
    """What the kept results lack: graphs not run, graphs that were wrong, constructs moved less often than that."""
    lines = LINES.read_text().splitlines() if LINES.exists() else []
    found = [line for line in lines if "wrong none" not in line]
    if len(lines) < GRAPHS:
        found.append(f"{len(lines)} of {GRAPHS} graphs were run")
    return found + [f"moved too seldom: {name} {counts}" for name, counts in _kept().too_few(*often).items()]


def _kept() -> Tally:
    return Tally.from_json(json.loads(TALLY.read_text())) if TALLY.exists() else Tally()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=GRAPHS, help="at most so many")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no graph after so long")
    parser.add_argument("--processes", type=int, default=2, help="so many side by side, each with its own Spark")
    parser.add_argument("--anew", action="store_true", help="forget what was run before")
    parser.add_argument("--summary", action="store_true", help="print how often each construct was moved")
    given = parser.parse_args()
    if given.summary:
        print(_kept())
        return
    if given.anew:
        LINES.unlink(missing_ok=True)
        TALLY.unlink(missing_ok=True)
    go_on(given.graphs, given.seconds, given.processes)
    sys.exit("\n".join(shortcomings()) or None)


if __name__ == "__main__":
    main()
