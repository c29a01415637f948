"""Time as a source: one instant a tick, and the same one when the rows are checked."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

import anabranch
from anabranch import refresh


class FrozenTime(datetime):
    """A clock that the test sets."""

    at = datetime(2026, 5, 1, 23, 59, tzinfo=UTC)

    @classmethod
    def now(cls, tz: object = None) -> datetime:
        return cls.at.astimezone(tz)  # type: ignore[arg-type]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> type[FrozenTime]:
    monkeypatch.setattr(refresh, "datetime", FrozenTime)
    monkeypatch.setattr(FrozenTime, "at", datetime(2026, 5, 1, 12, 0, tzinfo=UTC))
    return FrozenTime


def test_a_query_that_reads_the_date_is_differential_until_the_day_ends(
    lake: anabranch.Lake, clock: type[FrozenTime]
) -> None:
    lake.sql("CREATE TABLE sales (day DATE, amount BIGINT)")
    lake.sql("INSERT INTO sales VALUES (DATE '2026-04-30', 1), (DATE '2026-05-01', 2), (DATE '2026-05-02', 4)")
    lake.create_stream_table("today", "SELECT SUM(amount) AS total FROM sales WHERE day = current_date")
    lake.create_stream_table("days", "SELECT day, datediff(current_date(), day) AS age FROM sales")
    lake.create_stream_table("both", "SELECT t.total, d.age FROM today t CROSS JOIN days d")
    assert lake.table("today").collect() == [(2,)]
    assert lake.frontier("both").clock == "2026-05-01"

    clock.at += timedelta(hours=3)
    report = lake.refresh()
    assert {each.action for each in report.values()} == {"NO_DATA"}
    lake.sql("INSERT INTO sales VALUES (DATE '2026-05-01', 10)")
    report = lake.refresh()
    assert report["today"].action == "DIFFERENTIAL"
    assert lake.table("today").collect() == [(12,)]

    clock.at += timedelta(hours=12)
    report = lake.refresh()
    assert (report["today"].action, report["today"].reason) == ("FULL", "CLOCK_MOVED")
    assert report["both"].action == "DIFFERENTIAL"
    assert lake.table("today").collect() == [(4,)]
    assert lake.frontier("both").clock == "2026-05-02"
    for name in ("today", "days", "both"):
        assert lake.check(name)


def test_nodes_that_read_the_time_see_one_instant_a_tick(lake: anabranch.Lake) -> None:
    lake.sql("CREATE TABLE events (id BIGINT)")
    lake.append("events", [(1,), (2,)])
    lake.create_stream_table("one", "SELECT id, now() AS at, current_timestamp AS again FROM events")
    lake.create_stream_table("other", "SELECT id, current_timestamp() AS at, unix_timestamp() AS seconds FROM events")
    lake.create_stream_table("pairs", "SELECT one.id, one.at = other.at AS same FROM one JOIN other USING (id)")
    for _ in range(2):
        report = lake.refresh()
        assert report["one"].reason.startswith("NOT_DIFFERENTIABLE: time function")
        assert sorted(tuple(row) for row in lake.table("pairs").collect()) == [(1, True), (2, True)]
        time.sleep(0.01)
        for name in ("one", "other", "pairs"):
            assert lake.check(name), "checked at the instant that it was worked out"
    (group,) = lake.diamond_groups()
    assert "the clock" in group.shared_sources
