"""Frontiers: which state of the sources, and which definitions, a table reflects.

    agree(F1 .. Fn)  <=>  Fi[s] = Fj[s] for every source s in both; so for every node's generation and the clock
    merge(F1 .. Fn)   =   their union, defined where they agree

A node computed from inputs that agree therefore reflects one version of each source and one definition of each node.
Example: {sales: 5} and {sales: 5, rates: 3} agree and merge to {sales: 5, rates: 3}; {sales: 5} and {sales: 7} do not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from anabranch.store.protocol import Version

CLOCK = "clock"
"""Time as a source: the id under which graphs and texts know it."""

DATE_LENGTH = len("2026-05-01")

THIS_COMMIT = Version(-1)
"""What was written or moved in the very commit that stores the frontier: its number comes later (`settled_at`)."""


@dataclass(frozen=True)
class Frontier:
    """What a table reflects.

    `sources`: per source, the last snapshot that changed it and is reflected. `generations`: per node below, the
    generation of its definition. `inputs`: per direct input, the snapshot that was read. `clock`: the date or the
    instant that the queries below saw, `2026-05-01` or `2026-05-01T10:00:00`, in the lake's time zone.
    """

    sources: Mapping[str, Version] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, Version] = field(default_factory=dict)
    clock: str | None = None

    def reflects_same(self, other: Frontier) -> bool:
        """Whether both stand for the same rows; which snapshots were read to get there does not matter."""
        return (self.sources, self.generations, self.clock) == (other.sources, other.generations, other.clock)

    def seen_by_readers(self, node: str, generation: int) -> Frontier:
        """What a reader of this node takes over: all that the node reflects, and the node's own definition."""
        return Frontier(self.sources, {**self.generations, node: generation}, {}, self.clock)

    def settled_at(self, committed: Version) -> Frontier:
        """The frontier once the commit that stores it has a number."""

        def settled(versions: Mapping[str, Version]) -> dict[str, Version]:
            return {table: committed if at == THIS_COMMIT else at for table, at in versions.items()}

        return replace(self, sources=settled(self.sources), inputs=settled(self.inputs))

    @property
    def oldest_read(self) -> Version | None:
        """The oldest snapshot that the next change is read from; the lake must keep it."""
        return min((at for at in self.inputs.values() if at != THIS_COMMIT), default=None)


@dataclass(frozen=True)
class Disagreement:
    """Two inputs that do not agree on one table: `values` names what each input reflects, None for nothing of it.

    `kind` says what the table is: a source, a node, the clock; or `missing`, an input that was never refreshed,
    and `gone`, a source that does not exist at the pinned snapshot.
    """

    kind: str
    table: str
    values: tuple[tuple[str, str | None], ...]

    def text(self, names: Mapping[str, str]) -> str:
        """For people: which input reflects what."""
        if self.kind == "missing":
            return f'"{names.get(self.table, self.table)}" was never refreshed'
        if self.kind == "gone":
            return f'"{names.get(self.table, self.table)}" is not there any more'
        noun = {"source": "version", "node": "definition", "clock": "time"}[self.kind]
        parts = [f'"{names.get(each, each)}" reflects {f"{noun} {at}" if at else "none"}' for each, at in self.values]
        return f'of "{names.get(self.table, self.table)}", ' + " and ".join(parts)


def agree(
    frontiers: Mapping[str, Frontier], sources_below: Callable[[str], frozenset[str]] | None = None
) -> Disagreement | None:
    """The first thing on which inputs differ, or None.

    `frontiers` is what each input hands to its readers. With `sources_below`, an input that does not reflect a source
    that it is computed from, as after the source was replaced, differs from one that does.
    """
    if len(frontiers) < 2:
        return None
    return (
        _first_difference("source", {each: frontier.sources for each, frontier in frontiers.items()})
        or _first_difference("node", {each: frontier.generations for each, frontier in frontiers.items()})
        or _clocks_differ(frontiers)
        or (_source_missing(frontiers, sources_below) if sources_below else None)
    )


def merge(frontiers: Iterable[Frontier], inputs: Mapping[str, Version] | None = None) -> Frontier:
    """The union of frontiers that agree, read at the snapshots `inputs`."""
    sources: dict[str, Version] = {}
    generations: dict[str, int] = {}
    clock: str | None = None
    for frontier in frontiers:
        sources.update(frontier.sources)
        generations.update(frontier.generations)
        clock = finer_clock(clock, frontier.clock)
    return Frontier(sources, generations, dict(inputs or {}), clock)


def finer_clock(one: str | None, other: str | None) -> str | None:
    """Of two clocks that agree, the instant rather than the date."""
    return max(one or "", other or "", key=len) or None


def to_json(frontier: Frontier) -> str:
    """The frontier as text, always the same for equal frontiers."""
    document = {
        "sources": {table: version.number for table, version in frontier.sources.items()},
        "generations": dict(frontier.generations),
        "inputs": {table: version.number for table, version in frontier.inputs.items()},
        "clock": frontier.clock,
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


@lru_cache(maxsize=4096)
def from_json(text: str) -> Frontier:
    """The frontier that `to_json` wrote."""
    document: dict[str, Any] = json.loads(text)
    return Frontier(
        {table: Version(number) for table, number in document["sources"].items()},
        dict(document["generations"]),
        {table: Version(number) for table, number in document["inputs"].items()},
        document["clock"],
    )


def _first_difference(kind: str, maps: Mapping[str, Mapping[str, object]]) -> Disagreement | None:
    seen: dict[str, tuple[str, object]] = {}
    for each, values in maps.items():
        for table, value in values.items():
            other, first = seen.setdefault(table, (each, value))
            if first != value:
                return Disagreement(kind, table, ((other, str(first)), (each, str(value))))
    return None


def _clocks_differ(frontiers: Mapping[str, Frontier]) -> Disagreement | None:
    """A date agrees with every instant of that day, an instant only with itself."""
    clocks = [(each, frontier.clock) for each, frontier in frontiers.items() if frontier.clock is not None]
    for each, clock in clocks:
        for other, finer in clocks:
            if len(clock) <= len(finer) and clock != (finer[:DATE_LENGTH] if len(clock) == DATE_LENGTH else finer):
                return Disagreement("clock", CLOCK, ((each, clock), (other, finer)))
    return None


def _source_missing(
    frontiers: Mapping[str, Frontier], sources_below: Callable[[str], frozenset[str]]
) -> Disagreement | None:
    for each, frontier in frontiers.items():
        missing = sources_below(each) - frontier.sources.keys() - {CLOCK}
        for other, found in frontiers.items() if missing else ():
            for source in sorted(missing & found.sources.keys()):
                return Disagreement("source", source, ((each, None), (other, str(found.sources[source]))))
    return None
