"""Schedules: how often a stream table wants to be refreshed, as values.

'2s' '5m' '1h30m'                a duration: due when that long has passed since the last refresh
'*/5 * * * *' '30 0 6 * * MON'   cron, five fields, or six with the seconds first
'@hourly' '@daily' ...           short words for cron
'calculated'                     as often as the most demanding reader needs
None                             manual: only when asked for
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cronsim import CronSim, CronSimError

from anabranch.errors import SettingError

UNITS = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[wdhms]))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[wdhms])")


@dataclass(frozen=True)
class Every:
    """A bound on staleness: due when so many seconds have passed."""

    seconds: float
    text: str


@dataclass(frozen=True)
class Cron:
    """Due at the times that a cron expression names, in the time zone of the instants it is asked about."""

    expression: str
    text: str


@dataclass(frozen=True)
class Calculated:
    """As often as the most demanding reader needs."""

    text: str = "calculated"


@dataclass(frozen=True)
class Manual:
    """Only when asked for."""

    text: None = None


Schedule = Every | Cron | Calculated | Manual
MANUAL = Manual()


def parse_schedule(given: str | timedelta | None) -> Schedule:
    """The schedule that a text stands for."""
    if given is None:
        return MANUAL
    if isinstance(given, timedelta):
        given = f"{given.total_seconds():g}s"
    text = " ".join(given.split())
    lowered = text.lower()
    if lowered == "calculated":
        return Calculated()
    if _DURATION.fullmatch(lowered.replace(" ", "")):
        return _parse_duration(lowered.replace(" ", ""), given)
    if lowered.startswith("@"):
        if lowered not in WORDS:
            raise _not_understood(given, f"Of the words with @ there are {', '.join(WORDS)}.")
        return Cron(WORDS[lowered], lowered)
    if len(text.split()) in (5, 6):
        return _parse_cron(text, given)
    raise _not_understood(given, "")


def next_due(schedule: Schedule, last: datetime | None, now: datetime) -> datetime | None:
    """When a table last refreshed at `last` is due again; never refreshed: now. None: not by itself.

    Times that were missed count once: the result may lie before `now`.
    """
    match schedule:
        case Every(seconds):
            return now if last is None else last + timedelta(seconds=seconds)
        case Cron(expression):
            return now if last is None else next(CronSim(expression, last), None)
        case Calculated() | Manual():
            return None


def _parse_duration(text: str, given: str) -> Every:
    parts = _PART.findall(text)
    sizes = [UNITS[unit] for _, unit in parts]
    if sizes != sorted(set(sizes), reverse=True):
        raise _not_understood(given, "A duration names each unit once, the largest first.")
    seconds = sum(float(number) * UNITS[unit] for number, unit in parts)
    if seconds <= 0:
        raise _not_understood(given, "A duration is longer than nothing.")
    return Every(seconds, text)


def _parse_cron(text: str, given: str) -> Cron:
    try:
        first = next(CronSim(text, datetime(2024, 1, 1, tzinfo=UTC)), None)
    except CronSimError as error:
        raise _not_understood(given, f"Read as cron: {str(error).lower()}.") from None
    if first is None:
        raise _not_understood(given, "Read as cron: there is no such day.")
    return Cron(text, text)


def _not_understood(given: str, detail: str) -> SettingError:
    understood = (
        "Understood are durations (units w d h m s ms), cron with five or six fields, "
        f"{', '.join(WORDS)}, 'calculated', and None for manual."
    )
    return SettingError(
        "SCHEDULE_NOT_UNDERSTOOD",
        f"schedule {given!r} is not understood",
        f"{detail} {understood}".strip(),
        "For example '2s', '1h30m', '*/5 * * * *' or '@hourly'.",
    )
