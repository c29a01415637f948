"""Rows of large files found by their keys are those that reading everything would find."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.algebra.relation import IS_THERE, WAS_THERE
from anabranch.store import local, pick
from anabranch.store.ducklake import DuckLakeStore
from anabranch.store.key_index import numbers_of
from anabranch.store.key_index_build import lay_out, lay_out_file
from anabranch.store.protocol import ROWID, Commit, Version, Write

from .histories import STEPS
from .machine import LakeMachine, TheirFaultError
from .model import VALUES
from .test_reading import columns_of_t
from .tools import canonical, change, create, insert, rowids

KEYS = {"bigint", "string"}
LIMIT = 1_000


@pytest.fixture
def small_files_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (local, pick):
        monkeypatch.setattr(module, "LARGE", 2)


def lay_out_missed(store: DuckLakeStore) -> int:
    """Without Spark."""
    missed = store._catalog.indexes.take_missed()
    for file, (columns, keys) in missed.items():
        lay_out_file(lay_out(store._catalog, file, columns, keys))
    return len(missed)


@pytest.mark.usefixtures("small_files_are_large")
@pytest.mark.parametrize("seed", range(8))
def test_histories(seed: int, tmp_path: Path) -> None:
    """Updates, deletes, compactions, columns that come and go, two clients: some keys of two versions after each."""
    machine = LakeMachine(tmp_path / "lake", seed)
    store = DuckLakeStore(machine.opened, lambda: pytest.fail("no Spark is needed"))
    names, weights = zip(*STEPS, strict=True)
    found = 0
    try:
        for name in machine.random.choices(names, weights, k=40):
            machine.step(name)
            found += sum(check_picked(machine, store) for _ in range(3))
            machine.check(pairs=2, snapshots=2)
    except TheirFaultError:
        pass
    finally:
        machine.close()
    assert found > 20


def check_picked(machine: LakeMachine, store: DuckLakeStore) -> int:
    """Rows picked by values of some column, compared with both versions as they are read as a whole; how many."""
    since, upto = sorted(machine.random.choices(sorted(machine.model), k=2))
    columns = machine.model[upto].columns
    keys = [each for each in columns if each.type in KEYS]
    if machine._table(since).fields != machine._table(upto).fields or not keys:
        return 0
    key, with_null = machine.random.choice(keys), machine.random.random() < 0.5
    wanted = machine.random.sample(VALUES[key.type], 3)
    asked = [{key.name: (pa.array(wanted, {"bigint": pa.int64(), "string": pa.string()}[key.type]), with_null)}]
    arguments = (machine.table_id, Version(since), Version(upto), [each.name for each in columns])
    rows = store.pick(*arguments, arguments[-1], asked, LIMIT)
    if rows is None and lay_out_missed(store):
        rows = store.pick(*arguments, arguments[-1], asked, LIMIT)
    if rows is None:
        return 0
    place = [each.name for each in columns].index(key.name)
    for version, flag in ((since, WAS_THERE), (upto, IS_THERE)):
        is_wanted = {canonical(value) for value in wanted if value is not None or with_null}
        expected = {number: row for _, number, row in machine.evaluated(version) if row[place] in is_wanted}
        there = rows.filter(rows.column(flag))
        values = [
            canonical(row) for row in zip(*(there.column(each.name).to_pylist() for each in columns), strict=True)
        ]
        picked = dict(zip(there.column(ROWID).to_pylist(), values, strict=True))
        assert len(picked) == there.num_rows
        assert {number: row for number, row in picked.items() if row[place] in is_wanted} == expected
    return int(rows.num_rows)


def test_a_file_is_laid_out_once_it_was_missed(store: DuckLakeStore, small_files_are_large: None) -> None:
    """By Spark; files that came later and are small need none, and deleted rows are told apart."""
    table = create(store, "t", "a bigint; b string")
    staged = store.stage(store.spark.range(200).selectExpr("id % 50 AS a", "string(id) AS b"), columns_of_t())
    store.commit(Commit((Write(table, inserts=(staged,)),)))
    store.commit(Commit((Write(table, deletes=rowids(store, table, "b = '7'"), since=store.head()),)))
    before = store.head()
    gone = rowids(store, table, "b = '57'")
    after = store.commit(Commit((Write(table, gone, (pa.table({"a": [7], "b": ["new"]}),), before),)))
    asked = [{"a": (pa.array([7, 999]), False)}]
    arguments = (table, before, after, {"a", "b"}, {"b"}, asked)
    assert store.pick(*arguments, LIMIT) is None
    assert store.lay_out_missed(0) == 0.0 or store.pick(*arguments, LIMIT) is None, "there was no room"
    assert store.lay_out_missed(1 << 30) > 0
    rows = store.pick(*arguments, LIMIT)
    assert rows is not None
    told = {row["b"]: (row[WAS_THERE], row[IS_THERE]) for row in rows.to_pylist()}
    assert told == {"57": (True, False), "107": (True, True), "157": (True, True), "new": (False, True)}
    assert store.pick(*arguments, 2) is None, "more rows than may be held"


def test_the_old_values_of_changed_rows_are_read_from_an_index(
    store: DuckLakeStore, small_files_are_large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anabranch.store import few

    monkeypatch.setattr(few, "FEW_CELLS", 10)
    table = create(store, "t", "a bigint; b string")
    before = insert(store, table, a=list(range(50)), b=[None if a == 8 else f"row {a}" for a in range(50)])
    after = store.commit(Commit((Write(table, deletes=rowids(store, table, "a IN (7, 8)"), since=before),)))
    assert store.few_changes(table, before, after) is None
    store.lay_out_missed(1 << 30)
    found = store.few_changes(table, before, after)
    assert found is not None
    assert change(store, table, before, after) == {(7, "row 7"): -1, (8, None): -1}
    assert sorted(found.to_pydict()["b"], key=str) == [None, "row 7"]


def test_indexes_of_files_that_are_gone_are_removed(store: DuckLakeStore, small_files_are_large: None) -> None:
    table = create(store, "t", "a bigint; b string")
    for start in (0, 10):
        insert(store, table, a=list(range(start, start + 10)), b=["x"] * 10)
    asked = [{"a": (pa.array([3, 13]), False)}]
    arguments = ({"a", "b"}, {"a", "b"}, asked, LIMIT)
    store.pick(table, store.head(), store.head(), *arguments)
    store.lay_out_missed(1 << 30)
    folder = store._opened.index
    assert len(list(folder.iterdir())) == 2
    store._maintainer.grace_seconds = 0.0
    store.compact()
    store.expire(0.0)
    assert list(folder.iterdir()) == []
    assert store.pick(table, store.head(), store.head(), *arguments) is None
    store.lay_out_missed(1 << 30)
    rows = store.pick(table, store.head(), store.head(), *arguments)
    assert rows is not None
    assert sorted(rows.column("a").to_pylist()) == [3, 13]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.bool_(), [True, False]),
        (pa.int8(), [-128, 0, 127]),
        (pa.int64(), [-(2**63), -1, 0, 2**63 - 1]),
        (pa.date32(), [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
        (pa.timestamp("us", "UTC"), [datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, tzinfo=UTC)]),
        (pa.decimal128(38, 10), [Decimal("-1.5"), Decimal(0), Decimal(10) ** 27]),
        (pa.string(), ["", "a", "ä😀"]),
        (pa.binary(), [b"", b"\x00\xff"]),
    ],
)
def test_equal_values_have_one_number(kind: pa.DataType, values: list[Any]) -> None:
    """Also where they are a part of a larger array, as rows that were picked are."""
    alone = numbers_of(pa.array(values, kind))
    assert len(np.unique(alone)) == len(values)
    beside = pa.array([values[0], *values, values[-1]], kind).slice(1, len(values))
    assert numbers_of(beside).tolist() == alone.tolist()
    assert Counter(numbers_of(pa.array(values * 2, kind)).tolist()) == Counter(alone.tolist() * 2)
