"""The graph as shapes: boxes with their cards, edges as curves, those inside a diamond marked."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.observe.web.cards import Card, card_of
from anabranch.observe.web.layout import Layout, Place, layout
from anabranch.observe.web.model import LakeView, SourceView


@dataclass(frozen=True)
class Box:
    """A card at its place."""

    card: Card
    place: Place


@dataclass(frozen=True)
class Curve:
    """An edge: the SVG path, and whether it lies inside a diamond."""

    path: str
    in_diamond: bool


@dataclass(frozen=True)
class Drawing:
    """All that the template draws, boxes from left to right and from top to bottom: the order of the Tab key."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    curves: tuple[Curve, ...]


def draw(view: LakeView) -> Drawing:
    """The drawing of a lake."""
    placed = layout(*view.shape)
    found = (Box(card_of(view.by_key[name.lower()]), place) for name, place in _existing(view, placed))
    boxes = tuple(sorted(found, key=lambda box: (box.place.layer, box.place.row)))
    inside = _inside_diamonds(view)
    curves = tuple(Curve(_curve(edge.points), (edge.source, edge.target) in inside) for edge in placed.edges)
    return Drawing(placed.width, placed.height, boxes, curves)


def _existing(view: LakeView, placed: Layout) -> list[tuple[str, Place]]:
    """A table that a query reads and that was dropped has a place, so that its edges lead somewhere, and no box."""
    return [(name, place) for name, place in placed.places.items() if name.lower() in view.by_key]


def _inside_diamonds(view: LakeView) -> set[tuple[str, str]]:
    """Edges between the members, the end and the tables at which the paths part."""
    inside: set[tuple[str, str]] = set()
    for diamond in view.diamonds:
        nodes = {*diamond.members, diamond.convergence}
        for name in nodes:
            table = view.by_key.get(name.lower())
            if table is None or isinstance(table, SourceView):
                continue
            inside |= {
                (each, name)
                for each in table.inputs
                if each in nodes or each in diamond.shared_sources or _parts_at(view, each, nodes)
            }
    return inside


def _parts_at(view: LakeView, table: str, nodes: set[str]) -> bool:
    return sum(reader in nodes for reader in view.readers.get(table, ())) > 1


def _curve(points: tuple[tuple[float, float], ...]) -> str:
    (x, y), *others = points
    pieces = [f"M{x:g} {y:g}"]
    for next_x, next_y in others:
        if next_y == y:
            pieces.append(f"H{next_x:g}")
        else:
            middle = (x + next_x) / 2
            pieces.append(f"C{middle:g} {y:g} {middle:g} {next_y:g} {next_x:g} {next_y:g}")
        x, y = next_x, next_y
    return " ".join(pieces)
