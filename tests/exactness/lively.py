"""Random queries chosen so that in few ticks the result of every construct changes often.

Most random queries over a dozen rows show the same rows after a change as before, and test little. `choose` runs many
on their graph's changes, by Spark alone, and keeps those whose results change and lose rows most for their length,
construct by construct. Run `python -m tests.exactness.lively` when the generator or the model has changed (an hour).
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from anabranch.spark.quiet import quietly
from tests.exactness.compare import AS_JSON
from tests.exactness.generate import CONSTRUCTS
from tests.exactness.model import Model
from tests.exactness.queries import random_query
from tests.exactness.shapes import Made
from tests.exactness.sources import SCHEMAS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GRAPHS, NODES, TICKS = 15, 20, 5
DEPTHS = (1, 1, 2, 2)
MOVED = (4, 10)
"""More rows at a time than in the long runs, so that more results change."""
FIRST_SEED, CANDIDATES = 50_000, 250
OFTEN = (50, 50, 20)
"""Of each construct: ticks with a changed result, ticks with a retraction, ticks with both sides of a join changed."""
SPARE = 1.1
"""Settled queries answer ties otherwise than Spark: choose so many more than are needed."""
LENGTH = 400
"""What any query takes, in characters of its text."""
CHOSEN = Path(__file__).with_name("lively.txt")


def chosen_queries(number: int) -> dict[str, Made]:
    """The stream tables of one graph."""
    lines = (line.split() for line in CHOSEN.read_text().splitlines())
    return {f"n{seed}": random_query(int(seed), DEPTHS) for graph, seed in lines if int(graph) == number}


def changes_of(number: int) -> Random:
    """What the graph's sources and their changes are made from, whichever queries were chosen."""
    return Random(f"lively {number}")


@dataclass(frozen=True)
class Candidate:
    """A query in its graph, and for each construct what running it adds: changed, retracted, both sides."""

    graph: int
    seed: int
    length: int
    adds: Counter[tuple[str, int]]

    def gain(self, lacking: Counter[tuple[str, int]]) -> float:
        """How much of what is lacking it adds, for what it takes."""
        return sum(min(count, lacking[at]) for at, count in self.adds.items()) / (LENGTH + self.length)


def survey(oracle: SparkSession, number: int) -> list[Candidate]:
    """Run the candidates of one graph before and after each of its changes."""
    rng = changes_of(number)
    model = Model.random(SCHEMAS, rng, MOVED)
    first = FIRST_SEED + number * CANDIDATES
    made = {seed: random_query(seed, DEPTHS) for seed in range(first, first + CANDIDATES)}
    adds: dict[int, Counter[tuple[str, int]]] = {seed: Counter() for seed in made}
    before = _results(oracle, model, made)
    for _ in range(TICKS):
        change = model.random_change(rng)
        after = _results(oracle, model, made)
        for seed in after.keys() & before.keys():
            query = made[seed]
            adds[seed].update((name, 0) for name in query.constructs if after[seed] != before[seed])
            adds[seed].update((name, 1) for name in query.constructs if before[seed] - after[seed])
            both = [each for each in query.joins if change.keys() & each.left and change.keys() & each.right]
            adds[seed].update({(each.construct, 2) for each in both})
        before = after
    return [Candidate(number, seed, len(made[seed].text), adds[seed]) for seed in before]


def _results(oracle: SparkSession, model: Model, made: dict[int, Made]) -> dict[int, Counter[str]]:
    """What each query gives; those that raise are left out."""
    for name in SCHEMAS:
        oracle.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {model.select(name)}")
    seeds = list(made)
    found: dict[int, Counter[str]] = {}
    for first in range(0, len(seeds), NODES):
        some = {seed: made[seed] for seed in seeds[first : first + NODES]}
        found |= _run(oracle, some) or {k: v for seed in some for k, v in _run(oracle, {seed: made[seed]}).items()}
    return found


def _run(oracle: SparkSession, made: dict[int, Made]) -> dict[int, Counter[str]]:
    """What the queries give, in one job; nothing if one of them raises."""
    found: dict[int, Counter[str]] = {seed: Counter() for seed in made}
    texts = (f"SELECT {seed} AS seed, {AS_JSON} AS row FROM ({query.text})" for seed, query in made.items())
    try:
        with quietly():
            rows = oracle.sql(" UNION ALL ".join(texts)).coalesce(1).collect()
    except (PySparkException, Py4JError):  # the latter: Spark itself stumbles over some of them
        return {}
    for seed, row in rows:
        found[seed][row] += 1
    return found


def choose(candidates: list[Candidate]) -> list[Candidate]:
    """Of each graph so many, and some more if need be, the next always what adds most to what is still lacking."""
    joins = {name for each in candidates for name, kind in each.adds if kind == 2}
    lacking = Counter(
        {
            (name, kind): round(often * SPARE)
            for name in CONSTRUCTS
            for kind, often in enumerate(OFTEN)
            if kind < 2 or name in joins
        }
    )
    room = Counter(dict.fromkeys(range(GRAPHS), NODES))
    chosen: list[Candidate] = []
    left = list(candidates)
    while +room or +lacking:
        fitting = [each for each in left if room[each.graph] or not +room]
        best = max(fitting, key=lambda each: each.gain(lacking))
        if not +room and not any(lacking[at] for at in best.adds):
            break
        left.remove(best)
        room[best.graph] -= 1
        lacking = +(lacking - best.adds)
        chosen.append(best)
    print("still lacking:", dict(lacking), flush=True)
    return chosen


def main() -> None:
    from anabranch.spark.session import local_session
    from tests.exactness.run_graph import oracle_session

    oracle = oracle_session(local_session())
    candidates = []
    for number in range(GRAPHS):
        candidates += survey(oracle, number)
        print(f"graph {number}: {len(candidates)} candidates", file=sys.stderr, flush=True)
    lines = sorted((each.graph, each.seed) for each in choose(candidates))
    CHOSEN.write_text("".join(f"{graph} {seed}\n" for graph, seed in lines))


if __name__ == "__main__":
    main()
