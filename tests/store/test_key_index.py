"""Rows of large files found by their keys are those that reading everything would find."""

from __future__ import annotations

import os
import shutil
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.algebra.relation import IS_THERE, WAS_THERE
from anabranch.store import ducklake, few, key_index_build, local, pick
from anabranch.store.ducklake import DuckLakeStore
from anabranch.store.key_index import UNFINISHED, numbers_of
from anabranch.store.key_index_build import _problem_with, _with_our_python, lay_out, lay_out_file
from anabranch.store.open import open_lake
from anabranch.store.protocol import ROWID, Commit, Version, Write

from .histories import STEPS
from .machine import LakeMachine, TheirFaultError
from .model import VALUES
from .test_reading import columns_of_t
from .tools import canonical, change, create, insert, outsider, rowids, table_id

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
    store.limit_indexes(1)
    store.lay_out_missed()
    assert store.pick(*arguments, LIMIT) is None, "there was no room"
    store.limit_indexes(1 << 30)
    assert store.lay_out_missed() > 0
    rows = store.pick(*arguments, LIMIT)
    assert rows is not None
    store.limit_indexes(0)
    assert store.pick(*arguments, LIMIT) is None, "they are turned off"
    store.limit_indexes(1 << 30)
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
    store.lay_out_missed()
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
    store.lay_out_missed()
    folder = store._opened.index
    assert len(list(folder.iterdir())) == 2
    store._maintainer.grace_seconds = 0.0
    store.compact()
    store.expire(0.0)
    assert list(folder.iterdir()) == []
    assert store.pick(table, store.head(), store.head(), *arguments) is None
    store.lay_out_missed()
    rows = store.pick(table, store.head(), store.head(), *arguments)
    assert rows is not None
    assert sorted(rows.column("a").to_pylist()) == [3, 13]


Opens = Callable[[], DuckLakeStore]


@pytest.fixture
def opens(folder: str, small_files_are_large: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opens]:
    """Opens the test's lake; its indexes are laid out here, not by Spark."""
    monkeypatch.setattr(ducklake, "shares_disk", lambda _: True)
    monkeypatch.setattr(key_index_build, "build", lambda _, work: list(map(_problem_with, work)))
    opened: list[DuckLakeStore] = []

    def open_one() -> DuckLakeStore:
        opened.append(DuckLakeStore(open_lake(folder, None, True), Mock()))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


def look_up(store: DuckLakeStore, value: object, key: str = "a", name: str = "t") -> list[dict[str, Any]] | None:
    """The rows with a value, all columns and the row id; None if no index leads to them."""
    head = store.head()
    table = table_id(store, name)
    fields = {each.name: each for each in store._catalog.tables(head)[table].fields}
    asked = [{key: (pa.array([value], pick.field_type(fields[key])), False)}]
    rows = store.pick(table, head, head, set(fields), set(fields), asked, LIMIT)
    return None if rows is None else rows.drop_columns([WAS_THERE, IS_THERE]).to_pylist()


def look_up_made(store: DuckLakeStore, value: object, key: str = "a", name: str = "t") -> list[dict[str, Any]]:
    """The same, where the index is yet to be made."""
    assert look_up(store, value, key, name) is None
    store.lay_out_missed()
    rows = look_up(store, value, key, name)
    assert rows is not None
    return rows


def read_here(store: DuckLakeStore) -> list[int]:
    rows = store.few_rows(table_id(store, "t"), store.head())
    assert rows is not None
    return list(rows.column("a").to_pylist())


def add_file(store: DuckLakeStore, path: Path, rows: pa.Table, name: str = "t") -> None:
    """Let somebody else add a file of theirs to a table."""
    path.parent.mkdir(exist_ok=True)
    pq.write_table(rows, path)
    with outsider(store._opened.folder) as client:
        client.execute(f"CALL ducklake_add_data_files('theirs', '{name}', '{path}')")


def index_files(store: DuckLakeStore) -> list[Path]:
    return sorted(each for each in store._opened.index.rglob("*") if each.is_file())


def lake_with_own_row_ids(opens: Opens) -> DuckLakeStore:
    """One of its files brings the ids of its rows: `a` is 4 in row 3."""
    store = opens()
    table = create(store, "t", "a bigint; b string")
    insert(store, table, a=[1, 2, 3, 4, 5], b=list("abcde"))
    with outsider(store._opened.folder) as client:
        client.execute("UPDATE t SET b = b || '!' WHERE a >= 3")
    assert look_up_made(store, 4) == [OF_FOUR]
    return store


