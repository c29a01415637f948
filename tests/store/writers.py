"""Processes that write to a lake without Spark and may be killed, started one at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Writers:
    """Starts writers (crash_child.py) in processes of their own, and tells what they say."""

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

    def start(self, folder: Path, operations: int, crash_at: str = "", crash_in: int = 0) -> int:
        """A writer that goes on up to this operation, or to the named step of the one with number `crash_in`."""
        return self._order(folder=str(folder), operations=operations, crash_at=crash_at, crash_in=crash_in)

    def start_commit(self, folder: Path, commit: Path, crash_at: str = "") -> int:
        """A writer that makes the commit that this file holds, or gets as far as the named step of it."""
        return self._order(folder=str(folder), commit=str(commit), crash_at=crash_at)

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

    def _order(self, **order: object) -> int:
        assert self._starter.stdin is not None
        self._starter.stdin.write(json.dumps(order) + "\n")
        self._starter.stdin.flush()
        return int(self.hear("pid"))
