"""The last ticks of this process, for who wants to look: what they did, or why they could not."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from anabranch.observe.report import Report

REMEMBERED = 200


@dataclass(frozen=True)
class TickSeen:
    """A tick that committed, with its id in the history."""

    id: str
    started_at: datetime
    report: Report


@dataclass(frozen=True)
class TickLost:
    """A tick that could not even be planned or committed."""

    at: datetime
    code: str
    message: str
    hint: str = ""


@dataclass(frozen=True)
class Totals:
    """Counted since the process started."""

    ticks: int = 0
    lost_ticks: int = 0
    spark_jobs: int = 0
    seconds: float = 0.0
    refreshes: Mapping[str, int] = field(default_factory=dict)

    def with_entry(self, entry: TickSeen | TickLost) -> Totals:
        """The totals after one more tick."""
        if isinstance(entry, TickLost):
            return replace(self, lost_ticks=self.lost_ticks + 1)
        report = entry.report
        done = Counter(self.refreshes) + Counter(each.action.value for each in report.values())
        jobs = self.spark_jobs + (report.spark_jobs or 0)
        return Totals(self.ticks + 1, self.lost_ticks, jobs, self.seconds + report.seconds, dict(done))


class TickLog:
    """Remembers the newest ones; may be used from several threads. `revision` grows with each entry."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: deque[TickSeen] = deque(maxlen=REMEMBERED)
        self._lost: deque[TickLost] = deque(maxlen=REMEMBERED)
        self._revision = 0
        self._totals = Totals()

    @property
    def revision(self) -> int:
        return self._revision

    @property
    def totals(self) -> Totals:
        return self._totals

    def add(self, entry: TickSeen | TickLost) -> None:
        """Remember an entry."""
        with self._lock:
            if isinstance(entry, TickSeen):
                self._seen.append(entry)
            else:
                self._lost.append(entry)
            self._totals = self._totals.with_entry(entry)
            self._revision += 1

    def seen(self) -> dict[str, TickSeen]:
        """Ticks that committed, by id, oldest first."""
        with self._lock:
            return {each.id: each for each in self._seen}

    def lost(self) -> tuple[TickLost, ...]:
        """Ticks that failed as a whole, oldest first."""
        with self._lock:
            return tuple(self._lost)
