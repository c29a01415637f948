"""Snapshots are read by Spark: lazily, with few branches, by field id, whatever happened to the table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.algebra.relation import IS_THERE, WAS_THERE, Column
from anabranch.errors import NotFoundError, StorageError
from anabranch.store import read
from anabranch.store.ducklake import DuckLakeStore, open_store
from anabranch.store.protocol import WEIGHT, AddColumn, Commit, RenameColumn, Version, Write
from anabranch.store.transaction import Transaction

from .tools import change, counted, create, insert, outsider, rowids, rows, table_id


def test_time_travel(store: DuckLakeStore) -> None:
    table = create(store, "t", "a bigint")
    empty = store.head()
    first = insert(store, table, a=[1, 1])
    second = store.commit(Commit((Write(table, deletes=rowids(store, table, "a = 1").slice(0, 1), since=first),)))
    assert [rows(store, table, at) for at in (empty, first, second)] == [
        Counter(),
        Counter({(1,): 2}),
        Counter({(1,): 1}),
    ]
    assert [store.row_count(table, at) for at in (empty, first, second)] == [0, 2, 1]
    assert [store.version_of(table, at) for at in (empty, first, second)] == [empty, first, second]
    assert change(store, table, second, empty) == {(1,): -1}
    assert store.change_size(table, empty, second) >= 1


@pytest.mark.parametrize("literal_positions", [500, 0])
def test_two_versions_by_one_scan(
    store: DuckLakeStore, monkeypatch: pytest.MonkeyPatch, literal_positions: int
) -> None:
    """Rows that stayed, went and came, in files that have lost rows before; however the positions travel."""
    monkeypatch.setattr(read, "LITERAL_POSITIONS", literal_positions)
    table = create(store, "t", "a bigint; b string")
    for start in (0, 10, 20):
        insert(store, table, a=list(range(start, start + 10)), b=["x"] * 10)
    store.commit(Commit((Write(table, deletes=rowids(store, table, "a = 3"), since=store.head()),)))
    before = store.head()
    gone = rowids(store, table, "a % 5 = 0 AND a < 20")
    store.commit(Commit((Write(table, gone, (pa.table({"a": [5, 99], "b": ["y", "y"]}),), before),)))
    after = store.head()
    assert store.can_read_both(table, before, after)
    both = store.read_both(table, before, after)
    assert len(both.inputFiles()) == 4
    assert counted(both.where(WAS_THERE).drop(WAS_THERE, IS_THERE)) == rows(store, table, before)
    assert counted(both.where(IS_THERE).drop(WAS_THERE, IS_THERE)) == rows(store, table, after)
    assert both.where(f"NOT {WAS_THERE} AND NOT {IS_THERE}").count() == 0


def test_files_as_they_are(store: DuckLakeStore) -> None:
    """Files of executors and of DuckDB, deletes before and in between, a file that is gone and one that came."""
    table = create(store, "t", "a bigint; b string")
    staged = store.stage(store.spark.range(20).selectExpr("id AS a", "'x' AS b"), columns_of_t())
    store.commit(Commit((Write(table, inserts=(staged,)),)))
    insert(store, table, a=[20, 21, 22], b=["y"] * 3)
    store.commit(Commit((Write(table, deletes=rowids(store, table, "a = 3"), since=store.head()),)))
    before = store.head()
    gone = rowids(store, table, "a % 5 = 0")
    store.commit(Commit((Write(table, gone, (pa.table({"a": [5, 99], "b": ["z", None]}),), before),)))
    after = store.head()
    raw = store.read_raw(table, before, after)
    assert raw is not None
    assert len(raw.frames) == 2
    told = raw.told(pa.concat_tables([frame().where("a > 4").toArrow() for frame in raw.frames]))
    for version, flag in ((before, WAS_THERE), (after, IS_THERE)):
        expected = store.read(table, version, rowid=True).where("a > 4").toArrow()
        found = told.filter(told.column(flag)).select(expected.column_names)
        assert sorted(found.to_pylist(), key=str) == sorted(expected.to_pylist(), key=str)
    assert told.num_rows == 18 + 2  # row 3 is in neither


def test_a_change_of_some_columns(store: DuckLakeStore) -> None:
    """What was updated in other columns only is no change; two rows that differ in those only are one."""
    table = create(store, "t", "a bigint; b string; c bigint")
    before = insert(store, table, a=[1, 2, 3], b=["x", "y", "z"], c=[7, 7, 7])
    rows_now = pa.table({"a": [1, 9, 9], "b": ["new", "y", "z"], "c": [7, 7, 7]})
    after = store.commit(Commit((Write(table, rowids(store, table, "TRUE"), (rows_now,), before),)))
    expected = Counter({(2, 7): -1, (3, 7): -1, (9, 7): 2})
    found = store.few_changes(table, before, after, {"a", "c"})
    assert found is not None
    assert _weights(found) == _weights(store.changes(table, before, after, {"a", "c"}).toArrow()) == expected


def _weights(change: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter({tuple(row.values()): weight for row in change.to_pylist() for weight in [row.pop(WEIGHT)]})


def test_rows_that_have_the_same_key(store: DuckLakeStore) -> None:
    table = create(store, "t", "a bigint; b string; c bigint")
    version = insert(store, table, a=list(range(100)), b=["x"] * 100, c=[place % 4 for place in range(100)])
    assert [store.rows_per_key(table, version, name) for name in ("a", "b", "c")] == [1.0, None, 25.0]


def columns_of_t() -> tuple[Column, ...]:
    return (Column("a", "bigint"), Column("b", "string"))


def test_reading_starts_no_job(store: DuckLakeStore) -> None:
    table = create(store, "t", "a bigint; b struct<x:int,y:array<string>>")
    kinds = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
    for number in range(40):
        insert(store, table, a=[number], b=pa.array([{"x": 1, "y": ["z"]}], kinds))
    start, deleted = store.head(), rowids(store, table, "a % 3 = 0")
    end = store.commit(Commit((Write(table, deletes=deleted, since=start),)))
    tracker = store.spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    frames = [
        store.read(table, end),
        store.read(table, end, rowid=True),
        store.changes(table, start, end),
        store.changes(table, Version(start.number - 10), end),
    ]
    assert set(tracker.getJobIdsForGroup(None)) == before
    assert [frame.count() for frame in frames] == [26, 26, 14, 16]
    assert frames[1].where("a = 10").select("__ab_rowid").collect() == [(10,)]


def test_plans_stay_small_and_agree_whatever_way_positions_travel(
    store: DuckLakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A literal list, a join on a numbered file, and a join on a checksum of its name are the same."""
    table = create(store, "t", "a bigint")
    for number in range(6):
        insert(store, table, a=list(range(number * 10, number * 10 + 10)))
    before = store.head()
    gone = rowids(store, table, "a % 4 = 1")
    after = store.commit(Commit((Write(table, deletes=gone, since=before),)))
    expected = Counter({(a,): 1 for a in range(60) if a % 4 != 1})
    removed = {(a,): -1 for a in range(60) if a % 4 == 1}
    for literal, cases in ((500, 32), (0, 32), (0, 2), (500, 2)):
        monkeypatch.setattr(read, "LITERAL_POSITIONS", literal)
        monkeypatch.setattr(read, "CASE_FILES", cases)
        assert rows(store, table) == expected
        assert change(store, table, before, after) == removed
        numbered = store.read(table, after, rowid=True).collect()
        assert sorted((row[0], row[1]) for row in numbered) == [(a, a) for (a,) in sorted(expected)]


