"""The graph of tables: which table is computed from which.

A node is a stream table; a table that is read but is no node is a source. The graph is a value: it never changes, and
one with a cycle cannot be built. Walks are loops, never recursion, so depth is no limit.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from anabranch.errors import StateError


@dataclass(frozen=True)
class Dependency:
    """A table and what it is computed from; a table reached twice is one object."""

    table: str
    inputs: tuple[Dependency, ...] = ()


@dataclass(frozen=True)
class Graph:
    """Tables by id: `inputs[node]` are the tables that the node's query reads. `names` serve texts only."""

    inputs: Mapping[str, tuple[str, ...]]
    names: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        unique = {node: tuple(dict.fromkeys(tables)) for node, tables in self.inputs.items()}
        object.__setattr__(self, "inputs", unique)
        self.order  # noqa: B018  a cycle is refused here, where the graph is built

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(self.inputs.items()))

    def name(self, table: str) -> str:
        """The table's name, or its id where no name is known."""
        return self.names.get(table, table)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Tables that are read but are no nodes, in the order in which they are first read."""
        return tuple(
            dict.fromkeys(table for tables in self.inputs.values() for table in tables if table not in self.inputs)
        )

    @cached_property
    def readers(self) -> dict[str, tuple[str, ...]]:
        """Per table, the nodes whose queries read it."""
        found: dict[str, list[str]] = {table: [] for table in (*self.sources, *self.inputs)}
        for node, tables in self.inputs.items():
            for table in tables:
                found[table].append(node)
        return {table: tuple(nodes) for table, nodes in found.items()}

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The nodes, inputs before readers; where that leaves a choice, in the order given."""
        rank = {node: index for index, node in enumerate(self.inputs)}
        missing = {node: sum(table in self.inputs for table in tables) for node, tables in self.inputs.items()}
        ready = [rank[node] for node, count in missing.items() if count == 0]
        nodes = tuple(self.inputs)
        ordered: list[str] = []
        while ready:
            node = nodes[heapq.heappop(ready)]
            ordered.append(node)
            for reader in self.readers[node]:
                missing[reader] -= 1
                if missing[reader] == 0:
                    heapq.heappush(ready, rank[reader])
        if len(ordered) < len(nodes):
            raise self._cycle_error({node for node, count in missing.items() if count > 0})
        return tuple(ordered)

    def _cycle_error(self, unordered: set[str]) -> StateError:
        """Every unordered node reads another one, so following inputs among them must come back."""
        path = [next(node for node in self.inputs if node in unordered)]
        while path[-1] not in path[:-1]:
            path.append(next(table for table in self.inputs[path[-1]] if table in unordered))
        cycle = list(reversed(path[path.index(path[-1]) :]))
        shown = " -> ".join(self.name(node) for node in cycle)
        return StateError(
            "CYCLE",
            f'stream table "{self.name(cycle[0])}" would be computed from itself',
            f"The cycle is {shown}.",
            "Let one of these queries read another table.",
        )

    @cached_property
    def position(self) -> dict[str, int]:
        """Per table, its place in one order of all tables: sources first, then the nodes as in `order`."""
        return {table: place for place, table in enumerate((*self.sources, *self.order))}

    @cached_property
    def levels(self) -> dict[str, int]:
        """Per table, its depth: 0 for a source, for a node one more than its deepest input."""
        depth = dict.fromkeys(self.sources, 0)
        for node in self.order:
            depth[node] = 1 + max((depth[table] for table in self.inputs[node]), default=0)
        return depth

    @cached_property
    def source_bits(self) -> dict[str, int]:
        """Per table, the sources below it as a bit set: bit i stands for `sources[i]`. A source has its own bit."""
        bits = {source: 1 << index for index, source in enumerate(self.sources)}
        for node in self.order:
            found = 0
            for table in self.inputs[node]:
                found |= bits[table]
            bits[node] = found
        return bits

    def sources_of_bits(self, bits: int) -> tuple[str, ...]:
        """The sources that a bit set stands for, in the order of `sources`."""
        found = []
        while bits:
            lowest = bits & -bits
            found.append(self.sources[lowest.bit_length() - 1])
            bits ^= lowest
        return tuple(found)

    def sources_below(self, table: str) -> frozenset[str]:
        """The sources from which the table is computed; of a source, itself."""
        return self._remembered("sources", table, lambda: self.sources_of_bits(self.source_bits[table]))

    def ancestors(self, table: str) -> frozenset[str]:
        """The nodes from which the table is computed, directly or not; itself excluded."""
        return self._remembered("ancestors", table, lambda: self.inputs.keys() & _reach((table,), self.inputs))

    def descendants(self, table: str) -> frozenset[str]:
        """The nodes computed from the table, directly or not; itself excluded."""
        return self._remembered("descendants", table, lambda: _reach((table,), self.readers))

    def descendants_of_any(self, tables: Iterable[str]) -> frozenset[str]:
        """The nodes computed from at least one of the tables, in one walk."""
        return frozenset(_reach(tables, self.readers))

    @cached_property
    def _known(self) -> dict[tuple[str, str], frozenset[str]]:
        return {}

    def _remembered(self, kind: str, table: str, find: Callable[[], Iterable[str]]) -> frozenset[str]:
        known = self._known.get((kind, table))
        if known is None:
            known = self._known[kind, table] = frozenset(find())
        return known

    def tree(self, table: str) -> Dependency:
        """What the table is computed from, down to the sources."""
        wanted = self.ancestors(table) | {table}
        made: dict[str, Dependency] = {}
        for node in (each for each in self.order if each in wanted):
            made[node] = Dependency(node, tuple(made.get(each) or Dependency(each) for each in self.inputs[node]))
        return made.get(table) or Dependency(table)

    def with_node(self, node: str, inputs: Iterable[str], name: str | None = None) -> Graph:
        """The graph with one node added, or reading other tables."""
        names = {**self.names, node: name} if name is not None else self.names
        return Graph({**self.inputs, node: tuple(inputs)}, names)

    def without(self, nodes: Iterable[str]) -> Graph:
        """The graph with these nodes gone; where others still read them, they are sources now."""
        gone = frozenset(nodes)
        return Graph({node: tables for node, tables in self.inputs.items() if node not in gone}, self.names)


def tree_lines(root: Dependency, names: Mapping[str, str]) -> tuple[str, ...]:
    """A dependency tree as text, one table a line. What stands above already is not repeated: `(see above)`."""
    lines: list[str] = []
    shown: set[str] = set()
    open_: list[tuple[Dependency, int]] = [(root, 0)]
    while open_:
        dependency, depth = open_.pop()
        again = dependency.table in shown and bool(dependency.inputs)
        shown.add(dependency.table)
        lines.append("  " * depth + names.get(dependency.table, dependency.table) + (" (see above)" if again else ""))
        if not again:
            open_.extend((each, depth + 1) for each in reversed(dependency.inputs))
    return tuple(lines)


def _reach(tables: Iterable[str], edges: Mapping[str, tuple[str, ...]]) -> set[str]:
    found: set[str] = set()
    open_ = [each for table in tables for each in edges.get(table, ())]
    while open_:
        each = open_.pop()
        if each not in found:
            found.add(each)
            open_.extend(edges.get(each, ()))
    return found
