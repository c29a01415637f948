"""Where the tables of a graph are drawn: in layers from left to right, sources first.

    layer(table) = 0 for a source, else 1 + the largest layer of its inputs

An edge that passes layers gets a *bend* in each of them, so that it goes around tables instead of through them. Within
a layer, tables and bends are ordered by sweeps: each stands at the mean place of its neighbours in the layer before,
then in the one after, and the order with the fewest crossings wins. Then each moves as near to its neighbours' height
as the order allows. Deterministic, and quick: 500 tables take a fraction of a second.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

TABLE_WIDTH = 256.0
TABLE_HEIGHT = 88.0
LAYER_GAP = 80.0
ROW_GAP = 22.0
BEND_HEIGHT = 14.0
MARGIN = 20.0
_SWEEPS = 6
_SETTLES = 16

Inputs = tuple[tuple[str, tuple[str, ...]], ...]
_Bend = tuple[str, str, int]
_Item = str | _Bend


@dataclass(frozen=True)
class Place:
    """The upper left corner of a table; `layer` and `row` count from 0, for the arrow keys."""

    x: float
    y: float
    layer: int
    row: int


@dataclass(frozen=True)
class Edge:
    """From a table to one that reads it, through points at the bends."""

    source: str
    target: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Layout:
    """A whole drawing."""

    width: float
    height: float
    places: Mapping[str, Place]
    edges: tuple[Edge, ...]


@lru_cache(maxsize=8)
def layout(sources: tuple[str, ...], inputs: Inputs) -> Layout:
    """Lay out the graph of these sources and nodes."""
    reads = {name: tuple(dict.fromkeys(tables)) for name, tables in inputs}
    known = [*sources, *(table for tables in reads.values() for table in tables), *reads]
    tables = list(dict.fromkeys(known))
    layer_of = _layers(tables, reads)
    items, neighbours = _with_bends(tables, reads, layer_of)
    ordered = _ordered(items, neighbours)
    heights = _settled(ordered, neighbours)
    return _drawn(ordered, heights, reads, layer_of)


def _layers(tables: Sequence[str], reads: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for start in tables:
        stack = [start]
        while stack:
            table = stack[-1]
            missing = [each for each in reads.get(table, ()) if each not in found]
            if table not in found and missing:
                stack.extend(missing)
                continue
            found[table] = 1 + max((found[each] for each in reads.get(table, ())), default=-1)
            stack.pop()
    return found


@dataclass(frozen=True)
class _Neighbours:
    before: Mapping[_Item, Sequence[_Item]]
    after: Mapping[_Item, Sequence[_Item]]


def _with_bends(
    tables: Sequence[str], reads: Mapping[str, tuple[str, ...]], layer_of: Mapping[str, int]
) -> tuple[list[list[_Item]], _Neighbours]:
    layers: list[list[_Item]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    before: dict[_Item, list[_Item]] = {}
    after: dict[_Item, list[_Item]] = {}
    for table in tables:
        layers[layer_of[table]].append(table)
    for target, sources in reads.items():
        for source in sources:
            previous: _Item = source
            for number in range(layer_of[source] + 1, layer_of[target] + 1):
                item: _Item = target if number == layer_of[target] else (source, target, number)
                if isinstance(item, tuple):
                    layers[number].append(item)
                after.setdefault(previous, []).append(item)
                before.setdefault(item, []).append(previous)
                previous = item
    return layers, _Neighbours(before, after)


def _ordered(layers: list[list[_Item]], neighbours: _Neighbours) -> list[list[_Item]]:
    best, fewest = layers, _crossings(layers, neighbours)
    current = [list(layer) for layer in layers]
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        beside = neighbours.before if forward else neighbours.after
        for number in range(1, len(current)) if forward else range(len(current) - 2, -1, -1):
            place = {item: index for index, item in enumerate(current[number - 1 if forward else number + 1])}
            current[number] = _by_mean(current[number], beside, place)
        crossings = _crossings(current, neighbours)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in current], crossings
    return best


def _by_mean(
    layer: Sequence[_Item], beside: Mapping[_Item, Sequence[_Item]], place: Mapping[_Item, int]
) -> list[_Item]:
    means: dict[_Item, float] = {}
    for index, item in enumerate(layer):
        around = [place[each] for each in beside.get(item, ()) if each in place]
        means[item] = sum(around) / len(around) if around else float(index)
    return sorted(layer, key=means.__getitem__)


def _crossings(layers: list[list[_Item]], neighbours: _Neighbours) -> int:
    """How many pairs of edges cross: inversions, counted by insertion into a sorted list."""
    total = 0
    for number in range(1, len(layers)):
        place = {item: index for index, item in enumerate(layers[number - 1])}
        seen: list[int] = []
        for item in layers[number]:
            ends = sorted(place[each] for each in neighbours.before.get(item, ()))
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total


def _settled(layers: list[list[_Item]], neighbours: _Neighbours) -> dict[_Item, float]:
    """The height of each item's middle: near its neighbours, never nearer to the next one than it may be."""
    middle: dict[_Item, float] = {}
    for layer in layers:
        y = 0.0
        for item in layer:
            middle[item] = y + _height(item) / 2
            y += _height(item) + ROW_GAP
    for turn in range(_SETTLES):
        order = layers if turn % 2 == 0 else layers[::-1]
        for layer in order:
            wished = []
            for item in layer:
                around = [middle[each] for each in (*neighbours.before.get(item, ()), *neighbours.after.get(item, ()))]
                wished.append(sum(around) / len(around) if around else middle[item])
            for item, y in zip(layer, _apart(layer, wished), strict=True):
                middle[item] = y
    lowest = min((y - _height(item) / 2 for item, y in middle.items()), default=0.0)
    return {item: y - lowest + MARGIN for item, y in middle.items()}


