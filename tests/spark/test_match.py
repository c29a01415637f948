"""Rows found by byte identity among rows at hand, against the obvious way to do it."""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.algebra.relation import ROWID, WEIGHT, Column
from anabranch.fuse.at_hand import can_tell_apart
from anabranch.spark.match import rowids_of

COLUMNS = (
    Column("k", "bigint"),
    Column("x", "double"),
    Column("s", "string"),
    Column("d", "decimal(10,2)"),
    Column("b", "boolean"),
)
TYPES = (pa.int64(), pa.float64(), pa.string(), pa.decimal128(10, 2), pa.bool_())
ROW = st.tuples(
    st.sampled_from([None, 0, 1]),
    st.sampled_from([None, 0.0, -0.0, math.nan, -math.nan, 1.5]),
    st.sampled_from([None, "", "a", "A"]),
    st.sampled_from([None, Decimal("1.00")]),
    st.sampled_from([None, True, False]),
)


def identity(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        ("nan" if math.isnan(value) else struct.pack("d", value)) if isinstance(value, float) else value
        for value in row
    )


def table(rows: list[tuple[Any, ...]], extra: str, numbers: list[int]) -> pa.Table:
    columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(TYPES)]
    names = [*(each.name for each in COLUMNS), extra]
    return pa.table([*columns, pa.array(numbers, pa.int64())], names=names)


@settings(deadline=None)
@given(st.lists(ROW, max_size=12), st.lists(st.tuples(ROW, st.integers(1, 3)), max_size=6))
def test_finds_as_many_identical_rows_as_go(stored: list[Any], gone: list[Any]) -> None:
    by_row = defaultdict(list)
    for number, row in enumerate(stored):
        by_row[identity(row)].append(100 + number)
    once = {identity(row): (row, weight) for row, weight in gone}
    expected = sorted(number for key, (_, weight) in once.items() for number in by_row[key][:weight])
    going = table([row for row, _ in once.values()], WEIGHT, [-weight for _, weight in once.values()])
    found = rowids_of(going, table(stored, ROWID, [100 + number for number in range(len(stored))]), COLUMNS)
    assert sorted(found.to_pylist()) == expected


@pytest.mark.parametrize(
    "type", ["array<int>", "map<string,int>", "struct<a:int>", "interval day to second", "variant"]
)
def test_nested_values_are_left_to_spark(type: str) -> None:
    assert not can_tell_apart((Column("x", type),))
