"""Watches a lake from a thread of its own, so that a page costs the lake nothing: all requests read the same view."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import replace

from anabranch.observe.web.backend import Backend
from anabranch.observe.web.model import LakeView

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 0.25
COLLECT_EVERY_SECONDS = 2.0
"""Even without a commit: back-offs end, other processes come and go."""
_REMEMBERED = 32


class Watcher:
    """Holds the newest view and the last few before it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._views: deque[LakeView] = deque([backend.collect(1)], maxlen=_REMEMBERED)
        self._collected_at = time.monotonic()
        self._stopping = threading.Event()
        self._collecting = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def view(self) -> LakeView:
        """The newest view."""
        return self._views[-1]

    @property
    def age_seconds(self) -> float:
        """How long ago the lake was last looked at with success."""
        return time.monotonic() - self._collected_at

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def seen(self, revision: int) -> LakeView | None:
        """An older view, if it is still remembered."""
        return next((each for each in list(self._views) if each.revision == revision), None)

    def look_now(self) -> None:
        """Collect at once, on this thread: after an action its caller sees what it did."""
        self._collect()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="anabranch-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(30)

    def _run(self) -> None:
        state: tuple[int, ...] | None = None
        while not self._stopping.wait(LOOK_EVERY_SECONDS):
            try:
                now = self._backend.state()
                if now != state or self.age_seconds > COLLECT_EVERY_SECONDS:
                    self._collect()
                    state = now
            except Exception as error:
                log.warning("the lake could not be looked at: %s", error)

    def _collect(self) -> None:
        with self._collecting:
            found = self._backend.collect(self.view.revision + 1)
            self._collected_at = time.monotonic()
            if _seen(found) != _seen(self.view):
                self._views.append(found)


def _seen(view: LakeView) -> LakeView:
    """The view without what differs each time."""
    return replace(view, taken_at="", revision=0, scheduler=replace(view.scheduler, ticking=False))
