"""Python rows become the table's values, whichever way they take; what does not fit is refused as Spark refuses it."""

from __future__ import annotations

import math
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from anabranch import AnabranchError, Lake
from anabranch.algebra.relation import Column
from anabranch.python_rows import arrow_rows
from tests.lake.tools import counted

ROW = (1, 2, 3, 4, 0.5, "x", True, date(2026, 1, 1), Decimal("1.50"))
TYPES = ("tinyint", "smallint", "int", "bigint", "double", "string", "boolean", "date", "decimal(10,2)")


def test_rows_are_stored_as_given(lake: Lake) -> None:
    lake.sql(f"CREATE TABLE t ({', '.join(f'c{n} {type}' for n, type in enumerate(TYPES))})")
    lake.append("t", [ROW, ROW, (None,) * len(TYPES)])
    lake.append("t", iter([{"c0": 7, "C4": 3, "c8": 2}]))
    only_some = (7, None, None, None, 3.0, None, None, None, Decimal("2.00"))
    stored = Counter(tuple(row) for row in lake.table("t").collect())
    assert stored == Counter({ROW: 2, (None,) * len(TYPES): 1, only_some: 1})
    assert [field.dataType.simpleString() for field in lake.table("t").schema.fields] == list(TYPES)


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("int", "1"),
        ("int", 1.5),
        ("int", True),
        ("tinyint", 300),
        ("decimal(4,2)", Decimal("1.234")),
        ("decimal(4,2)", Decimal("123.45")),
        ("string", "\ud800"),
        ("date", datetime(2026, 1, 1)),
        ("timestamp", datetime(2026, 1, 1)),
        ("array<int>", [1]),
    ],
)
def test_what_is_in_doubt_is_left_to_spark(type: str, value: Any) -> None:
    assert arrow_rows([(value,)], (Column("x", type),)) is None


def test_floats_keep_their_bits(lake: Lake) -> None:
    lake.sql("CREATE TABLE f (x DOUBLE)")
    lake.append("f", [(-0.0,), (math.nan,), (math.inf,)])
    texts = counted(lake.sql("SELECT CAST(x AS STRING) AS x FROM f"))
    assert texts == Counter({("-0.0",): 1, ("NaN",): 1, ("Infinity",): 1})


def test_a_value_that_does_not_fit_is_refused_and_nothing_is_stored(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (k INT)")
    with pytest.raises(AnabranchError):
        lake.append("t", [(1,), ("two",)])
    assert lake.table("t").count() == 0
