"""Graphs of any size, one shape a function: what finding diamonds is measured on."""

from __future__ import annotations

import random

from anabranch.graph.dag import Graph


def ladder(nodes: int) -> Graph:
    """One long chain, then small diamonds one after another: looking past a split would be quadratic."""
    inputs = {f"n{i}": (f"n{i - 1}" if i else "s",) for i in range(nodes // 2)}
    last = f"n{nodes // 2 - 1}"
    for index in range(nodes // 6):
        inputs |= {f"a{index}": (last,), f"b{index}": (last,), f"c{index}": (f"a{index}", f"b{index}")}
        last = f"c{index}"
    return Graph(inputs)


def many_sources(nodes: int) -> Graph:
    """A source for every third node; neighbours share one, so that every node of a row is a convergence."""
    third = nodes // 3
    inputs: dict[str, tuple[str, ...]] = {f"a{i}": (f"s{i}", f"s{(i + 1) % third}") for i in range(third)}
    inputs |= {f"b{i}": (f"a{i}", f"a{(i + 1) % third}") for i in range(third)}
    inputs |= {f"c{i}": (f"b{i}", f"s{(i + 2) % third}") for i in range(third)}
    return Graph(inputs)


def gathering(nodes: int) -> Graph:
    """A chain in which every node reads a source of its own: no diamond, but each node is over all sources so far."""
    return Graph({f"n{i}": (f"n{i - 1}", f"s{i}") if i else ("s0",) for i in range(nodes)})


def wide(nodes: int) -> Graph:
    """One convergence that reads all other nodes, neighbours among them sharing a source."""
    inputs = {f"n{i}": (f"s{i}", f"s{i + 1}") for i in range(nodes - 1)}
    return Graph({**inputs, "all": tuple(inputs)})


def two_tiers(nodes: int) -> Graph:
    """As in a warehouse: half of the nodes tidy a source each, the others read four of these, from one subject area."""
    chance, half = random.Random(1), nodes // 2
    inputs: dict[str, tuple[str, ...]] = {f"a{i}": (f"s{i // 4}",) for i in range(half)}
    for index in range(half):
        first = chance.randrange(max(1, half - 20))
        inputs[f"b{index}"] = tuple(f"a{first + chance.randrange(20)}" for _ in range(4))
    return Graph(inputs)


def rungs(nodes: int) -> Graph:
    """Diamonds one after another, each with a source more, all of which pass every rung: the answer is quadratic."""
    inputs: dict[str, tuple[str, ...]] = {}
    last = "s"
    for index in range(nodes // 3):
        inputs |= {f"a{index}": (last, f"s{index}"), f"b{index}": (last, f"s{index}")}
        last = f"c{index}"
        inputs[last] = (f"a{index}", f"b{index}")
    return Graph(inputs)


def layers(nodes: int) -> Graph:
    """Layers of three nodes, each reading all three before: every group goes down to the source, a quadratic answer."""
    inputs: dict[str, tuple[str, ...]] = {f"n0_{k}": ("s",) for k in range(3)}
    for layer in range(1, nodes // 3):
        inputs |= {f"n{layer}_{k}": tuple(f"n{layer - 1}_{j}" for j in range(3)) for k in range(3)}
    return Graph(inputs)


LINEAR_ANSWER = (ladder, many_sources, gathering, wide, two_tiers)
QUADRATIC_ANSWER = (rungs, layers)
