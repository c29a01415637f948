"""`make soak-sql`: 3,000 random queries through ten ticks each, in as many goes as it takes.

One line a graph is appended to results/random-sql.txt, and the next go runs those that have no line yet. How often
each construct was moved is kept beside it; `--summary` prints it. More graphs follow, of queries with the constructs
that were moved too seldom, until there are none; those change more rows at a time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.spark.session import local_session
from tests.exactness import lively
from tests.exactness.queries import random_query
from tests.exactness.run_graph import WrongError, run_graph
from tests.exactness.shapes import Made
from tests.exactness.tally import Tally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GRAPHS, NODES, TICKS = 150, 20, 10
MORE_GRAPHS = 30
"""At most so many after those, for what was moved too seldom."""
DEPTHS = (1, 2, 2, 3)
MOVED = (1, 4)
OFTEN = (250, 250, 100)
"""Of each construct, so many ticks with a changed result, with a retraction, with both sides of a join changed."""
FIRST_SEED, MORE_SEEDS = 10_000, 1_000
RESULTS = Path(__file__).parent / "results"
LINES, TALLY = RESULTS / "random-sql.txt", RESULTS / "random-sql-tally.json"


@dataclass(frozen=True)
class Planned:
    """A graph to run. If constructs are named, its queries are the first that have one of them."""

    number: int
    constructs: tuple[str, ...] = ()

    def queries(self) -> dict[int, Made]:
        """By seed."""
        if not self.constructs:
            first = FIRST_SEED + self.number * NODES
            return {seed: random_query(seed, DEPTHS) for seed in range(first, first + NODES)}
        made = ((seed, random_query(seed, lively.DEPTHS)) for seed in count(MORE_SEEDS * self.number))
        return dict(islice(((seed, each) for seed, each in made if each.constructs & {*self.constructs}), NODES))

    def run(self, spark: SparkSession) -> Tally:
        """Through its ticks; raises WrongError."""
        tally, made = Tally(), {f"n{seed}": each for seed, each in self.queries().items()}
        compiled = self.number % 10 == 0 and not self.constructs
        run_graph(spark, made, TICKS, tally, compiled=compiled, moved=lively.MOVED if self.constructs else MOVED)
        return tally


def run_aside(graph: Planned) -> tuple[Tally, str, float]:
    """One graph in a process of its own: how often constructs moved, the stream table that was wrong, seconds."""
    started, tally, wrong = time.monotonic(), Tally(), "none"
    try:
        tally = graph.run(local_session({"spark.master": "local[1]"}))
    except WrongError as error:
        wrong = error.name or "unknown"
        print(error, file=sys.stderr, flush=True)
    return tally, wrong, time.monotonic() - started


def go_on(graphs: int, seconds: float, processes: int) -> None:
    """Run graphs that were not run yet, so many or so long."""
    ends = time.monotonic() + seconds
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        running: dict[Future[tuple[Tally, str, float]], Planned] = {}
        while True:
            while graphs > 0 and len(running) < processes and time.monotonic() < ends:
                graph = _next({each.number for each in running.values()})
                if graph is None:
                    break
                graphs -= 1
                running[pool.submit(run_aside, graph)] = graph
            if not running:
                break
            for each in wait(running, return_when=FIRST_COMPLETED).done:
                _add_line(running.pop(each), *each.result())


def _next(running: set[int]) -> Planned | None:
    """The first graph that was not run: one of the 150, or one of the constructs that were moved too seldom so far."""
    done = running | {int(line.split()[1]) for line in _lines()}
    number = next(each for each in count() if each not in done)
    if number < GRAPHS:
        return Planned(number)
    constructs = tuple(_kept().too_few(*OFTEN))
    return Planned(number, constructs) if constructs and number < GRAPHS + MORE_GRAPHS else None


def _add_line(graph: Planned, tally: Tally, wrong: str, seconds: float) -> None:
    seeds = list(graph.queries())
    line = (
        f"graph {graph.number:3} seeds {seeds[0]} to {seeds[-1]} queries {NODES} ticks {TICKS} "
        f"constructs {len(tally.present)} changed {tally.results_changed} wrong {wrong} ({seconds:.0f} s)"
    )
    if graph.constructs:
        line += f" with {' or '.join(graph.constructs)}"
    with LINES.open("a") as file:
        file.write(line + "\n")
    TALLY.write_text(json.dumps(Tally.sum((_kept(), tally)).to_json(), indent=0, sort_keys=True) + "\n")
    print(line, flush=True)


def shortcomings() -> list[str]:
    """What the kept results lack: graphs not run, graphs that were wrong, constructs moved less often than that."""
    lines = _lines()
    found = [line for line in lines if "wrong none" not in line]
    if len(lines) < GRAPHS:
        found.append(f"{len(lines)} of {GRAPHS} graphs were run")
    return found + [f"moved too seldom: {name} {counts}" for name, counts in _kept().too_few(*OFTEN).items()]


def _lines() -> list[str]:
    return LINES.read_text().splitlines() if LINES.exists() else []


def _kept() -> Tally:
    return Tally.from_json(json.loads(TALLY.read_text())) if TALLY.exists() else Tally()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=GRAPHS + MORE_GRAPHS, help="at most so many")
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
