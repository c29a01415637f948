"""The graph: order, reach, depth, trees, cycles."""

from __future__ import annotations

import pytest

from anabranch.errors import StateError
from anabranch.graph.dag import Graph, tree_lines

SALES = Graph({"region": ("sales",), "product": ("sales",), "summary": ("region", "product")})


def test_tables_that_are_no_nodes_are_sources() -> None:
    assert SALES.sources == ("sales",)
    assert SALES.sources_below("summary") == {"sales"}
    assert SALES.sources_below("sales") == {"sales"}


def test_order_has_inputs_before_readers_and_keeps_the_order_given() -> None:
    graph = Graph({"last": ("b", "a"), "b": ("s",), "a": ("s",)})
    assert graph.order == ("b", "a", "last")
    assert SALES.order == ("region", "product", "summary")


def test_an_input_named_twice_is_one_edge() -> None:
    assert Graph({"a": ("s", "s")}).inputs == {"a": ("s",)}


def test_ancestors_and_descendants_are_nodes_without_the_table_itself() -> None:
    assert SALES.ancestors("summary") == {"region", "product"}
    assert SALES.descendants("sales") == {"region", "product", "summary"}
    assert SALES.descendants("summary") == frozenset()
    assert SALES.ancestors("sales") == frozenset()


def test_levels_count_the_longest_way_up() -> None:
    graph = Graph({"a": ("s",), "b": ("a", "s"), "constant": ()})
    assert graph.levels == {"s": 0, "a": 1, "b": 2, "constant": 1}


def test_a_cycle_is_refused_with_its_path() -> None:
    with pytest.raises(StateError) as caught:
        Graph({"x": ("s",), "a": ("x", "c"), "b": ("a",), "c": ("b",), "below": ("c",)}, {"a": "Alpha"})
    assert caught.value.code == "CYCLE"
    assert caught.value.detail == "The cycle is Alpha -> b -> c -> Alpha."


def test_a_node_that_reads_itself_is_a_cycle() -> None:
    with pytest.raises(StateError, match="computed from itself"):
        Graph({"a": ("a",)})


def test_the_tree_shares_what_is_reached_twice_and_prints_it_once() -> None:
    graph = SALES.with_node("top", ("summary", "region"), "Top")
    tree = graph.tree("top")
    assert tree.inputs[0].inputs[0] is tree.inputs[1]
    assert tree_lines(tree, graph.names) == (
        "Top",
        "  summary",
        "    region",
        "      sales",
        "    product",
        "      sales",
        "  region (see above)",
    )


def test_a_node_taken_out_of_the_graph_is_a_source_for_its_readers() -> None:
    assert SALES.without(["region"]).sources == ("sales", "region")


def test_depth_is_no_limit() -> None:
    count = 3000
    graph = Graph({f"n{i}": (f"n{i - 1}" if i else "s",) for i in range(count)})
    assert len(graph.ancestors(f"n{count - 1}")) == count - 1
    assert graph.levels[f"n{count - 1}"] == count
    assert len(tree_lines(graph.tree(f"n{count - 1}"), {})) == count + 1