OF_FOUR = {"a": 4, "b": "d!", ROWID: 3}


@pytest.mark.parametrize("is_rewound", [False, True])
def test_an_index_is_of_one_file(opens: Opens, tmp_path: Path, is_rewound: bool) -> None:
    """Not of another with its id and its name: of a lake made anew in the folder, or added after a restore."""
    store = opens()
    folder, catalog = store._opened.folder, store._opened.folder / "catalog.sqlite"
    create(store, "t", "a bigint; b string")
    store.close()
    shutil.copy(catalog, tmp_path / "backup")
    store = opens()
    add_file(store, tmp_path / "monday" / "part-0.parquet", pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]}))
    assert look_up_made(store, 3) == [{"a": 3, "b": "z", ROWID: 2}]
    assert read_here(store) == [1, 2, 3]
    store.close()
    for each in folder.glob("catalog.sqlite*"):
        each.unlink()
    if is_rewound:
        shutil.copy(tmp_path / "backup", catalog)
        store, day = opens(), "tuesday"
    else:
        shutil.rmtree(folder / "data", ignore_errors=True)
        store, day = opens(), "monday"
        create(store, "t", "a bigint; b string")
    add_file(store, tmp_path / day / "part-0.parquet", pa.table({"a": [3, 2, 1], "b": ["x", "y", "z"]}))
    assert look_up_made(store, 3) == [{"a": 3, "b": "x", ROWID: 0}]
    assert read_here(store) == [3, 2, 1]


@pytest.mark.parametrize("left", [None, 0, 100])
def test_what_cannot_be_read_is_made_again(opens: Opens, left: int | None) -> None:
    """Any file of an index that is gone, or cut short by a power cut."""
    store = lake_with_own_row_ids(opens)
    files = index_files(store)
    assert len(files) == 12
    for path in files:
        store.close()
        known = path.read_bytes()
        path.unlink()
        if left is not None:
            path.write_bytes(known[:left])
        store = opens()
        assert look_up_made(store, 4) == [OF_FOUR]


def test_an_index_that_is_removed_while_it_is_read(opens: Opens) -> None:
    """By another process, or by hand: what was found to be there is read to the end, and after that made again."""
    store = lake_with_own_row_ids(opens)
    shutil.rmtree(store._opened.index)
    assert look_up(store, 4) == [OF_FOUR]
    store._maintainer.clean()
    assert look_up_made(store, 4) == [OF_FOUR]


def test_an_index_that_cannot_be_made_is_left_alone(opens: Opens, caplog: pytest.LogCaptureFixture) -> None:
    """The tick is committed by then: nothing fails, one file stops no other, and no tick tries the same again."""
    store = opens()
    table = create(store, "t", "a bigint; b string")
    for start in (0, 10):
        insert(store, table, a=[start, start + 1, start + 2], b=list("abc"))
    assert look_up(store, 1) is None
    missed = store._catalog.indexes._missed
    (store._opened.index).mkdir()
    blocked, other = (store._catalog.indexes.of(file).folder for file in missed)
    blocked.touch()
    store.lay_out_missed()
    assert "no key index is made of" in caplog.text
    assert other.is_dir()
    blocked.unlink()
    assert look_up(store, 1) is None
    assert store.lay_out_missed() >= 0.0
    assert not blocked.exists()
    store._maintainer.clean()
    assert look_up_made(store, 1) == [{"a": 1, "b": "b", ROWID: 1}]


