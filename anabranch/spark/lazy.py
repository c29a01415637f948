"""Our session of Spark, started when it is first needed: most of what a lake is asked needs none."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from anabranch.errors import StorageError
from anabranch.spark.session import LOCAL_SETTINGS, leave_local_session, private_session, shared_local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class OwnSession:
    """A session of ours beside the user's, or beside a local one that is started for it.

    `kept` are the settings that ours takes over: of a session that was given, as they were then.
    """

    def __init__(self, given: SparkSession | None, kept: Sequence[str]) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._is_closed = False
        self._is_local = given is None
        self._session = None if given is None else self._beside(given)

    @property
    def is_started(self) -> bool:
        return self._session is not None

    def get(self) -> SparkSession:
        """The session; a local one is started the first time."""
        with self._lock:
            if self._is_closed:
                raise StorageError("LAKE_CLOSED", "the lake is closed", hint="Open it again with connect(...).")
            if self._session is None:
                base = shared_local_session()
                try:
                    self._session = self._beside(base)
                except BaseException:
                    leave_local_session()
                    raise
            return self._session

    def setting(self, key: str) -> str:
        """What the session says; where a local one is started with a value of ours, that is known before."""
        if self._session is None and key in LOCAL_SETTINGS:
            return LOCAL_SETTINGS[key]
        return str(self.get().conf.get(key))

    def close(self) -> None:
        """Let go of the local session, if it was started; the last lake to leave stops it."""
        with self._lock:
            started = self._session is not None and not self._is_closed
            self._is_closed = True
            if started and self._is_local:
                leave_local_session()

    def _beside(self, base: SparkSession) -> SparkSession:
        return private_session(base, {key: str(base.conf.get(key)) for key in self._kept})
