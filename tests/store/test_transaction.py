"""Several writes are one snapshot, visible inside before anybody else sees them."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from anabranch.algebra.relation import Column
from anabranch.errors import ConflictError, NotFoundError, QueryError, StateError
from anabranch.store import materialize
from anabranch.store.ducklake import DuckLakeStore
from anabranch.store.protocol import ROWID, WEIGHT
from anabranch.store.transaction import Transaction

from .tools import change, columns, counted, create, insert, rows, table_id


def _bag(*values: object) -> Counter[tuple[object, ...]]:
    return Counter(value if isinstance(value, tuple) else (value,) for value in values)


def test_writes_are_seen_inside_and_become_one_snapshot(store: DuckLakeStore) -> None:
    table = create(store, "t", "a bigint")
    before = insert(store, table, a=[1, 2, 2])
    work = Transaction(store)
    work.write("t", inserts=pa.table({"a": [7, 8]}))
    assert counted(work.read("t")) == _bag(1, 2, 2, 7, 8)
    work.write("t", deletes=work.read("t", rowid=True).where("a IN (1, 7)").select(ROWID))
    assert counted(work.read("t")) == _bag(2, 2, 8)
    assert rows(store, table) == _bag(1, 2, 2)
    after = work.commit()
    assert after.number == before.number + 1
    assert rows(store, table) == _bag(2, 2, 8)
    assert change(store, table, before, after) == {(1,): -1, (8,): 1}


def test_one_copy_of_a_duplicate_can_be_deleted(store: DuckLakeStore) -> None:
    table = create(store, "t", "a string")
    insert(store, table, a=["x", "x", "x"])
    work = Transaction(store)
    work.write("t", deletes=work.read("t", rowid=True).limit(1).select(ROWID))
    work.commit()
    assert rows(store, table) == _bag("x", "x")


def test_what_comes_to_nothing_makes_no_snapshot(store: DuckLakeStore) -> None:
    table = create(store, "t", "a bigint")
    head = insert(store, table, a=[1])
    work = Transaction(store)
    work.write("t", inserts=pa.table({"a": [5]}))
    work.write("t", deletes=work.read("t", rowid=True).where("a = 5"))
    work.create_table("u", columns("a int"))
    work.drop_table("u")
    assert work.commit() == head
    assert store.head() == head


def test_rollback_leaves_nothing(store: DuckLakeStore) -> None:
    table = create(store, "t", "a bigint")
    head = store.head()
    work = Transaction(store)
    work.write("t", inserts=store.spark.range(10).selectExpr("id AS a"))
    work.create_table("u", columns("a int"))
    work.rollback()
    work.rollback()
    assert store.head() == head
    assert rows(store, table) == _bag()
    assert list(store.staging.iterdir()) == []
    with pytest.raises(StateError, match="has ended"):
        work.write("t", inserts=pa.table({"a": [5]}))


def test_tables_are_created_altered_and_dropped_inside(store: DuckLakeStore) -> None:
    kept = create(store, "kept", "a bigint; b string")
    create(store, "gone", "a int")
    insert(store, kept, a=[1], b=["x"])
    work = Transaction(store)
    work.write("kept", inserts=pa.table({"a": [2], "b": ["y"]}))
    work.add_column("kept", Column("c", "double"))
    work.rename_column("kept", "a", "key")
    work.drop_column("kept", "b")
    work.write("kept", inserts=pa.table({"key": [3], "c": [0.5]}))
    assert work.read("kept").columns == ["key", "c"]
    assert counted(work.read("kept").selectExpr("key", "cast(c AS string)")) == _bag((1, None), (2, None), (3, "0.5"))
    work.drop_table("gone")
    made = work.create_table("made", columns("a int"))
    work.write(made.id, inserts=pa.table({"a": pa.array([4], pa.int32())}))
    work.add_column("made", Column("b", "string"))
    assert counted(work.read("made")) == _bag((4, None))
    before, version = work.pinned, work.commit()
    names = {info.name for info in store.tables(version).values() if info.schema == "main"}
    assert names == {"kept", "made"}
    assert rows(store, table_id(store, "made")) == _bag((4, None))
    assert counted(store.read(kept, version).select("key")) == _bag(1, 2, 3)
    assert store.read(kept, before).columns == ["a", "b"]


def test_a_table_dropped_and_created_again_is_another_one(store: DuckLakeStore) -> None:
    old = create(store, "t", "a bigint")
    insert(store, old, a=[1, 2])
    work = Transaction(store)
    work.drop_table("t")
    work.create_table("t", columns("a bigint"))
    work.write("t", inserts=pa.table({"a": [9]}))
    work.commit()
    new = table_id(store, "t")
    assert new != old
    assert rows(store, new) == _bag(9)
    assert not store.can_read(old, store.head())
    assert store.can_read(old, work.pinned)


def test_large_inserts_are_staged_and_can_be_changed_again(
    store: DuckLakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(materialize, "FEW_ROWS", 10)
    table = create(store, "t", "a bigint; b string")
    work = Transaction(store)
    work.write("t", inserts=store.spark.range(0, 100, 1, 3).selectExpr("id AS a", "concat('v', id) AS b"))
    work.write("t", deletes=work.read("t", rowid=True).where("a % 2 = 1"))
    work.add_column("t", Column("c", "int"))
    work.write("t", deletes=work.read("t", rowid=True).where("a >= 90"))
    expected = _bag(*((a, f"v{a}", None) for a in range(0, 90, 2)))
    assert counted(work.read("t")) == expected
    work.commit()
    assert rows(store, table) == expected
    assert list(store.staging.iterdir()) == []


def test_kept_rows_are_computed_once(store: DuckLakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for few in (1000, 10):
        monkeypatch.setattr(materialize, "FEW_ROWS", few)
        work = Transaction(store)
        kept = work.keep(store.spark.range(50).selectExpr("id", "uuid() AS u"))
        assert counted(kept) == counted(kept)
        work.rollback()


def test_deletes_conflict_and_inserts_do_not(store: DuckLakeStore) -> None:
    table = create(store, "t", "a bigint")
    insert(store, table, a=[1, 2])
    deleting, inserting = Transaction(store), Transaction(store)
    deleting.write("t", deletes=deleting.read("t", rowid=True).where("a = 1"))
    inserting.write("t", inserts=pa.table({"a": [7]}))
    insert(store, table, a=[3])
    with pytest.raises(ConflictError) as caught:
        deleting.commit()
    assert caught.value.code == "REQUIREMENT_FAILED"
    assert "Expected no change after snapshot" in caught.value.detail
    inserting.commit()
    assert rows(store, table) == _bag(1, 2, 3, 7)


def test_compaction_in_between_conflicts_with_deletes(store: DuckLakeStore) -> None:
    table = create(store, "t", "a bigint")
    insert(store, table, a=[1, 2])
    insert(store, table, a=[3, 4])
    work = Transaction(store)
    work.write("t", deletes=work.read("t", rowid=True).where("a = 1"))
    store.compact()
    with pytest.raises(ConflictError, match="compacted"):
        work.commit()
    assert rows(store, table) == _bag(1, 2, 3, 4)


def test_rows_made_for_other_columns_conflict(store: DuckLakeStore) -> None:
    create(store, "t", "a bigint")
    work, other = Transaction(store), Transaction(store)
    work.write("t", inserts=pa.table({"a": [1]}))
    other.add_column("t", Column("b", "int"))
    other.commit()
    with pytest.raises(ConflictError, match="other columns"):
        work.commit()


def test_a_row_cannot_be_deleted_twice(store: DuckLakeStore) -> None:
    table = create(store, "t", "a bigint")
    insert(store, table, a=[1, 2])
    work = Transaction(store)
    gone = work.read("t", rowid=True).where("a = 1").select(ROWID).toArrow().column(ROWID)
    work.write("t", deletes=gone)
    with pytest.raises(StateError, match="not there"):
        work.write("t", deletes=gone)
    with pytest.raises(StateError, match="not there"):
        work.write("t", deletes=pa.array([-5]))
    work.rollback()


def test_errors_say_what_exists(store: DuckLakeStore) -> None:
    create(store, "t", "a bigint; b string")
    work = Transaction(store)
    with pytest.raises(NotFoundError) as caught:
        work.read("nope")
    assert "Tables: t" in caught.value.detail
    with pytest.raises(QueryError) as wrong:
        work.drop_column("t", "z")
    assert "Columns: a, b" in wrong.value.detail
    with pytest.raises(QueryError, match="columns"):
        work.write("t", inserts=pa.table({"a": [1]}))
    with pytest.raises(StateError, match="exists already"):
        work.create_table("T", columns("a int"))
    with pytest.raises(QueryError, match="do not fit"):
        work.write("t", inserts=pa.table({"a": ["x"], "b": ["y"]}))
    work.rollback()
    assert WEIGHT not in store.read(table_id(store, "t"), store.head()).columns
