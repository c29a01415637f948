"""What a project's files say, and where an error in them is."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.errors import AnabranchError
from anabranch.project.find import find_project
from anabranch.project.new import FILES, make_project
from anabranch.project.order import in_order
from anabranch.project.read import read_project
from tests.project.folders import read


def test_a_file_is_a_stream_table_with_the_settings_of_its_leading_comment(tmp_path: Path) -> None:
    text = "-- Revenue: by region.\n-- schedule: 2s\n-- refresh_mode: differential\n\nSELECT 1 AS one"
    table = read(tmp_path, {"tables/revenue.sql": text}).tables["revenue"]
    assert (table.name, table.schedule, table.refresh_mode) == ("revenue", "2s", "DIFFERENTIAL")
    assert table.query == "SELECT 1 AS one"
    assert str(table.place) == "tables/revenue.sql:5"


def test_front_matter_between_dashes(tmp_path: Path) -> None:
    text = "---\nname: other\nschedule: none\n---\nSELECT 1 AS one"
    files = {"anabranch.toml": '[defaults]\nschedule = "5m"\n', "tables/a.sql": text, "tables/b.sql": "SELECT 2 AS two"}
    desired = read(tmp_path, files)
    assert desired.tables["other"].schedule is None
    assert desired.tables["b"].schedule == "5m"
    assert desired.name == tmp_path.name


def test_statements_of_one_file(tmp_path: Path) -> None:
    text = """CREATE TABLE sales (id BIGINT, amount DECIMAL(12,2));
        CREATE VIEW large AS SELECT * FROM sales WHERE amount > 10;
        CREATE STREAM TABLE totals SCHEDULE '2s' REFRESH MODE FULL AS
        SELECT COUNT(*) AS n FROM large;"""
    desired = read(tmp_path, {"tables/all.sql": text})
    assert [each.name for each in desired.sources["sales"].columns] == ["id", "amount"]
    assert desired.views["large"].query == "SELECT * FROM sales WHERE amount > 10"
    assert (desired.tables["totals"].schedule, desired.tables["totals"].refresh_mode) == ("2s", "FULL")
    assert desired.tables["totals"].place.line == 4


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("-- schedule: sometimes\nSELECT 1 AS one", "SCHEDULE_NOT_UNDERSTOOD", 1),
        ("-- a remark\n-- shedule: 2s\nSELECT 1 AS one", "BAD_FRONT_MATTER", 2),
        ("-- refresh_mode: QUICK\nSELECT 1 AS one", "BAD_REFRESH_MODE", 1),
        ("---\nschedule: 2s\nSELECT 1", "BAD_FRONT_MATTER", 1),
        ("---\ncolour: red\n---\nSELECT 1", "BAD_FRONT_MATTER", 2),
        ("-- schedule: 2s\n-- schedule: 3s\nSELECT 1", "BAD_FRONT_MATTER", 2),
        ("-- a remark\n\nINSERT INTO t VALUES (1)", "NOT_A_DEFINITION", 3),
        ("SELECT 1;\nSELECT 2", "BARE_QUERY_NOT_ALONE", 1),
        ("SELECT 1,\n  'open", "QUERY_SYNTAX", 2),
        ("CREATE STREAM TABLE a\n  SOMETIMES AS SELECT 1", "QUERY_SYNTAX", 2),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, text: str, code: str, line: int) -> None:
    with pytest.raises(AnabranchError) as caught:
        read(tmp_path, {"tables/a.sql": text})
    assert caught.value.code == code
    assert caught.value.place == f"tables/a.sql:{line}"


def test_two_files_of_one_name(tmp_path: Path) -> None:
    files = {"tables/a.sql": "SELECT 1", "tables/b.sql": "CREATE VIEW A AS SELECT 1"}
    with pytest.raises(AnabranchError, match="defined twice") as caught:
        read(tmp_path, files)
    assert "tables/a.sql:1" in caught.value.detail
    assert "tables/b.sql:1" in caught.value.detail


@pytest.mark.parametrize("text", ["lake = ", "shedule = 1", "[defaults]\ncolour = 1", "defaults = 1", "tables = []"])
def test_a_project_file_that_means_nothing(tmp_path: Path, text: str) -> None:
    with pytest.raises(AnabranchError) as caught:
        read(tmp_path, {"anabranch.toml": text})
    assert caught.value.code in ("BAD_PROJECT_FILE", "PROJECT_IS_EMPTY")


def test_a_setting_of_the_project_is_checked(tmp_path: Path) -> None:
    files = {"anabranch.toml": "[settings]\ncompact_after_files = 1\n", "tables/a.sql": "SELECT 1 AS one"}
    with pytest.raises(AnabranchError, match="BAD_SETTING"):
        read(tmp_path, files)


def test_inputs_are_defined_before_their_readers(tmp_path: Path) -> None:
    files = {
        "tables/a.sql": "SELECT * FROM v",
        "tables/b.sql": "SELECT 1 AS n",
        "tables/v.sql": "CREATE VIEW v AS TABLE b",
    }
    assert [each.name for each in in_order(read(tmp_path, files))] == ["b", "a"]
    with pytest.raises(AnabranchError, match="TABLES_READ_EACH_OTHER") as caught:
        in_order(read(tmp_path, {"tables/a.sql": "SELECT * FROM b", "tables/b.sql": "SELECT * FROM a"}))
    assert "tables/a.sql:1" in caught.value.detail


def test_a_new_project_can_be_read_and_found_from_below(tmp_path: Path) -> None:
    make_project(tmp_path / "shop")
    project = find_project(tmp_path / "shop" / "tables")
    assert project is not None
    desired = read_project(project)
    assert desired.name == "shop"
    assert len(desired.tables) + len(desired.sources) == len(FILES) - 2
    with pytest.raises(AnabranchError, match="FOLDER_NOT_EMPTY"):
        make_project(tmp_path / "shop")
