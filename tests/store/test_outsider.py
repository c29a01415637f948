"""A plain DuckDB client reads every table at any snapshot and may write to sources; what it writes is a change."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.errors import StateError, StorageError
from anabranch.store.ducklake import DuckLakeStore
from anabranch.store.protocol import (
    MAIN,
    STATE,
    Commit,
    CreateTable,
    CreateView,
    DropView,
    TableName,
    ViewInfo,
    Write,
)

from .conftest import Opener
from .tools import change, columns, create, insert, outsider, rowids, rows, table_id


def test_views_hide_state_and_travel_in_time(store: DuckLakeStore) -> None:
    state, face = TableName(STATE, "revenue 1"), TableName(MAIN, "revenue")
    shape = columns("region string; revenue bigint; __ab_count bigint; __ab_shown boolean")
    rows_in = pa.table({"region": ["n", "s"], "revenue": [1, 2], "__ab_count": [1, 1], "__ab_shown": [True, False]})
    made = store.commit(
        Commit(
            (
                CreateTable(state, shape),
                Write(state, inserts=(rows_in,)),
                CreateView(face, state, ("region", "revenue"), "__ab_shown"),
            )
        )
    )
    insert(store, table_id(store, "revenue 1"), region=["w"], revenue=[7], __ab_count=[1], __ab_shown=[True])
    with outsider(store.staging.parent, alias="another") as client:
        assert client.execute("SELECT * FROM another.revenue ORDER BY 1").fetchall() == [("n", 1), ("w", 7)]
        sql = f"SELECT * FROM another.main.revenue AT (VERSION => {made})"
        assert client.execute(sql).fetchall() == [("n", 1)]
    assert [(each.schema, each.name) for each in store.views(made)] == [(MAIN, "revenue")]
    assert isinstance(store.views(made)[0], ViewInfo)
    store.commit(Commit((DropView(face),)))
    assert store.views(store.head()) == []


def test_their_writes_are_changes(store: DuckLakeStore) -> None:
    table = create(store, "t", "a bigint; b string")
    start = insert(store, table, a=[1, 2, 3], b=["x", "y", "z"])
    for limit in (0, 10):
        before = store.head()
        expected = rows(store, table)
        with outsider(store.staging.parent) as client:
            client.execute(f"CALL theirs.set_option('data_inlining_row_limit', {limit})")
            client.execute("INSERT INTO t VALUES (4, 'it''s'), (5, NULL), (5, NULL)")
            client.execute("UPDATE t SET b = 'new' WHERE a = 2")
            client.execute("DELETE FROM t WHERE a = 1")
            client.execute("BEGIN; INSERT INTO t VALUES (9, 'gone'); DELETE FROM t WHERE a = 9; COMMIT")
        after = store.head()
        found = change(store, table, before, after)
        assert rows(store, table) == expected + Counter({k: v for k, v in found.items() if v > 0}) - Counter(
            {k: -v for k, v in found.items() if v < 0}
        )
        assert found[(4, "it's")] == 1
        assert found[(5, None)] == 2
        assert store.version_of(table, after) == after
    assert change(store, table, start, store.head()) == {
        (1, "x"): -1,
        (2, "y"): -1,
        (2, "new"): 1,
        (4, "it's"): 2,
        (5, None): 4,
    }


def test_we_delete_rows_that_they_left_in_the_catalog(store: DuckLakeStore) -> None:
    table = create(store, "t", "a bigint; m map<string,struct<x:double,y:binary>>")
    with outsider(store.staging.parent) as client:
        client.execute("CALL theirs.set_option('data_inlining_row_limit', 10)")
        client.execute(
            "INSERT INTO t VALUES (1, MAP {'k, \"q\"': {'x': '-0.0'::DOUBLE, 'y': '\\xFF\\x00'::BLOB}}), (2, NULL),"
            " (3, MAP {}), (3, MAP {'n': NULL})"
        )
    start = store.head()
    assert len(rows(store, table)) == 4
    gone = rowids(store, table, "a IN (1, 3)")
    end = store.commit(Commit((Write(table, deletes=gone.slice(0, 2), since=start),)))
    assert sum(rows(store, table).values()) == 2
    assert sum(change(store, table, start, end).values()) == -2
    store.compact()
    assert change(store, table, end, store.head()) == {}
    assert store.version_of(table, store.head()) == end
    assert sum(change(store, table, start, store.head()).values()) == -2


def test_columns_that_spark_cannot_read_are_refused_by_name(store: DuckLakeStore) -> None:
    with outsider(store.staging.parent) as client:
        client.execute(
            "CREATE TABLE odd (a INTEGER, u UUID, s STRUCT(t TIMETZ), i INTERVAL, h HUGEINT, n TIMESTAMP_NS)"
        )
        client.execute("CREATE TABLE fine (a UTINYINT, b USMALLINT, c UINTEGER, d UBIGINT, e JSON)")
        client.execute("INSERT INTO fine VALUES (255, 65535, 4294967295, 18446744073709551615, '{\"k\": [1]}')")
    with pytest.raises(StorageError) as caught:
        store.read(table_id(store, "odd"), store.head())
    assert caught.value.code == "COLUMN_NOT_READABLE"
    assert (
        caught.value.detail == "These are: u (uuid), s (struct<t:timetz>), i (interval), h (int128), n (timestamp_ns)."
    )
    (row,) = rows(store, table_id(store, "fine"))
    assert row == (255, 65535, 4294967295, 18446744073709551615, '{"k": [1]}')


def test_defaults_of_their_columns_fill_old_rows(store: DuckLakeStore) -> None:
    table = create(store, "t", "a int")
    start = insert(store, table, a=pa.array([1], pa.int32()))
    staged = store.stage(store.spark.sql("SELECT 7 AS a"), columns("a int"))
    store.commit(Commit((Write(table, inserts=(staged,)),)))
    with outsider(store.staging.parent) as client:
        client.execute("CALL theirs.set_option('data_inlining_row_limit', 10)")
        client.execute("INSERT INTO t VALUES (2)")
        client.execute("CALL theirs.set_option('data_inlining_row_limit', 0)")
        for kind, value in (
            ("INTEGER", "42"),
            ("VARCHAR", "'o''x'"),
            ("TIMESTAMPTZ", "'2020-01-01 00:00:00+01'"),
            ("TIMESTAMP", "'2020-01-01 12:00:00'"),
            ("DATE", "'0044-03-15'"),
            ("DOUBLE", "1e300"),
            ("DECIMAL(10,3)", "1.5"),
            ("BOOLEAN", "'true'"),
        ):
            client.execute(f'ALTER TABLE t ADD COLUMN "{kind}" {kind} DEFAULT {value}')
        client.execute('INSERT INTO t (a, "INTEGER") VALUES (3, NULL)')
        theirs = client.execute('SELECT a, "INTEGER", "VARCHAR", "DECIMAL(10,3)", "BOOLEAN" FROM t').fetchall()
    frame = store.read(table, store.head())
    ours = frame.select("a", "INTEGER", "VARCHAR", "`DECIMAL(10,3)`", "BOOLEAN").collect()
    assert Counter(tuple(row) for row in ours) == Counter(theirs)
    texts = frame.selectExpr(
        "cast(TIMESTAMPTZ AS string)", "cast(TIMESTAMP AS string)", "cast(`DATE` AS string)", "cast(`DOUBLE` AS string)"
    )
    assert {tuple(row) for row in texts.collect()} == {
        ("2019-12-31 23:00:00", "2020-01-01 12:00:00", "0044-03-15", "1.0E300")
    }
    assert sorted(key[0] for key in change(store, table, start, store.head())) == [2, 3, 7]


def test_a_default_fills_rows_that_were_rewritten_after_the_column_came(store: DuckLakeStore) -> None:
    """The rewrite makes a new file, younger than the column, without it."""
    table = create(store, "t", "a bigint")
    insert(store, table, a=[1, 2, 3])
    with outsider(store.staging.parent) as client:
        client.execute("DELETE FROM t WHERE a = 1")
        client.execute("ALTER TABLE t ADD COLUMN b BIGINT DEFAULT 7")
        before = store.head()
        client.execute("CALL ducklake_rewrite_data_files('theirs', delete_threshold => 0.0)")
        assert client.execute("SELECT * FROM t ORDER BY a").fetchall() == [(2, 7), (3, 7)]
    assert store.head() > before
    assert rows(store, table) == Counter({(2, 7): 1, (3, 7): 1})
    assert change(store, table, before, store.head()) == {}


def test_files_they_added_are_read_by_their_names(store: DuckLakeStore, tmp_path: Path) -> None:
    """Two files of one name in two folders, one with a name that Spark escapes, deletes in all of them."""
    table = create(store, "t", "a bigint; b string")
    places = [tmp_path / "x" / "same.parquet", tmp_path / "y" / "same.parquet", tmp_path / "x" / "od d %41 é.parquet"]
    for number, place in enumerate(places):
        place.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"b": [f"f{number}", "gone"], "a": [number, number + 10]}), place)
    with outsider(store.staging.parent) as client:
        for place in places:
            client.execute(f"CALL ducklake_add_data_files('theirs', 't', '{place}')")
        client.execute("ALTER TABLE t RENAME b TO c")
    before = store.head()
    gone = rowids(store, table, "c = 'gone'")
    assert len(gone) == 3
    after = store.commit(Commit((Write(table, deletes=gone, since=before),)))
    assert rows(store, table) == Counter({(0, "f0"): 1, (1, "f1"): 1, (2, "f2"): 1})
    assert change(store, table, before, after) == {(a, "gone"): -1 for a in (10, 11, 12)}


def test_a_column_named_rowid_is_read_but_rows_are_not_deleted(store: DuckLakeStore) -> None:
    with outsider(store.staging.parent) as client:
        client.execute("CREATE TABLE t (rowid BIGINT, a INTEGER)")
        client.execute("INSERT INTO t VALUES (7, 1)")
    table = table_id(store, "t")
    assert rows(store, table) == Counter({(7, 1): 1})
    with pytest.raises(StateError) as caught:
        store.commit(Commit((Write(table, deletes=pa.array([0])),)))
    assert caught.value.code == "ROWID_SHADOWED"
    assert rows(store, table) == Counter({(7, 1): 1})


def test_their_types_may_grow(store: DuckLakeStore) -> None:
    table = create(store, "t", "a int; f float")
    start = insert(store, table, a=pa.array([1], pa.int32()), f=pa.array([1.5], pa.float32()))
    with outsider(store.staging.parent) as client:
        client.execute("ALTER TABLE t ALTER a TYPE BIGINT")
        client.execute("ALTER TABLE t ALTER f TYPE DOUBLE")
        client.execute("INSERT INTO t VALUES (5000000000, 0.1)")
    found = store.read(table, store.head())
    assert dict(found.dtypes) == {"a": "bigint", "f": "double"}
    assert sorted(tuple(row) for row in found.collect()) == [(1, 1.5), (5000000000, 0.1)]
    assert found.where("a > 4000000000").count() == 1
    assert len(change(store, table, start, store.head())) == 1


def test_a_lake_of_theirs_is_adopted(opener: Opener, tmp_path: Path, folder: str) -> None:
    with outsider(tmp_path, catalog=f"sqlite:{tmp_path}/foreign.sqlite", data=tmp_path / "files") as client:
        client.execute("CREATE TABLE t (a INTEGER)")
        client.execute("INSERT INTO t VALUES (1), (2)")
        client.execute("DELETE FROM t WHERE a = 1")
    store = opener(catalog=f"sqlite:{tmp_path}/foreign.sqlite")
    table = table_id(store, "t")
    assert rows(store, table) == Counter({(2,): 1})
    version = store.version_of(table, store.head())
    assert version < store.head()
    insert(store, table, a=pa.array([3], pa.int32()))
    assert rows(store, table) == Counter({(2,): 1, (3,): 1})
    with outsider(tmp_path, catalog=f"sqlite:{tmp_path}/foreign.sqlite", data=tmp_path / "files") as client:
        assert client.execute("SELECT sum(a) FROM t").fetchall() == [(5,)]
