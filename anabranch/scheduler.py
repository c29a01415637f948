"""The scheduler of a lake: a tick whenever something is due, by one process at a time, until it is stopped.

It decides nothing: `refresh` asks the pure decision what is due, and `next_wake` when to look again. In between it
sleeps, and looks once a second whether others have committed: a schedule changed elsewhere is seen soon, for the price
of one small question to the catalog.
"""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime
from pathlib import Path

from anabranch import refresh
from anabranch.compaction import Compaction
from anabranch.engine import GIVEN_UP, Engine
from anabranch.errors import AnabranchError, StateError
from anabranch.manage import SCHEDULER
from anabranch.observe.ticks import TickLost
from anabranch.schedule.due import next_wake
from anabranch.schedule.lease import FileLease, Holder, Lease, PostgresLease
from anabranch.schedule.loop import Control, LoopSettings, stopped_by_signals
from anabranch.schedule.loop import run as run_loop
from anabranch.situation import graph_state
from anabranch.store.protocol import Version

log = logging.getLogger(__name__)

SETTINGS = LoopSettings(look_again_seconds=1.0, stand_by_seconds=1.0)
LEASE_FILE = "scheduler.lease"


class Scheduler:
    """The scheduler of one open lake; `run` it in one thread, tell it things from any."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._control = Control()
        self._lock = threading.Lock()
        self._runner: threading.Thread | None = None
        self._ended = threading.Event()
        self._seen: Version | None = None
        self._due_at: datetime | None = None
        self._compaction = Compaction(engine)

    def run(self) -> None:
        """Tick until `stop`, SIGTERM or SIGINT; stands by while another process holds the lease."""
        with self._lock:
            if self._runner is not None:
                raise StateError(
                    "SCHEDULER_RUNNING",
                    "the scheduler of this lake is running already",
                    f"it runs in thread {self._runner.name!r}",
                    "stop it first with lake.stop()",
                )
            self._runner = threading.current_thread()
            self._ended.clear()
        try:
            with stopped_by_signals(self._control), self._engine.giving_up_when(lambda: self._control.stopping):
                run_loop(self._perform, lease_of(self._engine), self._control, on_error=self._tell, settings=SETTINGS)
        finally:
            with self._lock:
                self._runner = None
                self._control = Control()
                self._seen = None
            self._ended.set()

    def stop(self) -> None:
        """End the run that is going on, or the next one. A tick that has not begun to commit gives up."""
        self._control.stop()

    def close(self, seconds: float = 60.0) -> None:
        """Stop and wait for the end."""
        runner = self._runner
        if runner is not None and runner is not threading.current_thread():
            self.stop()
            self._ended.wait(seconds)

    @property
    def is_running(self) -> bool:
        """Whether `run` is going on in this process, be it standing by."""
        return self._runner is not None

    @property
    def is_ticking(self) -> bool:
        """Whether a tick is being performed right now."""
        return self._control.busy

    def pause(self) -> None:
        """Start no further tick in this process; what is committed as well stops other processes' ticks."""
        self._control.pause()

    def resume(self) -> None:
        """Start ticks again, the first one at once."""
        self._seen = None
        self._control.resume()

    def drain(self, seconds: float | None = None) -> bool:
        """Start no further tick, and wait for the one that runs; False if it still runs after so many seconds."""
        return self._control.drain(seconds)

    def _perform(self, now: datetime) -> datetime | None:
        if self._nothing_to_do(now):
            return self._due_at
        pinned = self._engine.pin()
        self._seen, self._due_at = pinned.version, None
        if pinned.documents.get(SCHEDULER) == "paused":
            return None
        report = refresh.tick_of_due_nodes(self._engine)
        log.debug("%s", report)
        self._compaction.look()
        after = self._engine.pin()
        self._due_at = next_wake(graph_state(self._engine, after), datetime.now(UTC))
        self._seen = after.version
        return self._due_at

    def _tell(self, error: Exception) -> None:
        if isinstance(error, AnabranchError) and error.code == GIVEN_UP:
            log.info("the tick was given up: %s", error.message)
            return
        log.error("a tick failed, the scheduler goes on: %s", error, exc_info=error)
        described = (error.code, error.message, error.hint) if isinstance(error, AnabranchError) else ()
        code, message, hint = described or ("TICK_FAILED", f"{type(error).__name__}: {error}", "")
        self._engine.ticks.add(TickLost(datetime.now(UTC), code, message, hint))

    def _nothing_to_do(self, now: datetime) -> bool:
        """Whether nobody committed since the last look and nothing has become due."""
        return (
            self._seen is not None
            and (self._due_at is None or now < self._due_at)
            and self._engine.store.head() == self._seen
        )


def lease_of(engine: Engine) -> Lease:
    """What makes one scheduler of many processes: a lock beside a local catalog, a row in PostgreSQL."""
    if engine.store.is_local:
        return FileLease(Path(engine.path) / LEASE_FILE)
    return PostgresLease(engine.store.run_in_catalog, str(Path(engine.path).absolute()))


def holder(engine: Engine) -> Holder | None:
    """Who runs the scheduler now, if anybody does."""
    return lease_of(engine).holder()
