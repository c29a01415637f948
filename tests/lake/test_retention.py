"""`compact` and `expire` take nothing a stream table still needs; once they may, its next refresh is full and right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import anabranch
from anabranch import AnabranchError, Lake
from tests.lake.tools import bag, head, outsider, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOTAL = "SELECT sum(amount) AS total FROM sales"


def shop(lake: Lake, schedule: str | None = None) -> Lake:
    lake.sql("CREATE TABLE sales (id BIGINT, amount INT)")
    lake.append("sales", [(number, number) for number in range(10)])
    lake.create_stream_table("total", TOTAL, schedule, refresh_mode="DIFFERENTIAL")
    lake.create_stream_table("twice", "SELECT total * 2 AS twice FROM total", schedule, refresh_mode="DIFFERENTIAL")
    return lake


def change(lake: Lake) -> None:
    for number in range(4):
        lake.sql(f"UPDATE sales SET amount = amount + 1 WHERE id = {number}")
        lake.append("sales", [(100 + number, 1)])


def test_history_that_a_frontier_needs_stays(lake: Lake) -> None:
    shop(lake)
    change(lake)
    lake.refresh("total")
    change(lake)
    assert lake.expire("0s") > 3
    lake.compact()
    report = lake.refresh()
    assert [each.action for each in report.values()] == ["DIFFERENTIAL", "DIFFERENTIAL"]
    assert rows(lake, "twice") == bag((122,))
    assert lake.check("total")
    assert lake.check("twice")


@pytest.mark.parametrize(("schedule", "action"), [(None, "FULL"), ("1h", "DIFFERENTIAL")])
def test_history_is_kept_longer_for_those_that_refresh_themselves(
    spark: SparkSession, tmp_path: Path, schedule: str | None, action: str
) -> None:
    """With no retention at all, one refreshed by hand loses its feed; one with a schedule does not."""
    with anabranch.connect(str(tmp_path / "shop"), spark=spark, history_retention="0s") as lake:
        shop(lake, schedule)
        change(lake)
        lake.compact()
        assert lake.expire("0s") > 3
        report = lake.refresh()
        assert report["total"].action == action
        if action == "FULL":
            assert report["total"].reason == "CHANGE_FEED_EXPIRED"
        assert lake.check("total")
        assert lake.check("twice")
        change(lake)
        assert lake.refresh()["total"].action == "DIFFERENTIAL"
        assert rows(lake, "twice") == bag((122,))


def test_a_paused_one_falls_behind_and_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    with anabranch.connect(str(tmp_path / "shop"), spark=spark, history_retention="0s") as lake:
        shop(lake, "1h")
        lake.pause("total", "twice")
        change(lake)
        report = lake.refresh()
        assert report["total"].reason.startswith("PAUSED")
        lake.expire("0s")
        lake.resume("total", "twice")
        report = lake.refresh()
        assert (report["total"].action, report["total"].reason) == ("FULL", "CHANGE_FEED_EXPIRED")
        assert lake.check("twice")


def test_an_expired_snapshot_says_so(lake: Lake) -> None:
    shop(lake)
    old = head(lake)
    change(lake)
    lake.refresh()
    lake.expire("0s")
    with pytest.raises(AnabranchError) as error:
        lake.table("sales", snapshot=old)
    assert error.value.code == "SNAPSHOT_NOT_FOUND"
    assert "kept snapshots" in error.value.detail
    assert rows(lake, "total") == bag((53,))


def test_compaction_changes_no_row_at_no_snapshot(lake: Lake) -> None:
    shop(lake)
    change(lake)
    lake.refresh()
    before = {number: rows(lake, "sales", number) for number in range(4, head(lake) + 1)}
    files = _files(lake)
    lake.compact()
    assert {number: rows(lake, "sales", number) for number in before} == before
    assert _files(lake) < files
    assert {each.action for each in lake.refresh().values()} == {"NO_DATA"}
    assert outsider(lake).execute("SELECT sum(amount) FROM sales").fetchone() == (53,)


def _files(lake: Lake) -> int:
    query = "SELECT count(*) FROM __ducklake_metadata_theirs.ducklake_data_file WHERE end_snapshot IS NULL"
    (found,) = outsider(lake).execute(query).fetchall()
    return int(found[0])