def test_files_whose_names_have_one_checksum_are_told_apart(
    store: DuckLakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(store, "t", "a bigint")
    for number in range(4):
        insert(store, table, a=[number, number + 10])
    before = store.head()
    after = store.commit(Commit((Write(table, deletes=rowids(store, table, "a IN (1, 13)"), since=before),)))
    monkeypatch.setattr(read, "LITERAL_POSITIONS", 0)
    monkeypatch.setattr(read, "CASE_FILES", 0)
    monkeypatch.setattr(read, "_checksum", lambda file: 7)
    assert rows(store, table, after) == Counter({(a,): 1 for a in (0, 10, 11, 2, 12, 3)})


def test_a_filter_on_a_renamed_column_does_not_prune_old_files(store: DuckLakeStore) -> None:
    """Spark pushes filters down by name: the old `a` must not be taken for the new one."""
    table = create(store, "t", "a int; s struct<x:int,y:int>")
    kind = pa.struct([("x", pa.int32()), ("y", pa.int32())])
    insert(store, table, a=pa.array([1, 2, 3], pa.int32()), s=pa.array([{"x": 1, "y": 1}] * 3, kind))
    store.commit(Commit((RenameColumn(table, "a", "b"), AddColumn(table, Column("a", "int")))))
    found = store.read(table, store.head())
    assert found.columns == ["b", "s", "a"]
    assert found.where("a IS NULL AND b > 1").count() == 2
    assert found.where("a > 0").count() == 0
    with outsider(store.staging.parent) as client:
        client.execute("ALTER TABLE t RENAME s.x TO z")
        client.execute("ALTER TABLE t ADD COLUMN s.x INTEGER")
    found = store.read(table, store.head())
    assert dict(found.dtypes)["s"] == "struct<z:int,y:int,x:int>"
    assert found.where("s.x IS NULL AND s.z = 1").count() == 3
    assert found.where("s.x = 1").count() == 0


def test_a_change_is_shown_in_the_columns_of_its_end(store: DuckLakeStore) -> None:
    table = create(store, "t", "a int; b string")
    start = insert(store, table, a=pa.array([1, 2], pa.int32()), b=["x", "y"])
    work = Transaction(store)
    work.write("t", deletes=work.read("t", rowid=True).where("a = 1"))
    work.rename_column("t", "b", "c")
    work.add_column("t", Column("d", "double"))
    work.drop_column("t", "a")
    work.write("t", inserts=pa.table({"c": ["z"], "d": [2.5]}))
    end = work.commit()
    assert store.changes(table, start, end).columns == ["c", "d", "__ab_weight"]
    assert counted(store.changes(table, start, end).selectExpr("c", "cast(d AS string)", "__ab_weight")) == Counter(
        {("x", None, -1): 1, ("z", "2.5", 1): 1}
    )
    assert change(store, table, end, start) == {
        (None, "z"): -1,
        (None, "y"): -1,
        (1, "x"): 1,
        (2, "y"): 1,
    }


def test_the_folder_may_have_any_name_and_may_move(spark: object, tmp_path: Path) -> None:
    first = tmp_path / "we ird é%20{a,b}]#&'s"
    store = open_store(str(first), spark)  # type: ignore[arg-type]
    table = create(store, "t", "a bigint")
    start = insert(store, table, a=[1, 2, 3])
    staged = store.stage(store.spark.range(5).selectExpr("id + 10 AS a"), store.tables(start)[table].columns)
    end = store.commit(Commit((Write(table, deletes=rowids(store, table, "a = 2"), inserts=(staged,), since=start),)))
    expected = Counter({(a,): 1 for a in (1, 3, 10, 11, 12, 13, 14)})
    assert rows(store, table) == expected
    store.close()
    second = tmp_path / "elsewhere"
    first.rename(second)
    moved = open_store(str(second), spark, create=False)  # type: ignore[arg-type]
    assert rows(moved, table) == expected
    assert change(moved, table, start, end) == {(2,): -1} | {(a,): 1 for a in range(10, 15)}
    insert(moved, table, a=[99])
    moved.compact()
    assert rows(moved, table) == expected + Counter({(99,): 1})
    moved.close()
    assert not first.exists()


def test_what_is_not_there_is_said(store: DuckLakeStore) -> None:
    table = create(store, "t", "a int")
    with pytest.raises(StorageError) as caught:
        store.read(table, Version(999))
    assert caught.value.code == "SNAPSHOT_NOT_KEPT"
    with pytest.raises(NotFoundError) as missing:
        store.read("nope", store.head())
    assert missing.value.code == "TABLE_NOT_FOUND"
    assert "main.t" in missing.value.detail
    assert not store.can_read(table, Version(999))
    assert not store.can_read(table, Version(0))


def test_several_threads_read_and_write(store: DuckLakeStore) -> None:
    from concurrent.futures import ThreadPoolExecutor

    table = create(store, "t", "a bigint")

    def work(number: int) -> int:
        insert(store, table, a=[number])
        return store.row_count(table, store.head())

    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(work, range(24)))
    assert max(counts) == 24
    assert rows(store, table_id(store, "t")) == Counter({(a,): 1 for a in range(24)})
