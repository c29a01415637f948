"""Frontiers: agreement is pairwise equality on what is shared; text form is exact."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from anabranch.graph.frontier import THIS_COMMIT, Frontier, agree, from_json, merge, to_json
from anabranch.store.protocol import Version

VERSIONS = st.integers(0, 3).map(Version)
TABLES = st.sampled_from(["s1", "s2", "s3"])
DAY, INSTANT, LATER, NEXT_DAY = "2026-05-01", "2026-05-01T10:00:00", "2026-05-01T10:00:00.5", "2026-05-02"
CLOCK_AGREES = {
    None: {None, DAY, INSTANT, LATER, NEXT_DAY},
    DAY: {None, DAY, INSTANT, LATER},
    INSTANT: {None, DAY, INSTANT},
    LATER: {None, DAY, LATER},
    NEXT_DAY: {None, NEXT_DAY},
}
FRONTIERS = st.builds(
    Frontier,
    st.dictionaries(TABLES, VERSIONS),
    st.dictionaries(st.sampled_from(["a", "b"]), st.integers(1, 2)),
    st.dictionaries(TABLES, VERSIONS),
    st.sampled_from(list(CLOCK_AGREES)),
)


def at(**sources: int) -> Frontier:
    return Frontier({source: Version(number) for source, number in sources.items()})


@given(FRONTIERS)
def test_text_form_is_exact(frontier: Frontier) -> None:
    assert from_json(to_json(frontier)) == frontier


def test_text_form_does_not_depend_on_the_order_of_keys() -> None:
    one = Frontier({"a": Version(1), "b": Version(2)}, {"n": 1, "m": 2})
    other = Frontier({"b": Version(2), "a": Version(1)}, {"m": 2, "n": 1})
    assert to_json(one) == to_json(other)


@given(st.lists(FRONTIERS, max_size=4))
def test_agreement_is_equality_on_everything_shared(frontiers: list[Frontier]) -> None:
    expected = all(
        all(one.sources[s] == other.sources[s] for s in one.sources.keys() & other.sources.keys())
        and all(one.generations[n] == other.generations[n] for n in one.generations.keys() & other.generations.keys())
        and other.clock in CLOCK_AGREES[one.clock]
        for one in frontiers
        for other in frontiers
    )
    assert (agree({str(i): frontier for i, frontier in enumerate(frontiers)}) is None) == expected


@given(st.lists(FRONTIERS, min_size=1, max_size=4))
def test_merge_contains_every_frontier_that_agrees(frontiers: list[Frontier]) -> None:
    if agree({str(i): frontier for i, frontier in enumerate(frontiers)}) is not None:
        return
    merged = merge(frontiers)
    for frontier in frontiers:
        assert frontier.sources.items() <= merged.sources.items()
        assert frontier.generations.items() <= merged.generations.items()
        assert frontier.clock is None or (merged.clock or "").startswith(frontier.clock)


def test_a_disagreement_names_table_inputs_and_versions() -> None:
    found = agree({"region": at(sales=5), "product": at(sales=7)})
    assert found is not None
    assert found.text({"region": "revenue_by_region"}) == (
        'of "sales", "revenue_by_region" reflects version 5 and "product" reflects version 7'
    )


def test_an_input_that_still_reflects_a_replaced_source_disagrees_with_one_that_does_not() -> None:
    def below(table: str) -> frozenset[str]:
        return frozenset({"new"})

    frontiers = {"a": at(old=5), "b": at(new=7)}
    assert agree(frontiers) is None
    found = agree(frontiers, below)
    assert found is not None
    assert found.text({}) == 'of "new", "a" reflects none and "b" reflects version 7'
    assert agree({"a": at(old=5), "b": at(old=5)}, below) is None


def test_readers_take_over_the_nodes_own_definition() -> None:
    seen = Frontier({"s": Version(3)}, {"a": 1}, {"a": Version(9)}).seen_by_readers("b", 4)
    assert seen == Frontier({"s": Version(3)}, {"a": 1, "b": 4})


def test_inputs_of_the_same_commit_get_its_number_afterwards() -> None:
    frontier = Frontier(inputs={"a": THIS_COMMIT, "b": Version(3)})
    assert frontier.oldest_read == Version(3)
    assert frontier.settled_at(Version(8)).inputs == {"a": Version(8), "b": Version(3)}
