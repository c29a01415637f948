"""What the command line logs: through `logging`, as text or as JSON."""

from __future__ import annotations

import logging
from enum import StrEnum

from anabranch.observe.logs import log_to


class LogLevel(StrEnum):
    """From which level on records are shown."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a record is written."""

    TEXT = "text"
    JSON = "json"


def log_to_stderr(level: LogLevel, form: LogFormat) -> None:
    """Let all of Anabranch's loggers write to stderr."""
    log_to(logging.StreamHandler(), level.value.upper(), as_json=form is LogFormat.JSON)
    if not logging.getLogger().handlers:
        # Without one, the bridge to Spark writes the stacks of interrupted calls to stderr.
        logging.getLogger().addHandler(logging.NullHandler())
