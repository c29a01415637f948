"""The drawing of any graph: everything has its place, nothing overlaps, edges lead to the right."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.observe.web.drawing import draw
from anabranch.observe.web.layout import ROW_GAP, TABLE_HEIGHT, TABLE_WIDTH, Layout, layout
from tests.web.synthetic import large, shop


def random_graph(seed: int) -> Layout:
    rng = Random(seed)
    sources = tuple(f"s{number}" for number in range(rng.randrange(1, 6)))
    known, inputs = list(sources), []
    for number in range(rng.randrange(30)):
        chosen = tuple(rng.choice(known) for _ in range(rng.randrange(4)))
        inputs.append((f"n{number}", chosen))
        known.append(f"n{number}")
    rng.shuffle(inputs)
    return layout(sources, tuple(inputs))


def check(drawn: Layout) -> None:
    for edge in drawn.edges:
        source, target = drawn.places[edge.source], drawn.places[edge.target]
        assert edge.points[0] == (source.x + TABLE_WIDTH, round(source.y + TABLE_HEIGHT / 2, 1))
        assert edge.points[-1] == (target.x, round(target.y + TABLE_HEIGHT / 2, 1))
        across = [x for x, _ in edge.points]
        assert across == sorted(across)
        assert source.layer < target.layer
    columns: dict[int, list[float]] = {}
    for place in drawn.places.values():
        columns.setdefault(place.layer, []).append(place.y)
        assert 0 <= place.x <= drawn.width - TABLE_WIDTH
        assert 0 <= place.y <= drawn.height - TABLE_HEIGHT
    for heights in columns.values():
        heights.sort()
        apart = [later - earlier for earlier, later in pairwise(heights)]
        assert all(each >= TABLE_HEIGHT + ROW_GAP - 0.2 for each in apart)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 10**9))
def test_any_graph_has_a_place_for_everything(seed: int) -> None:
    check(random_graph(seed))


def test_large_graphs_too() -> None:
    check(layout(*large(500).shape))


def test_a_diamond_stands_level() -> None:
    drawn = layout(("sales",), (("a", ("sales",)), ("b", ("sales",)), ("end", ("a", "b"))))
    assert abs(drawn.places["sales"].y - drawn.places["end"].y) < 0.5
    assert [drawn.places[name].layer for name in ("sales", "a", "b", "end")] == [0, 1, 1, 2]


def test_a_long_edge_goes_around_what_lies_between() -> None:
    drawn = layout(("s",), (("a", ("s",)), ("b", ("a",)), ("end", ("b", "s"))))
    (around,) = (edge for edge in drawn.edges if (edge.source, edge.target) == ("s", "end"))
    for name in ("a", "b"):
        place = drawn.places[name]
        heights = [y for x, y in around.points if place.x <= x <= place.x + TABLE_WIDTH]
        assert len(heights) == 2
        assert all(y < place.y or y > place.y + TABLE_HEIGHT for y in heights)


def test_edges_do_not_cross_where_they_need_not() -> None:
    drawn = layout(("s1", "s2"), (("b", ("s2",)), ("a", ("s1",))))
    assert (drawn.places["s1"].y < drawn.places["s2"].y) == (drawn.places["a"].y < drawn.places["b"].y)


def test_a_lake_without_tables_is_drawn() -> None:
    assert layout((), ()).places == {}


def test_edges_of_a_diamond_are_marked_and_no_others() -> None:
    view = shop()
    drawn = draw(view)
    placed = layout(*view.shape)
    marked = {(e.source, e.target) for e, c in zip(placed.edges, drawn.curves, strict=True) if c.in_diamond}
    assert marked == {
        ("sales", "revenue_by_region"),
        ("sales", "revenue_by_product"),
        ("revenue_by_region", "exec_summary"),
        ("revenue_by_product", "exec_summary"),
    }
