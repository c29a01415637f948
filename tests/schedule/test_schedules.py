"""Schedules: what is understood, what is refused, when it is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from anabranch.errors import SettingError
from anabranch.schedule.schedules import WORDS, Calculated, Cron, Every, Manual, next_due, parse_schedule

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2s", 2), ("5m", 300), ("1h30m", 5400), ("1h 30m", 5400), ("500ms", 0.5), ("1.5s", 1.5), ("1W2D", 777600)],
)
def test_durations(text: str, seconds: float) -> None:
    schedule = parse_schedule(text)
    assert isinstance(schedule, Every)
    assert schedule.seconds == pytest.approx(seconds)
    assert next_due(schedule, NOON, NOON) == NOON + timedelta(seconds=seconds)


def test_a_timedelta_is_a_duration() -> None:
    assert parse_schedule(timedelta(minutes=2)) == Every(120.0, "120s")


def test_none_is_manual_and_calculated_is_a_word() -> None:
    assert parse_schedule(None) == Manual()
    assert parse_schedule(" Calculated ") == Calculated()
    assert next_due(Manual(), NOON, NOON) is None
    assert next_due(Calculated(), NOON, NOON) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*/5 * * * *", datetime(2026, 5, 1, 12, 5, tzinfo=UTC)),
        ("*/10 * * * * *", datetime(2026, 5, 1, 12, 0, 10, tzinfo=UTC)),
        ("30 0 6 * * MON", datetime(2026, 5, 4, 6, 0, 30, tzinfo=UTC)),
        ("@hourly", datetime(2026, 5, 1, 13, tzinfo=UTC)),
        ("@Daily", datetime(2026, 5, 2, tzinfo=UTC)),
        ("@yearly", datetime(2027, 1, 1, tzinfo=UTC)),
    ],
)
def test_cron_with_five_and_six_fields_and_words(text: str, expected: datetime) -> None:
    schedule = parse_schedule(text)
    assert isinstance(schedule, Cron)
    assert next_due(schedule, NOON, NOON) == expected


@pytest.mark.parametrize("word", WORDS)
def test_every_word_is_a_cron_that_happens(word: str) -> None:
    at = next_due(parse_schedule(word), NOON, NOON)
    assert at is not None
    assert at > NOON


def test_cron_speaks_of_the_zone_of_the_instants() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    at = next_due(parse_schedule("0 6 * * *"), NOON.astimezone(berlin), NOON)
    assert at == datetime(2026, 5, 2, 6, tzinfo=berlin)


def test_missed_times_count_once() -> None:
    assert next_due(parse_schedule("@hourly"), NOON - timedelta(hours=5), NOON) == NOON - timedelta(hours=4)
    assert next_due(parse_schedule("2s"), NOON - timedelta(hours=5), NOON) < NOON


def test_never_refreshed_is_due_now() -> None:
    assert next_due(parse_schedule("2s"), None, NOON) == NOON
    assert next_due(parse_schedule("@daily"), None, NOON) == NOON


@pytest.mark.parametrize(
    "text",
    ["", "2", "2x", "s2", "-2s", "0s", "30m1h", "1h1h", "@fortnightly", "* * * *", "61 * * * *", "0 0 31 2 *", "soon"],
)
def test_what_is_not_understood_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(SettingError) as caught:
        parse_schedule(text)
    assert caught.value.code == "SCHEDULE_NOT_UNDERSTOOD"
    assert repr(text) in caught.value.message
    assert "cron with five or six fields" in caught.value.detail
    assert "'1h30m'" in caught.value.hint
