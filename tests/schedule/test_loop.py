"""The loop: ticks when due, sleeps otherwise, survives errors, stands by, ends cleanly."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from anabranch.schedule.lease import FileLease, Holder, Lease
from anabranch.schedule.loop import Control, LoopSettings, run

QUICK = LoopSettings(stand_by_seconds=0.02, first_retry_seconds=0.02, longest_retry_seconds=0.1)


def now() -> datetime:
    return datetime.now(UTC)


@contextmanager
def running(perform: Callable[[datetime], datetime | None], lease: Lease, **more: object) -> Iterator[Control]:
    control = Control()
    thread = threading.Thread(target=run, args=(perform, lease, control), kwargs={"settings": QUICK, **more})
    thread.start()
    try:
        yield control
    finally:
        control.stop()
        thread.join(5)
        assert not thread.is_alive()


def eventually(holds: Callable[[], bool], seconds: float = 5.0) -> bool:
    until = time.monotonic() + seconds
    while not holds() and time.monotonic() < until:
        time.sleep(0.005)
    return holds()


def test_ticks_when_due_and_lets_the_lease_go_at_the_end(tmp_path: Path) -> None:
    ticks: list[datetime] = []

    def perform(at: datetime) -> datetime:
        ticks.append(at)
        return at + timedelta(seconds=0.05)

    lease = FileLease(tmp_path / "lease")
    with running(perform, lease):
        assert eventually(lambda: len(ticks) >= 4)
        assert FileLease(tmp_path / "lease").holder() is not None
    assert all(later - earlier >= timedelta(seconds=0.045) for earlier, later in itertools.pairwise(ticks))
    assert FileLease(tmp_path / "lease").holder() is None


def test_idle_it_uses_next_to_no_processor_and_wakes_when_asked(tmp_path: Path) -> None:
    ticks: list[datetime] = []

    def perform(at: datetime) -> None:
        ticks.append(at)

    with running(perform, FileLease(tmp_path / "lease")) as control:
        assert eventually(lambda: len(ticks) == 1)
        used = time.process_time()
        time.sleep(0.3)
        assert time.process_time() - used < 0.1
        assert len(ticks) == 1
        control.wake()
        assert eventually(lambda: len(ticks) == 2)


def test_a_tick_that_raises_is_reported_and_tried_again_later(tmp_path: Path) -> None:
    errors: list[Exception] = []
    ticks: list[datetime] = []

    def perform(at: datetime) -> None:
        ticks.append(at)
        if len(ticks) < 4:
            raise ValueError(f"tick {len(ticks)}")

    with running(perform, FileLease(tmp_path / "lease"), on_error=errors.append):
        assert eventually(lambda: len(ticks) == 4)
    assert [str(error) for error in errors] == ["tick 1", "tick 2", "tick 3"]
    gaps = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(ticks)]
    assert all(gap >= least for gap, least in zip(gaps, (0.02, 0.04, 0.08), strict=True))


def test_paused_it_starts_nothing_and_resumed_it_ticks_at_once(tmp_path: Path) -> None:
    ticks: list[datetime] = []

    def perform(at: datetime) -> datetime:
        ticks.append(at)
        return at + timedelta(seconds=0.02)

    with running(perform, FileLease(tmp_path / "lease")) as control:
        assert eventually(lambda: len(ticks) >= 2)
        assert control.drain(5)
        seen = len(ticks)
        time.sleep(0.15)
        assert len(ticks) == seen
        assert control.paused
        control.resume()
        assert eventually(lambda: len(ticks) > seen)


def test_drain_waits_for_the_running_tick(tmp_path: Path) -> None:
    started, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def perform(at: datetime) -> None:
        started.set()
        may_end.wait(5)
        ended.set()

    with running(perform, FileLease(tmp_path / "lease")) as control:
        assert started.wait(5)
        assert control.busy
        assert not control.drain(0.05)
        may_end.set()
        assert control.drain(5)
        assert ended.is_set()


def test_a_second_loop_stands_by_and_takes_over(tmp_path: Path) -> None:
    first, second = [], []

    def perform_into(ticks: list[datetime]) -> Callable[[datetime], datetime]:
        def perform(at: datetime) -> datetime:
            ticks.append(at)
            return at + timedelta(seconds=0.02)

        return perform

    with running(perform_into(first), FileLease(tmp_path / "lease")):
        assert eventually(lambda: bool(first))
        with running(perform_into(second), FileLease(tmp_path / "lease")) as standby:
            time.sleep(0.1)
            assert not second
            standby.wake()
    with running(perform_into(second), FileLease(tmp_path / "lease")):
        assert eventually(lambda: bool(second))


class FailingLease:
    """Lost at the first heartbeat, to be had again at the third request."""

    heartbeat_seconds = 0.02

    def __init__(self) -> None:
        self.requests = 0
        self.released = 0

    def acquire(self) -> bool:
        self.requests += 1
        if self.requests == 2:
            raise OSError("no connection")
        return True

    def renew(self) -> bool:
        return self.requests > 2

    def release(self) -> None:
        self.released += 1

    def holder(self) -> Holder | None:
        return None


def test_a_lost_lease_is_asked_for_again(tmp_path: Path) -> None:
    lease, errors = FailingLease(), []
    with running(lambda at: at + timedelta(seconds=0.01), lease, on_error=errors.append):
        assert eventually(lambda: lease.requests >= 3)
        time.sleep(0.1)
        assert lease.requests == 3
    assert lease.released == 1
    assert [str(error) for error in errors] == ["no connection"]


SERVING_PROCESS = """
import sys, time
from datetime import timedelta
from anabranch.schedule.lease import FileLease
from anabranch.schedule.loop import Control, run, stopped_by_signals

control = Control()

def perform(at):
    print("tick", flush=True)
    time.sleep(0.3)
    print("stopping" if control.stopping else "committed", flush=True)
    return at + timedelta(hours=1)

with stopped_by_signals(control):
    run(perform, FileLease(sys.argv[1]), control)
print("ended", flush=True)
"""


def test_sigterm_ends_it_cleanly_in_the_middle_of_a_tick_and_while_idle(tmp_path: Path) -> None:
    for wait_for in ("tick\n", "committed\n"):
        command = [sys.executable, "-c", SERVING_PROCESS, str(tmp_path / "lease")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            while process.stdout.readline() != wait_for:
                pass
            process.send_signal(signal.SIGTERM)
            rest = process.stdout.read()
            assert process.wait(5) == 0
        assert rest == ("stopping\nended\n" if wait_for == "tick\n" else "ended\n")
        assert FileLease(tmp_path / "lease").holder() is None
