"""Looking leaves no trace: the session means afterwards what the user let it mean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import anabranch
from anabranch import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZONE = "spark.sql.session.timeZone"


@pytest.mark.parametrize("look", [lambda lake: lake.explain("days"), lambda lake: lake.check("days")])
def test_explain_and_check_leave_the_session_as_it_was(
    spark: SparkSession, tmp_path: Path, look: Callable[[Lake], object]
) -> None:
    """They run under the settings that the stream table was defined under, which are not today's."""
    with anabranch.connect(str(tmp_path / "shop"), spark=spark) as lake:
        lake.spark.conf.set(ZONE, "Asia/Tokyo")
        lake.sql("CREATE TABLE events (at TIMESTAMP)")
        lake.sql("INSERT INTO events VALUES (TIMESTAMP '2026-05-01 20:00:00 UTC')")
        lake.create_stream_table("days", "SELECT CAST(at AS DATE) AS day FROM events")
    with anabranch.connect(str(tmp_path / "shop"), spark=spark) as lake:
        lake.spark.conf.set(ZONE, "UTC")
        assert look(lake)
        assert lake.spark.conf.get(ZONE) == "UTC"
        assert [str(row[0]) for row in lake.sql("SELECT CAST(at AS DATE) FROM events").collect()] == ["2026-05-01"]
        assert [str(row[0]) for row in lake.table("days").collect()] == ["2026-05-02"]
