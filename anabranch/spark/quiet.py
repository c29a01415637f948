"""Silence for failures that we expect and report in our own words: PySpark prints each with its whole Java stack."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pyspark.logger import PySparkLogger

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_silent: ContextVar[bool] = ContextVar("anabranch_silent", default=False)


def _is_wanted(record: logging.LogRecord) -> bool:
    return not _silent.get()


for _name in _LOGGERS:
    PySparkLogger.getLogger(_name).addFilter(_is_wanted)


@contextmanager
def quietly() -> Iterator[None]:
    """Inside, on this thread, PySpark does not log the errors it raises; elsewhere it does as before."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)
