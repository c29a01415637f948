"""How finding diamonds grows: `python -m tests.graph.growth` prints nodes, edges, answer and processor time.

Size is nodes + edges + answer, the answer being all members, convergences and shared sources of all groups. The garbage
collector is off while the clock runs: now and then a collection of everything the process holds falls into a run of
some milliseconds and doubles it, whatever the graph.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass

from anabranch.graph.dag import Graph
from anabranch.graph.diamonds import DiamondGroup, find_groups
from tests.graph.shapes import LINEAR_ANSWER, QUADRATIC_ANSWER


@dataclass(frozen=True)
class Measured:
    """One graph: how large it and its answer are, and the processor time of finding its groups."""

    nodes: int
    edges: int
    groups: int
    answer: int
    seconds: float

    @property
    def size(self) -> int:
        """What the time is to be proportional to."""
        return self.nodes + self.edges + self.answer


def answer_size(groups: tuple[DiamondGroup, ...]) -> int:
    """How many tables the groups name."""
    return sum(len(group.nodes) + len(group.shared_sources) for group in groups)


def measure(make: Callable[[int], Graph], nodes: int, runs: int = 3) -> Measured:
    """The least time of some runs, each on a graph of its own: a graph remembers what was asked of it."""
    best = float("inf")
    for _ in range(runs):
        graph = make(nodes)
        seconds, groups = _timed(graph)
        best = min(best, seconds)
    edges = sum(len(tables) for tables in graph.inputs.values())
    return Measured(len(graph.inputs), edges, len(groups), answer_size(groups), best)


def _timed(graph: Graph) -> tuple[float, tuple[DiamondGroup, ...]]:
    gc.collect()
    gc.disable()
    try:
        started = time.process_time()
        groups = find_groups(graph)
        return time.process_time() - started, groups
    finally:
        gc.enable()


def main() -> None:
    print(
        f"{'graph':14}{'nodes':>7}{'edges':>7}{'groups':>7}{'answer':>9}{'ms':>9}{'us per size':>13}{'us per node':>13}"
    )
    for make in (*LINEAR_ANSWER, *QUADRATIC_ANSWER):
        for nodes in (625, 1250, 2500, 5000) if make in LINEAR_ANSWER else (625, 1250, 2500):
            found = measure(make, nodes)
            shown = f"{make.__name__:14}{found.nodes:7}{found.edges:7}{found.groups:7}{found.answer:9}"
            per_size, per_node = (found.seconds / count * 1e6 for count in (found.size, found.nodes))
            print(f"{shown}{found.seconds * 1e3:9.1f}{per_size:13.2f}{per_node:13.1f}", flush=True)


if __name__ == "__main__":
    main()
