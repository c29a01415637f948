"""How finding diamonds grows: `python -m tests.graph.growth` prints nodes, edges, answer and processor time."""

from __future__ import annotations

import time

from anabranch.graph.diamonds import find_groups
from tests.graph.test_diamonds import ladder, many_sources


def main() -> None:
    print(f"{'graph':14}{'nodes':>8}{'edges':>8}{'groups':>8}{'answer':>8}{'ms':>8}{'us per node':>13}")
    for make in (ladder, many_sources):
        for nodes in (625, 1250, 2500, 5000):
            graph = make(nodes)
            started = time.process_time()
            groups = find_groups(graph)
            seconds = time.process_time() - started
            edges = sum(len(tables) for tables in graph.inputs.values())
            answer = sum(len(group.nodes) + len(group.shared_sources) for group in groups)
            shown = f"{make.__name__:14}{nodes:8}{edges:8}{len(groups):8}{answer:8}"
            print(f"{shown}{seconds * 1e3:8.1f}{seconds / nodes * 1e6:13.1f}")


if __name__ == "__main__":
    main()
