"""A writer killed at any moment loses nothing, repeats nothing and leaves nothing behind that is never cleaned."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.store.crashpoints import CRASH_POINTS

from .crash_child import BareLake, expected

OPERATIONS = 5
ROOT = Path(__file__).parents[2]


class Writers:
    """Starts writers in processes of their own, one at a time."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._starter = subprocess.Popen(
            [sys.executable, "-m", "tests.store.crash_child"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, folder: Path, crash_at: str = "", operations: int = OPERATIONS) -> int:
        order = {"folder": str(folder), "catalog": None, "crash_at": crash_at, "operations": operations}
        assert self._starter.stdin is not None
        self._starter.stdin.write(json.dumps(order) + "\n")
        self._starter.stdin.flush()
        return int(self.hear("pid"))

    def hear(self, word: str) -> str:
        """What it says about this; other words are skipped."""
        assert self._starter.stdout is not None
        for line in self._starter.stdout:
            first, _, rest = line.strip().partition(" ")
            if first == word:
                return rest
        raise AssertionError("the starter of writers ended")

    def close(self) -> None:
        assert self._starter.stdin is not None
        self._starter.stdin.close()
        self._starter.wait(60)


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


@pytest.mark.parametrize("point", CRASH_POINTS)
def test_killed_at_a_named_step(point: str, tmp_path: Path, writers: Writers) -> None:
    writers.start(tmp_path / "lake", point)
    assert writers.hear("ended") == str(-signal.SIGKILL), f"{point} was not reached"
    before = _check(tmp_path / "lake")
    writers.start(tmp_path / "lake")
    assert writers.hear("ended") == "0"
    assert _check(tmp_path / "lake") == OPERATIONS >= before


def _kill_at_random(writers: Writers, folder: Path, seed: int) -> int:
    """Some operations later, and then anywhere within the next ones: by the writer's own pace, not by the clock."""
    chance = random.Random(seed)
    writer = writers.start(folder, operations=1000)
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
