"""When the scheduler compacts: a table has more files than `compact_after_files`, and compacting is likely to help.

Files that carry few deletes, or rows that old snapshots still show, may stay apart. A table that kept many files the
last time is compacted again only when it has twice as many.
"""

from __future__ import annotations

import logging
import time

from anabranch.engine import Engine
from anabranch.errors import AnabranchError

log = logging.getLogger(__name__)

SECONDS_BETWEEN = 30.0


class Compaction:
    """Looks after the number of files of one lake's tables."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._left: dict[str, int] = {}
        self._last_at = 0.0

    def look(self) -> bool:
        """Compact if a table needs it; whether it was done. One that fails holds up no tick."""
        if time.monotonic() - self._last_at < SECONDS_BETWEEN:
            return False
        files = self._engine.store.file_counts()
        most = self._engine.settings.integer("compact_after_files")
        crowded = [table for table, count in files.items() if count > max(most, 2 * self._left.get(table, 0))]
        if not crowded:
            return False
        self._last_at = time.monotonic()
        try:
            self._engine.store.compact()
        except AnabranchError as error:
            log.warning("compaction is tried again later: %s", error)
            return False
        self._left = self._engine.store.file_counts()
        log.info("compacted: %d tables had more than %d files", len(crowded), most)
        return True
