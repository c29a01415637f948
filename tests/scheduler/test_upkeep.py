"""What the scheduler does besides refreshing: it holds the lease, and compacts tables that have many files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import anabranch
from anabranch import compaction
from anabranch.scheduler import holder, lease_of
from tests.schedule.test_lease import check_one_holder, postgres  # noqa: F401  a fixture
from tests.scheduler.shop import scheduler_of, wait_until

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

    from tests.scheduler.conftest import Opener


def test_a_table_with_many_files_is_compacted(open_lake: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "SECONDS_BETWEEN", 0.0)
    lake = open_lake(compact_after_files=4)
    lake.sql("CREATE TABLE sales (id BIGINT)")
    lake.create_stream_table("total", "SELECT COUNT(*) AS n FROM sales", "100ms")
    for number in range(6):
        lake.append("sales", [(number,)])
    store, pinned = lake._engine.store, lake._engine.pin()
    sales = pinned.id_of("sales")
    assert store.file_counts()[sales] == 6
    before = store.head()
    with scheduler_of(lake):
        assert wait_until(lambda: store.file_counts()[sales] == 1, 60)
    assert lake.table("total").collect() == [(6,)]
    assert lake.check("total")
    assert lake.snapshot(before.number).table("sales").count() == 6
    lake.append("sales", [(7,)])
    assert lake.refresh()["total"].action == "DIFFERENTIAL", "compaction is no change"
    assert lake.table("total").collect() == [(7,)]


def test_one_scheduler_per_lake_with_a_catalog_in_postgres(
    spark: SparkSession,
    tmp_path: Path,
    postgres: list[str],  # noqa: F811
) -> None:
    host, user = postgres[postgres.index("-h") + 1], postgres[postgres.index("-U") + 1]
    catalog = f"postgres:host={host} user={user} dbname=postgres"
    with (
        anabranch.connect(str(tmp_path), spark=spark, catalog=catalog) as lake,
        anabranch.connect(str(tmp_path), spark=spark, catalog=catalog) as other,
    ):
        check_one_holder(lease_of(lake._engine), lease_of(other._engine))
        lake.sql("CREATE TABLE sales (id BIGINT)")
        lake.create_stream_table("total", "SELECT COUNT(*) AS n FROM sales", "100ms")
        with scheduler_of(lake):
            assert wait_until(lambda: holder(other._engine) is not None, 30)
            lake.append("sales", [(1,)])
            assert wait_until(lambda: other.table("total").collect() == [(1,)], 60)
        assert holder(other._engine) is None
