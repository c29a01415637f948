"""A second process that refreshes the demo's lake and is killed in the middle of its commit.

It starts early and waits with Spark running: `python -m anabranch.cli.demo_kill <folder>` says it is ready, and
refreshes when a line arrives. The crash point between the last write and COMMIT sends SIGKILL to it: nothing is cleaned
up, nothing is said, as when the machine goes down.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

CRASH_POINT = "commit.before_commit"


class Victim:
    """The process that will be killed."""

    def __init__(self, folder: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "anabranch.cli.demo_kill", folder],
            env={**os.environ, "ANABRANCH_CRASH_AT": CRASH_POINT},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    @property
    def process(self) -> int:
        return self._process.pid

    def refresh_and_die(self, seconds: float = 600.0) -> bool:
        """Let it refresh; True if it was killed while it did."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdout.readline()
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return self._process.wait(seconds) == -signal.SIGKILL

    def close(self) -> None:
        """End it if it is still there."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(30)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def main(folder: str) -> None:
    """Open the lake, wait for a line, refresh."""
    from anabranch.lake import connect

    with connect(folder) as lake:
        lake.spark.range(1).collect()
        print("ready", flush=True)
        if sys.stdin.readline():
            lake.refresh()


if __name__ == "__main__":
    main(sys.argv[1])
