"""Byte identity: two values are identical if and only if nobody could tell them apart."""

from __future__ import annotations

import itertools

import pytest
from pyspark.sql import SparkSession

from anabranch.spark.identity import consolidate, identity, needs_identity

TYPES_AND_VALUES = {
    "double": ("NULL", "0.0D", "-0.0D", "1.5D", "double('NaN')", "double('-Infinity')"),
    "float": ("NULL", "0.0F", "-0.0F", "float('NaN')"),
    "string": ("NULL", "''", "'a'", "'A'", "'a '"),
    "string collate UTF8_LCASE": ("NULL", "'a' COLLATE UTF8_LCASE", "'A' COLLATE UTF8_LCASE"),
    "binary": ("NULL", "X''", "X'00'", "X'0000'"),
    "decimal(38,18)": ("NULL", "CAST(0 AS decimal(38,18))", "CAST('0.000000000000000001' AS decimal(38,18))"),
    "timestamp": ("NULL", "timestamp'2024-01-01 00:00:00.000001'", "timestamp'2024-01-01 00:00:00'"),
    "array<double>": ("NULL", "array()", "array(0.0D)", "array(-0.0D)", "array(double(NULL))", "array(0.0D, -0.0D)"),
    "array<int>": ("NULL", "array()", "array(NULL)", "array(1)"),
    "struct<a b:double,c:int>": (
        "NULL",
        "named_struct('a b', double(NULL), 'c', int(NULL))",
        "named_struct('a b', 0.0D, 'c', 1)",
        "named_struct('a b', -0.0D, 'c', 1)",
    ),
    "map<string,int>": ("NULL", "map()", "map('a', 1)", "map('a', 2)", "map('a', 1, 'b', 2)", "map('a', NULL)"),
    "map<int,map<string,double>>": ("NULL", "map()", "map(1, map('x', 0.0D))", "map(1, map('x', -0.0D))"),
    "array<struct<m:map<string,array<float>>>>": (
        "array(named_struct('m', map('a', array(0.0F))))",
        "array(named_struct('m', map('a', array(-0.0F))))",
        "array(named_struct('m', CAST(NULL AS map<string,array<float>>)))",
        "array(NULL)",
    ),
    "interval": ("NULL", "make_interval(0, 1)", "make_interval(0, 0, 0, 30)"),
}


def sql_type(data_type: str) -> str:
    return data_type.replace("a b", "`a b`")


@pytest.mark.parametrize("data_type", TYPES_AND_VALUES)
def test_values_are_identical_only_to_themselves(spark: SparkSession, data_type: str) -> None:
    values = [f"CAST({value} AS {sql_type(data_type)})" for value in TYPES_AND_VALUES[data_type]]
    pairs = list(itertools.product(range(len(values)), repeat=2))
    rows = ", ".join(f"({left}, {right}, {values[left]}, {values[right]})" for left, right in pairs)
    same = f"{identity('x', data_type)} <=> {identity('y', data_type)}"
    found = spark.sql(f"SELECT i, j FROM VALUES {rows} AS t(i, j, x, y) WHERE {same}").collect()
    assert sorted((row.i, row.j) for row in found) == [(each, each) for each in range(len(values))]


@pytest.mark.parametrize("data_type", TYPES_AND_VALUES)
def test_consolidate_groups_by_identity_and_keeps_values(spark: SparkSession, data_type: str) -> None:
    values = [f"CAST({value} AS {sql_type(data_type)})" for value in TYPES_AND_VALUES[data_type]]
    rows = ", ".join(
        f"({value}, {weight}L)" for position, value in enumerate(values) for weight in (position, position + 1, -1)
    )
    frame = spark.sql(f"SELECT x AS `odd ``name`, w FROM VALUES {rows} AS t(x, w)")
    result = consolidate(frame, "w")
    assert result.schema["odd `name"].dataType.simpleString() == frame.schema["odd `name"].dataType.simpleString()
    shown = "CAST(`odd ``name` AS STRING)" if data_type != "binary" else "hex(`odd ``name`)"
    expected = spark.sql("SELECT " + ", ".join(shown.replace("`odd ``name`", value) for value in values[1:])).head()
    found = {row.text: row.w for row in result.selectExpr(f"{shown} AS text", "w").collect()}
    assert expected is not None
    assert found == {text: 2 * position for position, text in enumerate(expected, start=1)}


def test_order_of_entries_of_a_map_does_not_matter(spark: SparkSession) -> None:
    maps = "map('a', 1, 'b', 2) AS x, map('b', 2, 'a', 1) AS y"
    text = identity("x", "map<string,int>") + " <=> " + identity("y", "map<string,int>")
    assert spark.sql(f"SELECT {text} FROM (SELECT {maps})").head() == (True,)


def test_identities_sort(spark: SparkSession) -> None:
    text = identity("x", "map<string,double>")
    found = spark.sql(f"SELECT x FROM VALUES (map('b', 0D)), (map('a', 0D)), (NULL) AS t(x) ORDER BY {text}").collect()
    assert [row.x for row in found] == [None, {"a": 0.0}, {"b": 0.0}]


def test_plain_types_stay_as_they_are() -> None:
    for data_type in ("bigint", "string", "array<struct<a:string,b:decimal(3,1)>>", "timestamp_ntz", "binary"):
        assert not needs_identity(data_type)
        assert identity("x", data_type) == "x"


def test_variants_are_told_apart_by_type_and_text(spark: SparkSession) -> None:
    texts = ("1", "1.0", "1e0", "null", '"1"', "[1]", "[1.0]", "-0e0", "0e0")
    rows = ", ".join(f"('{text}'), ('{text}')" for text in (*texts, '{"a": 1, "b": 2}'))
    frame = spark.sql(f"SELECT parse_json(x) AS x, 1 AS w FROM VALUES {rows}, (NULL), (NULL) AS t(x)")
    same = spark.sql("""SELECT parse_json('{"b": 2, "a": 1}') AS x, 1 AS w""")
    assert sorted(row.w for row in consolidate(frame.union(same), "w").collect()) == [2] * 10 + [3]
