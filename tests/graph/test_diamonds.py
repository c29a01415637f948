"""Diamond groups: the named examples, a brute-force definition that lists paths, and growth with the graph."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from anabranch.graph.dag import Graph
from anabranch.graph.diamonds import DiamondGroup, announcement, find_group, find_groups, groups_of
from tests.graph.growth import answer_size, measure
from tests.graph.shapes import LINEAR_ANSWER, QUADRATIC_ANSWER, gathering

SALES = Graph({"revenue_by_region": ("sales",), "revenue_by_product": ("sales",)})


def all_paths(graph: Graph, start: str, end: str) -> list[list[str]]:
    if start == end:
        return [[end]]
    return [[start, *rest] for reader in graph.readers[start] for rest in all_paths(graph, reader, end)]


def groups_by_definition(graph: Graph) -> dict[str, tuple[set[str], dict[str, str]]]:
    """Convergence -> (members, split point per source), straight from the words of the definition."""
    found: dict[str, tuple[set[str], dict[str, str]]] = {}
    for convergence in graph.inputs:
        members: set[str] = set()
        splits: dict[str, str] = {}
        for source in graph.sources:
            paths = all_paths(graph, source, convergence)
            if len({path[-2] for path in paths}) < 2:
                continue
            common = set.intersection(*(set(path[:-1]) for path in paths))
            split = max(common, key=paths[0].index)
            splits[source] = split
            members |= {table for path in paths for table in path[path.index(split) + 1 : -1]}
        if splits:
            found[convergence] = (members, splits)
    return found


def as_found(groups: tuple[DiamondGroup, ...]) -> dict[str, tuple[set[str], dict[str, str]]]:
    return {
        group.convergence: (
            set(group.members),
            {source: split.table for split in group.splits for source in split.sources},
        )
        for group in groups
    }


def random_graph(chance: random.Random, nodes: int, sources: int, widest: int) -> Graph:
    tables = [f"s{i}" for i in range(sources)]
    inputs: dict[str, tuple[str, ...]] = {}
    for index in range(nodes):
        near = tables[-6:] if chance.random() < 0.5 else tables
        inputs[f"n{index}"] = tuple(chance.choices(near, k=chance.randint(0 if chance.random() < 0.1 else 1, widest)))
        tables.append(f"n{index}")
    return Graph(inputs)


def test_the_sales_diamond() -> None:
    graph = SALES.with_node("exec_summary", ("revenue_by_region", "revenue_by_product"))
    (group,) = find_groups(graph)
    assert group.convergence == "exec_summary"
    assert group.members == ("revenue_by_region", "revenue_by_product")
    assert group.split_points == group.shared_sources == ("sales",)
    assert announcement(group, {}) == (
        'stream table "exec_summary" creates a diamond dependency via "sales" -> '
        '["revenue_by_region", "revenue_by_product"]; refreshes will keep their frontiers equal'
    )
    assert "own schedule" in announcement(group, {}, atomic=False)


def test_three_convergences_over_two_sources() -> None:
    graph = Graph({"A": ("s1",), "B": ("s1", "s2"), "C": ("A", "B"), "D": ("s2", "B"), "E": ("C", "D")})
    assert as_found(find_groups(graph)) == {
        "C": ({"A", "B"}, {"s1": "s1"}),
        "D": ({"B"}, {"s2": "s2"}),
        "E": ({"A", "B", "C", "D"}, {"s1": "s1", "s2": "s2"}),
    }


def test_a_direct_edge_is_a_path() -> None:
    assert as_found(find_groups(Graph({"A": ("s",), "C": ("A", "s")}))) == {"C": ({"A"}, {"s": "s"})}


def test_paths_that_met_before_are_no_diamond_again() -> None:
    graph = Graph({"A": ("s",), "B": ("s",), "M": ("A", "B"), "after": ("M",)})
    assert as_found(find_groups(graph)) == {"M": ({"A", "B"}, {"s": "s"})}


def test_the_split_is_the_last_common_table() -> None:
    graph = Graph({"M": ("s",), "A": ("M",), "B": ("M",), "C": ("A", "B")})
    (group,) = find_groups(graph)
    assert group.members == ("A", "B")
    assert group.split_points == ("M",)
    assert group.shared_sources == ("s",)


def test_a_graph_without_diamonds_has_no_groups() -> None:
    graph = Graph({"A": ("s1",), "B": ("s2",), "C": ("A", "B"), "constant": ()})
    assert find_groups(graph) == ()
    assert find_group(graph, "C") is None


def test_groups_are_remembered_per_graph() -> None:
    graph = SALES.with_node("x", ("revenue_by_region", "revenue_by_product"))
    assert groups_of(graph) is groups_of(Graph(dict(graph.inputs)))


@pytest.mark.parametrize("seed", range(40))
def test_groups_are_those_of_the_definition(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(25):
        graph = random_graph(chance, chance.randint(1, 11), chance.randint(1, 5), chance.randint(1, 4))
        groups = find_groups(graph)
        assert as_found(groups) == groups_by_definition(graph), graph.inputs
        assert all(list(g.members) == sorted(g.members, key=graph.position.__getitem__) for g in groups)


@pytest.mark.parametrize("make", [*LINEAR_ANSWER, *QUADRATIC_ANSWER], ids=lambda make: make.__name__)
def test_work_grows_with_graph_and_answer(make: Callable[[int], Graph]) -> None:
    for nodes in (600, 2400, 5000) if make in LINEAR_ANSWER else (300, 600):
        graph = make(nodes)
        steps = 0

        def count() -> None:
            nonlocal steps
            steps += 1

        groups = find_groups(graph, count)
        edges = sum(len(tables) for tables in graph.inputs.values())
        assert (groups == ()) == (make is gathering)
        assert steps <= len(graph.inputs) + edges + 4 * answer_size(groups)


@pytest.mark.parametrize("make", LINEAR_ANSWER, ids=lambda make: make.__name__)
def test_eight_times_the_graph_takes_about_eight_times_as_long(make: Callable[[int], Graph]) -> None:
    """Steps say nothing of what a step costs. Quadratic time would be 8 times as much per node, edge and answer."""
    small, large = measure(make, 625), measure(make, 5000)
    assert large.answer <= 10 * small.answer
    assert large.seconds / large.size <= 3 * small.seconds / small.size


def test_paths_without_number_are_no_trouble() -> None:
    """Sixty layers of three nodes each reading all three before: 3^60 paths."""
    layers = 60
    inputs = {
        f"n{i}_{k}": tuple(f"n{i - 1}_{j}" for j in range(3)) if i else ("s",) for i in range(layers) for k in range(3)
    }
    groups = find_groups(Graph(inputs))
    assert len(groups) == 3 * (layers - 1)
    assert groups[-1].members == tuple(f"n{i}_{k}" for i in range(layers - 1) for k in range(3))
