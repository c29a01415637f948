"""INTERSECT and EXCEPT as joins and counts."""

from __future__ import annotations

import pytest

from anabranch.algebra.interpret import ZSet
from anabranch.algebra.relation import SetKind, SetOperation
from anabranch.lower.lower import lower
from tests.lower.plans import agree, kinds, table, tables

L, R = table("l", "x"), table("r", "x")
ROWS = tables(l_x=[(1,), (1,), (1,), (2,), (2,), (None,)], r_x=[(1,), (1,), (None,), (None,), (3,)])


@pytest.mark.parametrize(
    ("kind", "keeps_copies", "expected"),
    [
        (SetKind.INTERSECT, False, {(1,): 1, (None,): 1}),
        (SetKind.INTERSECT, True, {(1,): 2, (None,): 1}),
        (SetKind.EXCEPT, False, {(2,): 1}),
        (SetKind.EXCEPT, True, {(1,): 1, (2,): 2}),
    ],
)
def test_copies_and_nulls(kind: SetKind, keeps_copies: bool, expected: ZSet) -> None:
    assert agree(SetOperation(kind, keeps_copies, L, R), ROWS) == expected


@pytest.mark.parametrize("kind", SetKind)
@pytest.mark.parametrize("keeps_copies", [False, True])
def test_a_relation_with_itself(kind: SetKind, keeps_copies: bool) -> None:
    """Both sides have the same column names."""
    agree(SetOperation(kind, keeps_copies, L, L), ROWS)


def test_nested_set_operations() -> None:
    inner = SetOperation(SetKind.EXCEPT, True, L, R)
    assert agree(SetOperation(SetKind.INTERSECT, True, L, inner), ROWS) == {(1,): 1, (2,): 2}


def test_all_counts_both_sides_in_one_aggregate() -> None:
    lowered = kinds(lower(SetOperation(SetKind.EXCEPT, True, L, R)))
    assert lowered.count("Aggregate") == lowered.count("Generate") == lowered.count("UnionAll") == 1
