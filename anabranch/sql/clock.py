"""Time as a source: where a query reads the clock, and the same query with the clock fixed.

    fixed(query, clock)  =  the query's text with every reading of the clock replaced by what it reads then

    SELECT * FROM sales WHERE day > current_date() - 7
    at 2026-05-01 is
    SELECT * FROM sales WHERE day > DATE '2026-05-01' - 7

A query that reads the date alone has one meaning a whole day long; one that reads the time has a new one each instant.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from anabranch.sql.determinism import CLOCK_WORDS, TIME, TIME_WITHOUT_ARGUMENTS, WITHOUT_PARENTHESES
from anabranch.sql.tokens import Kind, Source, Token, tokenize

DATE = "DATE"
INSTANT = "INSTANT"
_READ_THE_DATE = frozenset(("current_date", "curdate"))
_DAYS = {"today": 0, "yesterday": -1, "tomorrow": 1}
_TYPED = frozenset(("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"))
_OFFSET = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")


@dataclass(frozen=True)
class Reading:
    """One reading of the clock: tokens `start` to `end`. `word` is the function, or what a typed literal says."""

    start: int
    end: int
    word: str
    type: str = ""
    argument: str = ""

    @property
    def reads_the_date_alone(self) -> bool:
        return self.word in _READ_THE_DATE or self.word in _DAYS or (self.word == "now" and self.type == "DATE")


def readings(text: str, bare_words: Collection[str] = WITHOUT_PARENTHESES) -> tuple[Reading, ...]:
    """Where the text reads the clock. `bare_words` are names that, without parentheses, are calls and no columns."""
    return tuple(_readings(tokenize(text), bare_words))


def clock_of(found: Collection[Reading]) -> str | None:
    """What queries with these readings depend on: the date, the instant, or nothing."""
    if not found:
        return None
    return DATE if all(each.reads_the_date_alone for each in found) else INSTANT


def fixed(text: str, clock: str, zone: str, bare_words: Collection[str] = WITHOUT_PARENTHESES) -> str:
    """The text with the clock fixed: at a date such as `2026-05-01`, or at an instant with its offset from UTC.

    `zone` is the time zone that the query is defined under.
    """
    source = tokenize(text)
    pieces: list[str] = []
    kept = 0
    for each in _readings(source, bare_words):
        pieces += [text[kept : source.tokens[each.start].start], _literal(each, clock, zone)]
        kept = source.tokens[each.end - 1].end
    return "".join([*pieces, text[kept:]])


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """A time zone by the names that Spark knows: regions, `UTC`, `+02:00`, `GMT+2`."""
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        hours, minutes = int(offset.group(2)), int(offset.group(3) or 0)
        return timezone(timedelta(hours=hours, minutes=minutes) * (1 if offset.group(1) == "+" else -1))
    try:
        return ZoneInfo(name)
    except ZoneInfoNotFoundError:
        return UTC if name.upper() in ("Z", "UTC", "GMT", "UT") else ZoneInfo(f"Etc/{name}")


def instant_in(zone: str, now: datetime) -> str:
    """An instant as frontiers tell it: local date and time, and the offset from UTC."""
    return now.astimezone(zone_of(zone)).isoformat(timespec="microseconds")


def _readings(source: Source, bare_words: Collection[str]) -> Iterator[Reading]:
    tokens = source.tokens
    for index, token in enumerate(tokens):
        if token.kind is not Kind.WORD:
            continue
        word, following = token.text.lower(), tokens[index + 1]
        after_dot = index > 0 and tokens[index - 1].text == "."
        if token.upper in _TYPED and following.kind is Kind.STRING and following.text.strip().lower() in CLOCK_WORDS:
            yield Reading(index, index + 2, following.text.strip().lower(), token.upper)
        elif after_dot or word not in TIME | TIME_WITHOUT_ARGUMENTS:
            continue
        elif following.text == "(":
            yield from _call(tokens, index, word)
        elif word in bare_words and word in WITHOUT_PARENTHESES and not _is_a_name(tokens, index):
            yield Reading(index, index + 1, word)


def _call(tokens: tuple[Token, ...], index: int, word: str) -> Iterator[Reading]:
    inside = tokens[index + 2]
    if inside.text == ")":
        yield Reading(index, index + 3, word)
    elif word == "current_time" and inside.kind is Kind.NUMBER and tokens[index + 3].text == ")":
        yield Reading(index, index + 4, word, argument=inside.text)


def _is_a_name(tokens: tuple[Token, ...], index: int) -> bool:
    """Whether the word is an alias or a qualifier."""
    return tokens[index + 1].text == "." or (index > 0 and tokens[index - 1].upper == "AS")


def _literal(reading: Reading, clock: str, zone: str) -> str:
    instant = datetime.fromisoformat(clock) if len(clock) > len("2026-05-01") else None
    local = None if instant is None else instant.astimezone(zone_of(zone)).replace(tzinfo=None)
    day = date.fromisoformat(clock) if local is None else local.date()
    if reading.type:
        return _typed_literal(reading, instant, local, day)
    if reading.word in _READ_THE_DATE:
        return f"DATE '{day}'"
    assert instant is not None
    assert local is not None
    match reading.word:
        case "unix_timestamp":
            return f"{_microseconds(instant) // 1_000_000}L"
        case "localtimestamp":
            return f"TIMESTAMP_NTZ '{local.isoformat(' ', 'microseconds')}'"
        case "current_time":
            time = f"TIME '{local.time().isoformat('microseconds')}'"
            return f"CAST({time} AS TIME({reading.argument}))" if reading.argument else time
        case _:
            return f"timestamp_micros({_microseconds(instant)}L)"


def _typed_literal(reading: Reading, instant: datetime | None, local: datetime | None, day: date) -> str:
    """`TIMESTAMP 'today'` is midnight in the session's time zone, which is the definition's."""
    if reading.word == "now" and reading.type != "DATE":
        assert instant is not None
        assert local is not None
        ntz = f"TIMESTAMP_NTZ '{local.isoformat(' ', 'microseconds')}'"
        return ntz if reading.type == "TIMESTAMP_NTZ" else f"timestamp_micros({_microseconds(instant)}L)"
    meant = day + timedelta(days=_DAYS.get(reading.word, 0))
    return f"{reading.type} '{meant}'"


def _microseconds(instant: datetime) -> int:
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