def _apart(layer: Sequence[_Item], wished: Sequence[float]) -> list[float]:
    """The heights nearest to the wished ones that keep order and distance.

    With the distances taken off, that is the nearest rising sequence: neighbours that would fall are pooled, and stand
    at the mean of what they wish.
    """
    offsets, total = [], 0.0
    for index, item in enumerate(layer):
        if index:
            total += (_height(layer[index - 1]) + _height(item)) / 2 + ROW_GAP
        offsets.append(total)
    pools: list[tuple[float, int]] = []
    for wish, offset in zip(wished, offsets, strict=True):
        mean, count = wish - offset, 1
        while pools and pools[-1][0] > mean:
            other, members = pools.pop()
            mean, count = (mean * count + other * members) / (count + members), count + members
        pools.append((mean, count))
    bases = [mean for mean, count in pools for _ in range(count)]
    return [base + offset for base, offset in zip(bases, offsets, strict=True)]


def _drawn(
    layers: list[list[_Item]],
    middle: Mapping[_Item, float],
    reads: Mapping[str, tuple[str, ...]],
    layer_of: Mapping[str, int],
) -> Layout:
    places: dict[str, Place] = {}
    for number, layer in enumerate(layers):
        tables = [item for item in layer if isinstance(item, str)]
        for row, table in enumerate(tables):
            y = round(middle[table] - TABLE_HEIGHT / 2, 1)
            places[table] = Place(_left(number), y, number, row)
    edges = tuple(
        Edge(source, target, _points(source, target, middle, layer_of))
        for target, sources in reads.items()
        for source in sources
    )
    bottom = max((y + _height(item) / 2 for item, y in middle.items()), default=0.0)
    width = _left(max(len(layers) - 1, 0)) + TABLE_WIDTH + MARGIN
    return Layout(width, round(bottom + MARGIN, 1), places, edges)


def _points(
    source: str, target: str, middle: Mapping[_Item, float], layer_of: Mapping[str, int]
) -> tuple[tuple[float, float], ...]:
    points = [(_left(layer_of[source]) + TABLE_WIDTH, middle[source])]
    for number in range(layer_of[source] + 1, layer_of[target]):
        y = middle[(source, target, number)]
        points += [(_left(number), y), (_left(number) + TABLE_WIDTH, y)]
    points.append((_left(layer_of[target]), middle[target]))
    return tuple((round(x, 1), round(y, 1)) for x, y in points)


def _left(layer: int) -> float:
    return MARGIN + layer * (TABLE_WIDTH + LAYER_GAP)


def _height(item: _Item) -> float:
    return TABLE_HEIGHT if isinstance(item, str) else BEND_HEIGHT
