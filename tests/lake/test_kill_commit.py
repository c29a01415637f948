"""A process killed at each named step of the commit that a refresh or a transaction (an append and DML) makes.

Spark works out each commit once: its rows, frontiers and history. Then processes without Spark make it, each in the
lake as it was before, and are killed on the way. So a kill takes no start of Spark; what comes before the commit is in
test_kill.py.
"""

from __future__ import annotations

import contextlib
import pickle
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import anabranch
from anabranch import Lake
from anabranch.store.crashpoints import CRASH_POINTS
from anabranch.store.protocol import Commit, StagedFiles, Version, Write
from tests.lake.tools import canonical, outsider, rows, seen_by
from tests.lake.worker import append, change, make_shop, refresh, revenue_of, top_of
from tests.store.crash_child import BareLake
from tests.store.writers import Writers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = tuple(point for point in CRASH_POINTS if point.startswith("commit."))
SMALL = {"fused_refresh_max_delta_rows": 1}
"""So that executors write the files of a refresh."""
Contents = dict[str, Counter[Any]]


class _Kept(BaseException):
    """Takes the place of the commit."""


@dataclass(frozen=True)
class Prepared:
    """A lake right before a commit, the commit, and all tables before and after it, our own ones included."""

    folder: Path
    saved: Path
    commit: Path
    before: Contents
    after: Contents

    def restore(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.saved, self.folder)


def contents(folder: Path) -> Contents:
    with contextlib.closing(BareLake(folder)) as lake:
        return _contents(lake)


def _contents(lake: BareLake) -> Contents:
    found = {}
    for key, table in lake.catalog.tables(lake.head()).items():
        values = lake.rows(key)
        columns = [values.column(field.name).to_pylist() for field in table.fields]
        found[table.info.name] = Counter(canonical(row) for row in zip(*columns, strict=True))
    return found


def prepare(lake: Lake, folder: Path, name: str, operation: Callable[[Lake, int], None]) -> Prepared:
    """Let the operation get as far as its commit."""
    store = lake._engine.store
    saved, given = folder.with_name(f"saved-{name}"), folder.with_name(f"{name}.commit")

    def keep(commit: Commit) -> Version:
        made = Version(store.head().number + 1)
        told = {key: value(made) if callable(value) else value for key, value in commit.documents.items()}
        given.write_bytes(pickle.dumps(replace(commit, documents=told)))
        shutil.copytree(folder, saved)
        raise _Kept

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store, "commit", keep)
        with pytest.raises(_Kept):
            operation(lake, 3)
    return Prepared(folder, saved, given, {}, {})


@pytest.fixture(scope="module")
def writers() -> Iterator[Writers]:
    started = Writers()
    yield started
    started.close()


@pytest.fixture(scope="module")
def prepared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, writers: Writers) -> dict[str, Prepared]:
    folder = tmp_path_factory.mktemp("kill") / "shop"
    with anabranch.connect(str(folder), spark=spark, **SMALL) as lake:
        make_shop(lake)
        append(lake, 1)
        lake.refresh()
        append(lake, 2)
        found = {each.__name__: prepare(lake, folder, each.__name__, each) for each in (change, refresh)}
    for name, each in found.items():
        each.restore()
        before = contents(folder)
        writers.start_commit(folder, each.commit)
        assert writers.hear("ended") == "0"
        found[name] = replace(each, before=before, after=contents(folder))
        assert found[name].after != before
    return found


def test_the_refresh_moves_files_and_rows(prepared: dict[str, Prepared]) -> None:
    """What is killed below is a whole commit: files of executors, frontiers, history."""
    commit = pickle.loads(prepared["refresh"].commit.read_bytes())
    written = [each for action in commit.actions if isinstance(action, Write) for each in action.inserts]
    assert any(isinstance(each, StagedFiles) for each in written)
    assert commit.documents
    assert len(commit.history) == 2


@pytest.mark.parametrize("point", STEPS)
@pytest.mark.parametrize("name", ["change", "refresh"])
def test_killed_at_a_named_step(
    spark: SparkSession, prepared: dict[str, Prepared], writers: Writers, name: str, point: str
) -> None:
    """Wholly there or not at all, in all tables; nothing is left behind; and the next refresh goes on."""
    case = prepared[name]
    case.restore()
    writers.start_commit(case.folder, case.commit, crash_at=point)
    assert writers.hear("ended") == str(-signal.SIGKILL), f"{point} was not reached"
    with contextlib.closing(BareLake(case.folder)) as lake:
        lake.maintainer.clean()
        assert {path.name for path in lake.catalog.data.rglob("*") if path.is_file()} == lake.known_files()
        assert list(lake.opened.staging.iterdir()) == []
        assert _contents(lake) == (case.after if point == "commit.after_commit" else case.before)
    if name == "refresh":
        check_that_it_goes_on(spark, case.folder)


def check_that_it_goes_on(spark: SparkSession, folder: Path) -> None:
    with anabranch.connect(str(folder), spark=spark) as lake:
        lake.refresh()
        with outsider(lake) as client:
            sales = seen_by(client, "SELECT * FROM sales")
            assert seen_by(client, "SELECT * FROM revenue") == Counter(revenue_of(sales))
            assert seen_by(client, "SELECT * FROM top") == Counter(top_of(sales))
        ticks = lake.history().to_pylist()
        assert len({(each["node_name"], each["snapshot"]) for each in ticks}) == len(ticks) == 6
        assert rows(lake, "top") == Counter(top_of(sales))
