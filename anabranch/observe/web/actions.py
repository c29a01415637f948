"""Requests that change something, on a few threads of their own: a long tick never takes the threads of readers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from anabranch.errors import StateError

MOST_WAITING = 16
T = TypeVar("T")


class Actions:
    """Performs actions one after the other; refuses when too many wait already."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="anabranch-action")
        self._lock = threading.Lock()
        self._waiting = 0

    async def perform(self, action: Callable[[], T]) -> T:
        """The action's result; its error is raised here."""
        with self._lock:
            if self._waiting >= MOST_WAITING:
                raise StateError(
                    "TOO_MANY_ACTIONS",
                    f"{self._waiting} actions wait for the lake already",
                    hint="wait until a tick ends, then try again",
                )
            self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, action)
        finally:
            with self._lock:
                self._waiting -= 1

    def close(self) -> None:
        """Start no further action; one that runs is finished."""
        self._pool.shutdown(wait=False, cancel_futures=True)
