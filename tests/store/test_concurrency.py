"""Two processes at once, on both catalogs: nothing is lost, nothing is doubled, no error that a retry mends is seen."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from itertools import count
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from anabranch.errors import ConflictError, StorageError
from anabranch.store.commit import is_contention
from anabranch.store.lock import file_lock
from anabranch.store.protocol import Commit, DocumentIs, TableUnchanged, Write

from .crash_child import BareLake
from .tools import outsider
from .write_child import COUNTER

ROOT = Path(__file__).parents[2]


def run_writers(folder: Path, catalog: str | None, operations: list[list[str]], times: int) -> None:
    """One process for each list of operations, all let go at the same moment."""
    started = []
    for writer, names in enumerate(operations):
        order = {"folder": str(folder), "catalog": catalog, "operations": names, "writer": writer, "times": times}
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "tests.store.write_child", json.dumps(order)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    for each in started:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in started:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    results = [each.communicate(timeout=300)[0] for each in started]
    for each, said in zip(started, results, strict=True):
        assert each.returncode == 0, said


def _lake(folder: Path, catalog: str | None) -> tuple[BareLake, str]:
    lake = BareLake(folder, catalog)
    return lake, lake.create("t", "a bigint")


def test_writers_side_by_side(tmp_path: Path, catalog: str | None) -> None:
    """Inserts, a counter and moves of rows in two processes, compaction in a third."""
    lake, key = _lake(tmp_path / "lake", catalog)
    start = [-number for number in range(1, 6)]
    lake.committer.commit(Commit((Write(key, inserts=(pa.table({"a": start}),)),)))
    times = 6
    writes = ["insert", "count", "move"]
    run_writers(tmp_path / "lake", catalog, [writes, writes, ["compact"]], times)
    found = lake.counted(key)
    inserted = {a: n for a, n in found.items() if a >= 1_000_000}
    assert inserted == {writer * 1_000_000 + number: 1 for writer in (1, 2) for number in range(times)}
    moved = {a: n for a, n in found.items() if a not in inserted}
    assert sum(moved.values()) == len(start)
    assert sum(a * n for a, n in moved.items()) == sum(start) + 2 * times * 1_000
    assert lake.documents.at(lake.head())[COUNTER] == str(2 * times)
    ticks = lake.opened.connection.rows("SELECT tick_id FROM lake.anabranch.history")
    assert Counter(tick for (tick,) in ticks) == Counter({f"{w}-{n}": 1 for w in (0, 1) for n in range(times)})
    lake.close()


def test_a_writer_beside_an_outside_one(tmp_path: Path, catalog: str | None) -> None:
    """The outside client leaves gaps in which a commit of ours fits, however slow the machine is."""
    lake, key = _lake(tmp_path / "lake", catalog)
    stop = threading.Event()
    done = []

    def write_outside() -> None:
        with outsider(tmp_path / "lake", catalog=catalog) as client:
            for number in count():
                started = time.monotonic()
                try:
                    client.execute(f"INSERT INTO t VALUES ({number})")
                    done.append(number)
                except duckdb.Error:
                    with contextlib.suppress(duckdb.Error):
                        client.execute("ROLLBACK")
                if stop.wait(8 * (time.monotonic() - started)):
                    return

    other = threading.Thread(target=write_outside)
    other.start()
    try:
        for number in range(10):
            lake.committer.commit(
                Commit((Write(key, inserts=(pa.table({"a": [-1 - number]}),)),), (), {"n": str(number)})
            )
    finally:
        stop.set()
        other.join()
    assert lake.counted(key) == Counter([*done, *(-1 - number for number in range(10))])
    lake.close()


def test_one_that_others_never_let_in_gets_a_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An outside client commits between every check and commit; what the lake cannot do at all fails at once."""
    lake, key = _lake(tmp_path / "lake", None)
    client = outsider(tmp_path / "lake")
    monkeypatch.setattr(lake.committer, "timeout", 0.5)

    def sneak(version: object) -> str:
        client.execute("INSERT INTO t VALUES (7)")
        return "x"

    with pytest.raises(StorageError) as caught:
        lake.committer.commit(Commit((Write(key, inserts=(pa.table({"a": [8]}),)),), (), {"d": sneak}))
    assert caught.value.code == "LAKE_BUSY"
    assert set(lake.counted(key)) == {7}
    client.close()
    lake.close()


def test_only_other_writers_are_worth_another_try() -> None:
    wrapper = "Failed to commit DuckLake transaction.\nExceeded the maximum retry count of 0 set by the setting.\n"
    assert is_contention(duckdb.TransactionException(wrapper + "duplicate key value violates unique constraint"))
    assert is_contention(duckdb.TransactionException("Transaction conflict - attempting to insert into a table"))
    assert not is_contention(duckdb.TransactionException(wrapper + "No function matches 'isnan(VARCHAR)'"))


def test_a_requirement_that_does_not_hold_commits_nothing(tmp_path: Path, catalog: str | None) -> None:
    lake, key = _lake(tmp_path / "lake", catalog)
    other = BareLake(tmp_path / "lake", catalog)
    seen = lake.head()
    write = Write(key, inserts=(pa.table({"a": [1]}),))
    other.committer.commit(Commit((write,), (DocumentIs("d", None),), {"d": "theirs"}))
    head = lake.head()
    with pytest.raises(ConflictError) as caught:
        lake.committer.commit(Commit((write,), (DocumentIs("d", None),), {"d": "ours"}))
    assert caught.value.code == "REQUIREMENT_FAILED"
    assert "Expected none, found 'theirs'" in caught.value.detail
    with pytest.raises(ConflictError) as changed:
        lake.committer.commit(Commit((write,), (TableUnchanged(key, seen),)))
    assert f"Expected no change after snapshot {seen}" in changed.value.detail
    assert lake.head() == head
    lake.committer.commit(Commit((write,), (TableUnchanged(key, head), DocumentIs("d", "theirs"))))
    assert lake.counted(key) == Counter({1: 2})
    other.close()
    lake.close()


def test_a_commit_lands_directly_on_what_it_checked(tmp_path: Path, catalog: str | None) -> None:
    """Somebody commits between the check and the commit: it is tried again, and checks again."""
    lake, key = _lake(tmp_path / "lake", catalog)
    client = outsider(tmp_path / "lake", catalog=catalog)
    calls = []

    def sneak(version: object) -> str:
        calls.append(version)
        if len(calls) == 1:
            client.execute("INSERT INTO t VALUES (7)")
        return "x"

    seen = lake.head()
    with pytest.raises(ConflictError):
        lake.committer.commit(Commit((), (TableUnchanged(key, seen),), {"d": sneak}))
    assert len(calls) == 1
    calls.clear()
    made = lake.committer.commit(Commit((Write(key, inserts=(pa.table({"a": [8]}),)),), (), {"d": sneak}))
    assert [str(each) for each in calls] == [str(made.number - 1), str(made)]
    assert lake.counted(key) == Counter([7, 7, 8])
    client.close()
    lake.close()


def test_a_lock_that_is_never_free_has_a_code(tmp_path: Path) -> None:
    with file_lock(tmp_path / "lock", 1.0), pytest.raises(StorageError) as caught, file_lock(tmp_path / "lock", 0.05):
        pass
    assert caught.value.code == "LAKE_BUSY"
