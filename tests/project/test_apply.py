"""Projects applied to a real lake: the plan afterwards is empty, rows are right, no more was done than had to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch import AnabranchError, Lake
from anabranch.project.apply import Applied, apply_project, check_project, plan_project
from tests.lake.tools import head, rows
from tests.project.folders import read
from tests.project.test_plan import FILES

VIEW = {"tables/large.sql": "CREATE VIEW large AS SELECT * FROM sales WHERE amount > 5"}


def applied(lake: Lake, folder: Path, files: dict[str, str], allow_data_loss: bool = False) -> Applied:
    """Apply the files; afterwards there is nothing to do, and every table is what its query says."""
    desired = read(folder, files)
    done = apply_project(lake._engine, desired, allow_data_loss)
    assert plan_project(lake._engine, desired).steps == ()
    for name in desired.tables:
        assert lake.check(name)
    return done


def actions(done: Applied) -> dict[str, str]:
    assert done.report is not None
    return {name: each.reason.split(":")[0] for name, each in done.report.nodes.items() if each.rows_inserted}


def test_a_project_from_nothing_through_its_changes(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    first = applied(lake, folder, FILES)
    assert first.report is not None
    assert first.report.snapshot == head(lake)
    lake.sql("INSERT INTO sales VALUES (1, 'north', 10), (2, 'south', 5), (3, 'north', 1)")
    lake.refresh()

    before = head(lake)
    assert applied(lake, folder, FILES).report is None
    assert head(lake) == before

    query = "SELECT region, SUM(amount) AS revenue, COUNT(*) AS n FROM sales GROUP BY region"
    changed = FILES | {"tables/by_region.sql": query}
    done = applied(lake, folder, changed)
    assert head(lake) == before + 1
    assert set(actions(done)) == {"by_region"}

    renamed = changed | {"tables/total.sql": "SELECT SUM(regions.revenue) AS total FROM regions"}
    renamed["tables/regions.sql"] = renamed.pop("tables/by_region.sql")
    done = applied(lake, folder, renamed)
    assert head(lake) == before + 2
    assert actions(done) == {}
    assert rows(lake, "total")[(16,)] == 1
    assert "by_region" not in repr(lake.sql("SHOW TABLES").collect())

    lake.sql("INSERT INTO sales VALUES (4, 'east', 3)")
    report = lake.refresh()
    assert (report["regions"].rows_inserted, report["regions"].rows_deleted) == (1, 0)
    assert rows(lake, "regions")["east", 3, 1] == 1

    without = {name: text for name, text in renamed.items() if "total" not in name}
    applied(lake, folder, without)
    assert lake.status().column("name").to_pylist() == ["regions"]


def test_views_sources_and_settings_change_with_the_project(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    files = FILES | VIEW | {"tables/large_total.sql": "SELECT COUNT(*) AS n FROM large"}
    del files["tables/total.sql"]
    applied(lake, folder, files)
    lake.sql("INSERT INTO sales VALUES (1, 'north', 10), (2, 'south', 5)")
    lake.refresh()
    assert rows(lake, "large_total")[(1,)] == 1

    files["tables/large.sql"] = "CREATE VIEW large AS SELECT * FROM sales WHERE amount >= 5"
    files["anabranch.toml"] = 'name = "shop"\n[settings]\ncompact_after_files = 9\n'
    before = head(lake)
    applied(lake, folder, files)
    assert head(lake) == before + 1
    assert rows(lake, "large_total")[(2,)] == 1
    assert lake._engine.store.documents("setting/") == {"setting/compact_after_files": "9"}

    files["tables/sales.sql"] = "CREATE TABLE sales (id BIGINT, region STRING, amount DECIMAL(12,2), day DATE)"
    files["tables/by_day.sql"] = "SELECT day, COUNT(*) AS n FROM sales GROUP BY day"
    applied(lake, folder, files)
    assert rows(lake, "by_day")[None, 2] == 1

    files["tables/sales.sql"] = "CREATE TABLE sales (id BIGINT, region STRING, amount DECIMAL(12,2))"
    del files["tables/by_day.sql"]
    with pytest.raises(AnabranchError, match="DATA_WOULD_BE_LOST"):
        applied(lake, folder, files)
    wrong = files | {"tables/sales.sql": "CREATE TABLE sales (id BIGINT, amount DECIMAL(12,2))"}
    with pytest.raises(AnabranchError, match="UNRESOLVED_COLUMN") as caught:
        applied(lake, folder, wrong, allow_data_loss=True)
    assert caught.value.place == "tables/by_region.sql:2"
    applied(lake, folder, files, allow_data_loss=True)
    assert lake.table("sales").columns == ["id", "region", "amount"]


def test_nothing_is_done_if_one_query_is_wrong(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    wrong = "SELECT region,\n       amont\nFROM sales"
    before = head(lake)
    with pytest.raises(AnabranchError) as caught:
        apply_project(lake._engine, read(folder, FILES | {"tables/wrong.sql": wrong}))
    assert caught.value.place == "tables/wrong.sql:2"
    with pytest.raises(AnabranchError) as caught:
        apply_project(lake._engine, read(folder, FILES | {"tables/wrong.sql": "SELECT 1 AS a\nFROM nowhere"}))
    assert caught.value.place == "tables/wrong.sql:2"
    random = "-- refresh_mode: DIFFERENTIAL\nSELECT rand() AS r FROM sales"
    with pytest.raises(AnabranchError) as caught:
        apply_project(lake._engine, read(folder, FILES | {"tables/wrong.sql": random}))
    assert (caught.value.code, caught.value.place) == ("NOT_DIFFERENTIABLE", "tables/wrong.sql:2")
    assert head(lake) == before

    modes = check_project(lake._engine, read(folder, FILES | {"tables/r.sql": "SELECT rand() AS r FROM sales"})).modes
    assert modes["by_region"] == "DIFFERENTIAL"
    assert modes["r"].startswith("FULL, NOT_DIFFERENTIABLE")
    assert head(lake) == before
