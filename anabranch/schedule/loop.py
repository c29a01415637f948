"""The loop of the scheduler: wait until something is due, perform a tick, again.

It decides nothing: `perform(now)` does a tick and says when the next one is due. The loop waits without using the
processor, keeps the lease alive, survives ticks that raise, and ends when told: a running tick is finished, or gives up
by itself where it looks at `control.stopping` before it commits.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType

from anabranch.schedule.backoff import backoff_seconds
from anabranch.schedule.lease import Lease

Perform = Callable[[datetime], datetime | None]


@dataclass(frozen=True)
class LoopSettings:
    """`look_again_seconds`: the longest wait, since another process may have changed a schedule or resumed a node.
    `stand_by_seconds`: how often one that does not hold the lease asks for it. `shortest_wait_seconds`: between ticks,
    even if each takes longer than its schedule."""

    shortest_wait_seconds: float = 0.01
    look_again_seconds: float = 30.0
    stand_by_seconds: float = 2.0
    first_retry_seconds: float = 1.0
    longest_retry_seconds: float = 60.0


class Control:
    """The handles on a running loop; every method may be called from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._stopping = False
        self._paused = False
        self._woken = False
        self._busy = False

    @property
    def stopping(self) -> bool:
        """Whether the loop was told to end; a tick that has not begun to commit gives up then."""
        return self._stopping

    @property
    def paused(self) -> bool:
        return self._paused

    @property
    def busy(self) -> bool:
        """Whether a tick is running."""
        return self._busy

    def stop(self) -> None:
        """End the loop."""
        self._change(_stopping=True)

    def wake(self) -> None:
        """Tick now: something was asked for, created, resumed."""
        self._change(_woken=True)

    def pause(self) -> None:
        """Start no further tick; the lease is kept."""
        self._change(_paused=True)

    def resume(self) -> None:
        """Start ticks again, the first one at once."""
        self._change(_paused=False, _woken=True)

    def drain(self, timeout_seconds: float | None = None) -> bool:
        """Start no further tick and wait for the running one; False if it is still running after the time."""
        self.pause()
        with self._changed:
            return self._changed.wait_for(lambda: not self._busy, timeout_seconds)

    def wait(self, seconds: float | None) -> None:
        """Sleep so long, or until told something. A wake-up that came before counts."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or (self._woken and not self._paused), seconds)
            if not self._paused:
                self._woken = False

    def wait_while_paused(self, seconds: float) -> None:
        """Sleep until resumed or stopped, at most so long."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or not self._paused, seconds)

    def begin(self) -> bool:
        """Mark a tick as running, unless none may start now."""
        with self._changed:
            self._busy = not (self._stopping or self._paused)
            return self._busy

    def end(self) -> None:
        """Mark the tick as done."""
        self._change(_busy=False)

    def _change(self, **values: bool) -> None:
        with self._changed:
            for name, value in values.items():
                setattr(self, name, value)
            self._changed.notify_all()


def run(
    perform: Perform,
    lease: Lease,
    control: Control,
    *,
    on_error: Callable[[Exception], None] = lambda error: None,
    settings: LoopSettings | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """Tick until stopped. One that does not get the lease stands by and takes over when the holder is gone."""
    settings = settings or LoopSettings()
    while not control.stopping:
        if not _try_to_acquire(lease, on_error):
            control.wait(settings.stand_by_seconds)
            continue
        with _kept_alive(lease) as lost:
            _tick_until_stopped(perform, lost, control, on_error, settings, clock)


def _tick_until_stopped(
    perform: Perform,
    lost: threading.Event,
    control: Control,
    on_error: Callable[[Exception], None],
    settings: LoopSettings,
    clock: Callable[[], datetime],
) -> None:
    errors = 0
    while not control.stopping and not lost.is_set():
        if not control.begin():
            control.wait_while_paused(settings.look_again_seconds)
            continue
        seconds = settings.look_again_seconds
        try:
            next_due_at = perform(clock())
            errors = 0
            if next_due_at is not None:
                seconds = min(seconds, max(settings.shortest_wait_seconds, (next_due_at - clock()).total_seconds()))
        except Exception as error:
            errors += 1
            seconds = backoff_seconds(errors, settings.first_retry_seconds, settings.longest_retry_seconds)
            on_error(error)
        finally:
            control.end()
        control.wait(seconds)


def _try_to_acquire(lease: Lease, on_error: Callable[[Exception], None]) -> bool:
    try:
        return lease.acquire()
    except Exception as error:
        on_error(error)
        return False


@contextmanager
def _kept_alive(lease: Lease) -> Iterator[threading.Event]:
    """Heartbeats from a thread of their own, so that a long tick does not lose the lease; the event says it is lost."""
    lost, done = threading.Event(), threading.Event()

    def beat() -> None:
        while not done.wait(lease.heartbeat_seconds):
            try:
                alive = lease.renew()
            except Exception:
                alive = False
            if not alive:
                lost.set()
                return

    heart = threading.Thread(target=beat, name="anabranch-lease", daemon=True)
    heart.start()
    try:
        yield lost
    finally:
        done.set()
        heart.join()
        if not lost.is_set():
            lease.release()


@contextmanager
def stopped_by_signals(control: Control) -> Iterator[None]:
    """SIGTERM and SIGINT stop the loop cleanly; only in the main thread, which alone gets signals."""

    def stop(number: int, frame: FrameType | None) -> None:
        # The handler interrupts the main thread, which may hold the lock that `stop` needs: another thread takes it.
        threading.Thread(target=control.stop, name="anabranch-stop").start()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
