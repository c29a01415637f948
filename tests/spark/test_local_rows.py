"""Rows that are handed over arrive as they are, in both ways."""

from __future__ import annotations

import datetime
import decimal
import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from anabranch.algebra.relation import Column
from anabranch.spark import local_rows
from anabranch.spark.local_rows import frame_of
from anabranch.spark.types import struct_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bigint": (pa.int64(), [1, -(2**63), None]),
    "tinyint": (pa.int8(), [1, -128, None]),
    "string": (pa.string(), ["", "ä😀", None]),
    "double": (pa.float64(), [-0.0, float("nan"), None]),
    "float": (pa.float32(), [-0.0, float("inf"), None]),
    "boolean": (pa.bool_(), [True, False, None]),
    "binary": (pa.binary(), [b"", b"\x00\xff", None]),
    "date": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]),
    "decimal(38,2)": (pa.decimal128(38, 2), [decimal.Decimal("1.20"), decimal.Decimal("-" + "9" * 36 + ".99"), None]),
    "array<struct<a:bigint,b:string>>": (
        pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string())])),
        [[], [{"a": None, "b": "x"}, None], None],
    ),
    "map<string,array<bigint>>": (pa.map_(pa.string(), pa.list_(pa.int64())), [[("k", [1, None])], [], None]),
    "timestamp": (pa.timestamp("us", "UTC"), [datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)] * 2 + [None]),
    "timestamp_ntz": (pa.timestamp("us"), [datetime.datetime(2020, 1, 1)] * 2 + [None]),
}


def exact(value: Any) -> Any:
    return struct.pack(">d", value) if isinstance(value, float) else value


@pytest.mark.parametrize("kind", VALUES)
def test_rows_arrive_as_pyspark_hands_them_over(spark: SparkSession, kind: str) -> None:
    arrow, values = VALUES[kind]
    columns = (Column("a b`c", kind), Column("n", "bigint"))
    table = pa.table({"a b`c": pa.array(values, arrow), "n": pa.array(range(len(values)), pa.int64())})
    nothing = table.slice(0, 0)
    for rows in (table, nothing, pa.concat_tables([nothing, table, nothing, table]), table.schema.empty_table()):
        ours, theirs = (
            frame_of(spark, rows, columns),
            spark.createDataFrame(local_rows._with_chunks(rows.combine_chunks()), struct_of(columns)),
        )
        assert ours.schema == theirs.schema
        found, expected = ours.toArrow(), theirs.toArrow()
        assert found.schema == expected.schema
        assert [*map(exact, found.column(0).to_pylist())] == [*map(exact, expected.column(0).to_pylist())]
        assert found.num_rows == rows.num_rows
