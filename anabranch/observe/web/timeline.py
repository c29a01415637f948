"""A stream table's history as bars: above the line how long each refresh took, below it how many rows changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.observe.web.model import HistoryEntry
from anabranch.observe.web.words import change, moment, span

WIDTH = 720.0
HALF = 70.0
_GAP = 2.0
_WIDEST = 24.0


@dataclass(frozen=True)
class Bar:
    """One refresh: its two bars, and what it was in words."""

    x: float
    width: float
    seconds_height: float
    rows_height: float
    action: str
    title: str


@dataclass(frozen=True)
class Timeline:
    """Oldest to the left. Heights grow with the logarithm: a full refresh does not flatten all others."""

    bars: tuple[Bar, ...]
    longest: str
    most_rows: int


def timeline(entries: Sequence[HistoryEntry]) -> Timeline:
    """The bars of entries that come newest first."""
    width = min(_WIDEST, WIDTH / len(entries) - _GAP) if entries else _WIDEST
    longest = max((each.seconds for each in entries), default=0.0)
    most = max((each.rows_inserted + each.rows_deleted for each in entries), default=0)
    bars = []
    for index, entry in enumerate(reversed(entries)):
        rows = entry.rows_inserted + entry.rows_deleted
        bars.append(
            Bar(
                round(index * (width + _GAP), 1),
                round(max(width, 0.5), 1),
                _height(entry.seconds * 1000, longest * 1000),
                _height(rows, most),
                entry.action,
                f"{moment(entry.started_at)} {entry.action} {span(entry.seconds)}, "
                f"{change(entry.rows_inserted, entry.rows_deleted)}: {entry.reason}",
            )
        )
    return Timeline(tuple(bars), span(longest), most)


def _height(value: float, largest: float) -> float:
    if value <= 0 or largest <= 0:
        return 0.0
    return round(2 + (HALF - 2) * math.log1p(value) / math.log1p(largest), 1)
