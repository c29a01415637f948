"""A writer killed at any moment loses nothing, repeats nothing and leaves nothing behind that is never cleaned."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.store.crashpoints import CRASH_POINTS

from .crash_child import BareLake, expected
from .writers import Writers

OPERATIONS = 5
WRITE = tuple(point for point in CRASH_POINTS if point.startswith("commit."))
STEPS = {
    "append": (1, WRITE),
    "change": (2, WRITE),
    "append_files": (3, tuple(point for point in CRASH_POINTS if point.startswith(("stage.", "commit.")))),
    "compact": (4, tuple(point for point in CRASH_POINTS if point.startswith("compact."))),
    "expire": (5, tuple(point for point in CRASH_POINTS if point.startswith("expire."))),
}
"""For each kind of operation its number, as crash_child.py counts, and its named steps."""


@pytest.fixture(scope="module")
def writers() -> Iterator[Writers]:
    started = Writers()
    yield started
    started.close()


def _check(folder: Path) -> int:
    """Open the lake again: it is as after some number of operations, and cleaning leaves only what it knows."""
    lake = BareLake(folder)
    try:
        key = lake.table("t")
        if key is None:
            return 0
        assert lake.counted(key) == expected(lake.done())
        lake.maintainer.clean()
        stored = {path.name for path in lake.catalog.data.rglob("*") if path.is_file()}
        assert stored == lake.known_files()
        assert list(lake.opened.staging.iterdir()) == []
        assert lake.counted(key) == expected(lake.done())
        return lake.done()
    finally:
        lake.close()


@pytest.mark.parametrize(("kind", "point"), [(kind, point) for kind, (_, points) in STEPS.items() for point in points])
def test_killed_at_a_named_step(kind: str, point: str, tmp_path: Path, writers: Writers) -> None:
    number, _ = STEPS[kind]
    writers.start(tmp_path / "lake", number, point, crash_in=number)
    assert writers.hear("ended") == str(-signal.SIGKILL), f"{point} was not reached by {kind}"
    before = _check(tmp_path / "lake")
    assert before in (number - 1, number)
    writers.start(tmp_path / "lake", OPERATIONS)
    assert writers.hear("ended") == "0"
    assert _check(tmp_path / "lake") == OPERATIONS


def test_every_named_step_belongs_to_an_operation() -> None:
    assert {point for _, points in STEPS.values() for point in points} == set(CRASH_POINTS)


def _kill_at_random(writers: Writers, folder: Path, seed: int) -> int:
    """Some operations later, and then anywhere within the next ones: by the writer's own pace, not by the clock."""
    chance = random.Random(seed)
    writer = writers.start(folder, 1000)
    writers.hear("ready")
    ready_at = time.monotonic()
    operations = chance.randint(0, 5)
    for _ in range(operations):
        writers.hear("did")
    seconds_each = (time.monotonic() - ready_at) / max(operations, 1)
    time.sleep(chance.uniform(0.0, 2.0 * seconds_each))
    os.kill(writer, signal.SIGKILL)
    assert writers.hear("ended") == str(-signal.SIGKILL)
    return _check(folder)


def test_killed_at_random_moments(tmp_path: Path, writers: Writers) -> None:
    """Four lakes in turn, so that the one that is killed was killed before."""
    for seed in range(20):
        _kill_at_random(writers, tmp_path / f"lake{seed % 4}", seed)


@pytest.mark.soak
def test_killed_at_many_random_moments(tmp_path: Path, writers: Writers) -> None:
    done = {seed % 7: _kill_at_random(writers, tmp_path / f"lake{seed % 7}", 1000 + seed) for seed in range(100)}
    print(f"\n100 kills, {sum(done.values())} operations committed in {len(done)} lakes")
