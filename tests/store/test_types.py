"""Every type that is accepted comes back as it was, NULLs included; the rest is refused with the reason."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from anabranch.algebra.relation import Column
from anabranch.algebra.types import storable
from anabranch.errors import QueryError
from anabranch.spark.types import struct_of
from anabranch.store.ducklake import DuckLakeStore
from anabranch.store.protocol import Commit, Write
from anabranch.store.transaction import Transaction
from anabranch.store.types import check_columns, duckdb_type, spark_type

from .tools import canonical, change, columns, counted, create, outsider, rows

NAN, INFINITY = float("nan"), float("inf")
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [-128, 127],
    "smallint": [-32768, 32767],
    "int": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1],
    "float": [0.0, -0.0, NAN, INFINITY, -INFINITY, 1.5],
    "double": [0.0, -0.0, NAN, INFINITY, -INFINITY, 5e-324, 1.7976931348623157e308],
    "decimal(38,0)": [Decimal("9" * 38), Decimal("-" + "9" * 38)],
    "decimal(38,38)": [Decimal("-0." + "0" * 37 + "1"), Decimal("0." + "9" * 38)],
    "decimal(12,2)": [Decimal("1234567890.12"), Decimal("-0.01")],
    "decimal(4,1)": [Decimal("-999.9")],
    "string": ["", "it's", 'a"b\\c', "\n\t\x01\u0000", "ä漢😀\u200d", " x "],
    "binary": [b"", b"\x00\xff\xfe", b"abc"],
    "date": [date(1, 1, 1), date(1582, 10, 4), date(1970, 1, 1), date(9999, 12, 31)],
    "timestamp": [
        datetime(1900, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
        datetime(2024, 3, 31, 1, 30, tzinfo=UTC),
        datetime(9999, 12, 30, 23, 59, 59, 999999, tzinfo=UTC),
    ],
    "timestamp_ntz": [datetime(1, 1, 1), datetime(1582, 10, 10, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)],
    "array<int>": [[], [1, None, 2]],
    "map<string,double>": [{}, {"a": NAN, "b": None, "": -0.0}],
    "struct<a:int,b:string>": [(1, None), (None, None)],
    "array<struct<m:map<string,array<decimal(38,3)>>,t:timestamp_ntz>>": [
        [({"k": [Decimal("1.500"), None], "l": None, "m": []}, datetime(2020, 1, 1)), None, (None, None)],
    ],
    "struct<a:struct<b:struct<c:array<array<string>>>>>": [((([["x", None], None, []],),),), ((None,),), (None,)],
    "map<struct<x:int,y:string>,map<bigint,array<binary>>>": [{(1, "a"): {5: [b"\x00", None]}, (2, None): None}],
    "struct<key:int,value:array<boolean>,element:float>": [(1, [True, None], -0.0)],
}


@pytest.fixture(scope="module")
def shape() -> tuple[Column, ...]:
    return (Column("i", "int"), *(Column(f"c{number}", kind) for number, kind in enumerate(VALUES)))


def test_every_type_comes_back(store: DuckLakeStore, shape: tuple[Column, ...]) -> None:
    """Three rows at least for each type, through Arrow and through executors, read by Spark and by DuckDB."""
    height = 1 + max(len(each) for each in VALUES.values())
    data = [
        (number, *((None, *values)[number] if number <= len(values) else None for values in VALUES.values()))
        for number in range(height)
    ]
    frame = store.spark.createDataFrame(data, struct_of(shape))
    expected = Counter(canonical(row) for row in data)
    assert counted(frame) == expected
    text = "; ".join(f"{each.name} {each.type}" for each in shape)
    table = create(store, "t", text)
    start = store.head()
    arrow = store.commit(Commit((Write(table, inserts=(frame.toArrow(),)),)))
    assert store.read(table, arrow).schema == struct_of(shape)
    assert rows(store, table) == expected
    staged = store.commit(Commit((Write(table, inserts=(store.stage(frame, shape),)),)))
    assert store.read(table, staged).schema == struct_of(shape)
    assert rows(store, table) == expected + expected
    assert change(store, table, start, staged) == dict.fromkeys(expected, 2)
    assert change(store, table, arrow, staged) == dict.fromkeys(expected, 1)
    store.compact()
    assert rows(store, table) == expected + expected
    assert change(store, table, staged, store.head()) == {}
    with outsider(store.staging.parent) as client:
        assert client.execute("SELECT count(*), count(DISTINCT i) FROM t").fetchall() == [(2 * height, height)]


def test_bytes_tell_rows_apart(store: DuckLakeStore) -> None:
    """An update from -0.0 to 0.0 is a change; from NaN to NaN it is none."""
    table = create(store, "t", "x double; m map<string,float>")
    start = store.commit(Commit((Write(table, inserts=(_floats([-0.0, NAN], [{"k": 0.0}, {"k": NAN}]),)),)))
    ids = store.read(table, start, rowid=True).toArrow().column("__ab_rowid").combine_chunks()
    inserts = (_floats([0.0, NAN], [{"k": 0.0}, {"k": NAN}]),)
    end = store.commit(Commit((Write(table, deletes=ids, inserts=inserts, since=start),)))
    small = frozenset({("k", canonical(0.0))})
    assert change(store, table, start, end) == {(canonical(-0.0), small): -1, (canonical(0.0), small): 1}


def _floats(values: list[float], maps: list[dict[str, float]]) -> pa.Table:
    kind = pa.map_(pa.string(), pa.float32())
    return pa.table({"x": values, "m": pa.array([list(each.items()) for each in maps], kind)})


@pytest.mark.parametrize(
    "kind",
    [
        "variant",
        "void",
        "interval day to second",
        "interval year to month",
        "interval",
        "string collate UTF8_LCASE",
        "char(3)",
        "varchar(3)",
        "time(6)",
        "array<void>",
        "map<string,interval day to second>",
        "struct<a:array<variant>>",
        "struct<>",
        "struct<a:int,A:int>",
        "struct<a:b:int>",
    ],
)
def test_what_cannot_be_held_is_refused(kind: str) -> None:
    with pytest.raises(QueryError) as caught:
        check_columns((Column("x", kind),))
    assert caught.value.code in ("TYPE_NOT_STORABLE", "NAME_TWICE", "TYPE_NOT_KNOWN")
    assert not storable(kind)  # what plans keep is chosen by this


@pytest.mark.parametrize("kind", VALUES)
def test_plans_may_keep_what_can_be_held(kind: str) -> None:
    check_columns((Column("x", kind),))
    assert storable(kind)


@pytest.mark.parametrize("name", ["rowid", "ROWID", "__ab_weight", "__ab_rowid", "_metadata", "", "a\x00b"])
def test_names_of_the_lake_are_refused(name: str) -> None:
    with pytest.raises(QueryError) as caught:
        check_columns((Column("a", "int"), Column(name, "int")))
    assert caught.value.code in ("NAME_RESERVED", "NAME_NOT_STORABLE")


def test_names_are_compared_without_case() -> None:
    with pytest.raises(QueryError, match="two columns"):
        check_columns((Column("a", "int"), Column("A", "int")))
    with pytest.raises(QueryError, match="at least one column"):
        check_columns(())


def test_names_may_be_odd(store: DuckLakeStore) -> None:
    odd = ('sel"ect', "a b", "ä`ö", "x.y", "order", "group", "1", "%s", "filename", "snapshot_id")
    table = create(store, "from", "id int")
    kinds = tuple(Column(name, "int") for name in odd)
    work = Transaction(store)
    work.create_table('od"d na`me', kinds)
    work.write('od"d na`me', inserts=pa.table({name: pa.array([1], pa.int32()) for name in odd}))
    work.commit()
    (info,) = (each for each in store.tables(store.head()).values() if each.name == 'od"d na`me')
    assert store.read(info.id, store.head()).columns == list(odd)
    assert rows(store, info.id) == Counter({(1,) * len(odd): 1})
    assert rows(store, table) == Counter()


def test_text_that_is_not_utf8_is_refused(store: DuckLakeStore) -> None:
    table = create(store, "t", "s string; a array<struct<m:map<string,string>>>")
    bad = store.spark.sql(
        "SELECT cast(X'ff' AS string) AS s, array(named_struct('m', map('a', 'b'))) AS a"
        " UNION ALL SELECT 'ok', array(named_struct('m', map('a', cast(X'ff' AS string))))"
    )
    kinds = columns("s string; a array<struct<m:map<string,string>>>")
    for condition in ("s <> 'ok'", "s = 'ok'"):
        with pytest.raises(QueryError) as caught:
            store.stage(bad.where(condition), kinds)
        assert caught.value.code == "TEXT_NOT_UTF8"
    raw = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\x00\x00\x00\x00\x01\x00\x00\x00"), pa.py_buffer(b"\xff")]
    )
    nothing = pa.nulls(1, pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.string()))])))
    with pytest.raises(QueryError) as caught:
        store.commit(Commit((Write(table, inserts=(pa.table({"s": raw, "a": nothing}),)),)))
    assert caught.value.code == "TEXT_NOT_UTF8"


def test_types_have_names_in_both_worlds() -> None:
    assert duckdb_type("struct<a:array<map<string,decimal(10,2)>>>") == 'STRUCT("a" MAP(VARCHAR, DECIMAL(10,2))[])'
    assert spark_type("uint64") == "decimal(20,0)"
    for unreadable in ("uuid", "timetz", "interval", "timestamp_ns", "int128", "geometry", "variant", "time"):
        assert spark_type(unreadable) is None
