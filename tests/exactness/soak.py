"""`make soak-sql`: 3,000 random queries through ten ticks each, in as many goes as it takes.

One line a graph is appended to results/random-sql.txt, and the next go starts after the last line. How often each
construct was moved is kept beside it; `--summary` prints it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.exactness.queries import random_query
from tests.exactness.run_graph import WrongError, run_graph
from tests.exactness.tally import Tally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GRAPHS, NODES, TICKS = 150, 20, 10
DEPTHS = (1, 2, 2, 3)
FIRST_SEED = 10_000
RESULTS = Path(__file__).parent / "results"
LINES, TALLY = RESULTS / "random-sql.txt", RESULTS / "random-sql-tally.json"


def run(spark: SparkSession, number: int) -> Tally:
    """One graph through its ticks; raises WrongError."""
    first, tally = FIRST_SEED + number * NODES, Tally()
    made = {f"n{seed}": random_query(seed, DEPTHS) for seed in range(first, first + NODES)}
    run_graph(spark, made, TICKS, tally, compiled=number % 10 == 0)
    return tally


def go_on(spark: SparkSession, graphs: int, seconds: float) -> None:
    """Run graphs that were not run yet, so many or so long."""
    RESULTS.mkdir(exist_ok=True)
    done = len(LINES.read_text().splitlines()) if LINES.exists() else 0
    ends = time.monotonic() + seconds
    for number in range(done, min(done + graphs, GRAPHS)):
        if time.monotonic() > ends:
            break
        _add_line(spark, number)


def _add_line(spark: SparkSession, number: int) -> None:
    started, wrong, tally = time.monotonic(), "none", Tally()
    try:
        tally = run(spark, number)
    except WrongError as error:
        wrong = error.name
        print(error, file=sys.stderr, flush=True)
    first = FIRST_SEED + number * NODES
    line = (
        f"graph {number:3} seeds {first} to {first + NODES - 1} queries {NODES} ticks {TICKS} "
        f"constructs {len(tally.present)} changed {tally.results_changed} wrong {wrong} "
        f"({time.monotonic() - started:.0f} s)"
    )
    with LINES.open("a") as file:
        file.write(line + "\n")
    TALLY.write_text(json.dumps(Tally.sum((_kept(), tally)).to_json(), indent=0, sort_keys=True) + "\n")
    print(line, flush=True)


def _kept() -> Tally:
    return Tally.from_json(json.loads(TALLY.read_text())) if TALLY.exists() else Tally()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=GRAPHS, help="at most so many")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no graph after so long")
    parser.add_argument("--summary", action="store_true", help="print how often each construct was moved")
    given = parser.parse_args()
    if given.summary:
        print(_kept())
        return
    from anabranch.spark.session import local_session

    go_on(local_session(), given.graphs, given.seconds)


if __name__ == "__main__":
    main()
