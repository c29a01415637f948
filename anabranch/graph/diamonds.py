"""Diamonds: paths from one source that part and meet again.

    C is a convergence of source s    <=>  two or more inputs of C are computed from s, or are s
    split(s, C)                        =   the last table that every path from s to C passes
    members(C)                         =   the nodes strictly between split(s, C) and C, over all such s

Found by walking back from each convergence, the tables nearest to it first. The *edge of the walk* is the set of tables
reached and not yet visited. Every path from s to C crosses it, so as soon as one table alone holds s, every path passes
that table: it is the split of s, and s is followed no further. Nothing beyond the splits is visited, no path is listed:
nodes and edges of the whole graph are seen once, those of the answer once for each group that they are in. A set of
sources is one integer, a bit for each, so that a step with thousands of sources costs hardly more than one with few
(`python -m tests.graph.growth` measures it on several shapes).

Example: sales -> region, product -> summary. The walk from summary reaches {region, product}, both from sales; then
{sales}, which alone holds sales: the split. Members: region, product.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from anabranch.graph.dag import Graph


@dataclass(frozen=True)
class Split:
    """A table at which paths part, and the sources whose last common table it is."""

    table: str
    sources: tuple[str, ...]


@dataclass(frozen=True)
class DiamondGroup:
    """A convergence and the nodes between it and the splits, inputs before readers."""

    convergence: str
    members: tuple[str, ...]
    splits: tuple[Split, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Members and convergence."""
        return (*self.members, self.convergence)

    @property
    def split_points(self) -> tuple[str, ...]:
        """The tables at which paths part."""
        return tuple(split.table for split in self.splits)

    @property
    def shared_sources(self) -> tuple[str, ...]:
        """The sources that reach the convergence by more than one path."""
        return tuple(dict.fromkeys(source for split in self.splits for source in split.sources))


@lru_cache(maxsize=32)
def groups_of(graph: Graph) -> tuple[DiamondGroup, ...]:
    """`find_groups`, remembered: a scheduler asks for the same graph at every tick."""
    return find_groups(graph)


def find_groups(graph: Graph, on_step: Callable[[], None] | None = None) -> tuple[DiamondGroup, ...]:
    """Every diamond group, in the order of the convergences. `on_step` is told of each edge looked at."""
    found = (_group_at(graph, node, on_step) for node in graph.order)
    return tuple(group for group in found if group is not None)


def find_group(graph: Graph, node: str) -> DiamondGroup | None:
    """The group whose convergence is the node, or None."""
    return _group_at(graph, node, None)


def announcement(group: DiamondGroup, names: Mapping[str, str], atomic: bool = True) -> str:
    """What creation says about a new diamond."""

    def quoted(tables: tuple[str, ...]) -> str:
        return ", ".join(f'"{names.get(table, table)}"' for table in tables)

    promise = (
        "refreshes will keep their frontiers equal"
        if atomic
        else "each is refreshed on its own schedule, and the convergence only where their frontiers are equal"
    )
    return (
        f"stream table {quoted((group.convergence,))} creates a diamond dependency via "
        f"{quoted(group.split_points)} -> [{quoted(group.members)}]; {promise}"
    )


def _group_at(graph: Graph, convergence: str, on_step: Callable[[], None] | None) -> DiamondGroup | None:
    once = shared = 0
    for table in graph.inputs[convergence]:
        bits = graph.source_bits[table]
        shared |= once & bits
        once |= bits
        if on_step:
            on_step()
    return _walk_back(graph, convergence, shared, on_step) if shared else None


def _walk_back(graph: Graph, convergence: str, shared: int, on_step: Callable[[], None] | None) -> DiamondGroup:
    edge = _Edge(graph)
    edge.reach_inputs_of(convergence, shared)
    members: list[str] = []
    splits: list[Split] = []
    while edge:
        table, held, held_alone = edge.nearest()
        if held_alone:
            splits.append(Split(table, graph.sources_of_bits(held_alone)))
        if held & ~held_alone:
            members.append(table)
            edge.reach_inputs_of(table, held & ~held_alone)
        if on_step:
            on_step()
            for _ in graph.inputs.get(table, ()):
                on_step()
    return DiamondGroup(convergence, tuple(reversed(members)), tuple(reversed(splits)))


class _Edge:
    """The edge of one walk: per table reached, the sources (as bits) followed through it."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._held: dict[str, int] = {}
        self._nearest_first: list[tuple[int, str]] = []
        self._tables_per_source = _Tally()

    def __bool__(self) -> bool:
        return bool(self._held)

    def reach_inputs_of(self, node: str, sources: int) -> None:
        """Follow the sources from a node to those of its inputs that hold them."""
        for table in self._graph.inputs[node]:
            bits = self._graph.source_bits[table] & sources
            if not bits:
                continue
            known = self._held.get(table)
            if known is None:
                heapq.heappush(self._nearest_first, (-self._graph.position[table], table))
            self._tables_per_source.add(bits & ~(known or 0))
            self._held[table] = bits | (known or 0)

    def nearest(self) -> tuple[str, int, int]:
        """Take out the table nearest to the convergence: it, the sources it holds, those that it alone holds."""
        _, table = heapq.heappop(self._nearest_first)
        held = self._held.pop(table)
        held_alone = held & self._tables_per_source.exactly_one()
        self._tables_per_source.remove(held)
        return table, held, held_alone


class _Tally:
    """A counter per bit, all counted at once: `_digits[i]` holds the i-th binary digit of every counter."""

    def __init__(self) -> None:
        self._digits: list[int] = [0]

    def add(self, bits: int) -> None:
        """Count these bits once more."""
        index = 0
        while bits:
            if index == len(self._digits):
                self._digits.append(0)
            digit = self._digits[index]
            self._digits[index], bits = digit ^ bits, digit & bits
            index += 1

    def remove(self, bits: int) -> None:
        """Count these bits once less."""
        index = 0
        while bits:
            digit = self._digits[index]
            self._digits[index], bits = digit ^ bits, ~digit & bits
            index += 1

    def exactly_one(self) -> int:
        """The bits counted once."""
        more = 0
        for digit in self._digits[1:]:
            more |= digit
        return self._digits[0] & ~more