def test_no_tick_fails_for_want_of_an_index(opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opens()
    insert(store, create(store, "t", "a bigint"), a=[1, 2, 3])
    assert look_up(store, 1) is None
    monkeypatch.setattr(ducklake, "lay_out_missed", Mock(side_effect=OSError("no space left on device")))
    assert store.lay_out_missed() == 0.0


def test_open_indexes_take_no_file_descriptors(opens: Opens) -> None:
    store = opens()
    table = create(store, "t", "a bigint")
    for start in range(0, 30, 3):
        insert(store, table, a=[start, start + 1, None])
    look_up_made(store, 1)
    before = len(os.listdir("/dev/fd"))
    store._catalog.indexes.close()
    assert look_up(store, 1) is not None
    assert len(os.listdir("/dev/fd")) == before


def test_small_files_that_come_to_much_are_not_read_as_a_whole(opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opens()
    table = create(store, "t", "a bigint")
    insert(store, table, a=[1, 2, 3])
    for start in range(10, 20):
        insert(store, table, a=[start])
    assert look_up_made(store, 15) == [{"a": 15, ROWID: 8}]
    monkeypatch.setattr(few, "FEW_CELLS", 19)
    assert look_up(store, 15) is None
    assert not store.can_pick(table, store.head(), store.head(), {"a"}, "a")


def test_a_column_of_another_type_is_laid_out_again(opens: Opens) -> None:
    store = opens()
    table = create(store, "t", "a int; b decimal(10,2)")
    prices = pa.array([Decimal(1), Decimal(2), None], pa.decimal128(10, 2))
    insert(store, table, a=pa.array([1, 2, 3], pa.int32()), b=prices)
    assert look_up_made(store, 2) == [{"a": 2, "b": Decimal("2.00"), ROWID: 1}]
    with outsider(store._opened.folder) as client:
        client.execute("ALTER TABLE t ALTER a SET DATA TYPE BIGINT")
        client.execute("ALTER TABLE t ALTER b SET DATA TYPE DECIMAL(14,2)")
    assert look_up_made(store, 2) == [{"a": 2, "b": Decimal("2.00"), ROWID: 1}]


@pytest.mark.parametrize(
    ("columns", "rows", "key", "value"),
    [
        ("b varchar", {"b": pa.array(["w", "x", "y"]).dictionary_encode()}, "b", "x"),
        (
            "a timestamptz",
            {"a": pa.array([1, 2, 3], pa.timestamp("ms", "UTC"))},
            "a",
            datetime(1970, 1, 1, 0, 0, 0, 2000, UTC),
        ),
        ('a struct(b bigint), "a.b" bigint', {"a": [{"b": 1}] * 3, "a.b": [10, 20, 30]}, "a.b", 20),
        ('"a.b" bigint, a bigint', {"a.b": [1, 2, 3], "a": [10, 20, 30]}, "a", 20),
    ],
    ids=["dictionary", "milliseconds", "struct_with_its_name", "dot"],
)
def test_files_of_others(
    opens: Opens, tmp_path: Path, columns: str, rows: dict[str, Any], key: str, value: object
) -> None:
    store = opens()
    with outsider(store._opened.folder) as client:
        client.execute(f"CREATE TABLE t ({columns})")
    add_file(store, tmp_path / "theirs.parquet", pa.table(rows))
    (found,) = look_up_made(store, value, key)
    assert (found[key], found[ROWID]) == (value, 1)


def test_whoever_reads_the_lake_reads_its_indexes(opens: Opens) -> None:
    """They have the mode that the umask leaves, as its other files have."""
    mask = os.umask(0o022)
    try:
        store = lake_with_own_row_ids(opens)
    finally:
        os.umask(mask)
    assert {stat.S_IMODE(each.stat().st_mode) for each in index_files(store)} == {0o644}


def test_what_a_killed_builder_left_is_removed(opens: Opens) -> None:
    store = lake_with_own_row_ids(opens)
    folder = index_files(store)[0].parent
    old, new = folder / f"1.values.old{UNFINISHED}", folder / f"1.values.new{UNFINISHED}"
    for each in (old, new):
        each.touch()
    os.utime(old, (time.time() - 2 * 86400,) * 2)
    store._maintainer.clean()
    assert (old.exists(), new.exists()) == (False, True)
    assert look_up(store, 4) == [OF_FOUR]


@pytest.mark.parametrize("texts", [["x" * 200] * 1000, [f"{number:0200}" for number in range(1000)], [None] * 1000])
def test_about_as_much_room_is_taken_as_was_reckoned(opens: Opens, texts: list[str | None]) -> None:
    store = opens()
    insert(store, create(store, "t", "a bigint; b string"), a=list(range(1000)), b=pa.array(texts, pa.string()))
    assert look_up(store, 1) is None
    (missed,) = store._catalog.indexes.take_missed().items()
    work = lay_out(store._catalog, missed[0], *missed[1])
    lay_out_file(work)
    real = store._catalog.indexes.bytes()
    assert real * 0.8 < work.bytes() < max(real * 2, 100_000)


def test_sessions_keep_their_python() -> None:
    """Also when two lakes make indexes at the same time."""
    context = SimpleNamespace(pythonExec="theirs")
    both: Any = SimpleNamespace(sparkContext=context)

    def plan(seconds: float) -> None:
        with _with_our_python(both):
            time.sleep(seconds)
            assert context.pythonExec != "theirs"

    threads = [threading.Thread(target=plan, args=(seconds,)) for seconds in (0.02, 0.06, 0.01)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert context.pythonExec == "theirs"


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
