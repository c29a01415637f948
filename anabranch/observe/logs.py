"""Logging through `logging`: every tick is a record of the logger `anabranch.tick`, with its figures as fields.

import anabranch.observe.logs, logging
anabranch.observe.logs.log_to(logging.StreamHandler(), "INFO", as_json=True)
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from anabranch.observe.report import Action, Report

ROOT = "anabranch"
FIELDS = "anabranch"
tick_log = logging.getLogger("anabranch.tick")


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the figures of a tick."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_to(handler: logging.Handler, level: str | int = "INFO", as_json: bool = False) -> None:
    """Let all loggers of this package write to a handler, in place of one that was set so before."""
    formatter = JsonFormatter() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(formatter)
    root = logging.getLogger(ROOT)
    for earlier in [each for each in root.handlers if getattr(each, "of_log_to", False)]:
        root.removeHandler(earlier)
    handler.of_log_to = True  # type: ignore[attr-defined]
    root.addHandler(handler)
    root.setLevel(level)


def log_tick(report: Report) -> None:
    """One record a tick: what moved, what failed. A tick in which nothing happened is worth DEBUG only."""
    moved = [each for each in report.nodes.values() if each.action in (Action.DIFFERENTIAL, Action.FULL)]
    failed = [each for each in report.nodes.values() if each.action is Action.FAILED]
    level = logging.WARNING if failed else logging.INFO if moved else logging.DEBUG
    if not tick_log.isEnabledFor(level):
        return
    tick_log.log(
        level,
        "snapshot %s: %s refreshed, %s failed, %.2f s",
        report.snapshot,
        len(moved),
        len(failed),
        report.seconds,
        extra={FIELDS: report.to_dict()},
    )
