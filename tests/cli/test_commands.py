"""The command line as scripts use it: JSON, exit codes, errors on stderr, which lake is meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import anabranch
from anabranch.cli import main
from anabranch.cli.main import app
from anabranch.cli.shell import Shell, complete_statements
from anabranch.cli.status import in_words
from anabranch.cli.terminal import EXIT_MEANINGS, Exit

COMMANDS = [each.name for each in app.registered_commands]


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=stdin)


def as_json(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def shop(lake: anabranch.Lake, monkeypatch: pytest.MonkeyPatch) -> anabranch.Lake:
    """A lake with a diamond, which the environment names."""
    lake.sql("CREATE TABLE sales (id BIGINT, region STRING, amount DECIMAL(12,2))")
    lake.create_stream_table("by_region", "SELECT region, SUM(amount) AS revenue FROM sales GROUP BY region")
    lake.create_stream_table("total", "SELECT COUNT(*) AS n, SUM(id) AS ids FROM sales")
    lake.create_stream_table("both", "SELECT r.region, t.n FROM by_region r CROSS JOIN total t", schedule="2s")
    monkeypatch.setenv("ANABRANCH_LAKE", lake._engine.path)
    return lake


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_json(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "Example: anabranch" in " ".join(result.stdout.split())
    assert "--json" in result.stdout or command in ("serve", "bench")


def test_exit_codes_are_documented() -> None:
    assert set(EXIT_MEANINGS) == set(Exit)


def test_which_lake_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from anabranch.cli.lakes import find_lake

    monkeypatch.delenv("ANABRANCH_LAKE", raising=False)
    monkeypatch.chdir(tmp_path)
    result = run("status")
    assert result.exit_code == Exit.REFUSED
    assert "LAKE_NOT_CHOSEN" in result.stderr
    assert result.stdout == ""
    assert json.loads(run("status", "--json").stderr)["error"]["code"] == "LAKE_NOT_CHOSEN"
    assert run("status", "--lake", "nowhere").exit_code == Exit.REFUSED
    assert run("status", "--colour").exit_code == Exit.USAGE

    (tmp_path / "catalog.sqlite").touch()
    assert find_lake(None, None).path == "."
    (tmp_path / "anabranch.toml").write_text('lake = "data/lake"\ncatalog = "postgres:dbname=x"\n')
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert find_lake(None, None).path == str(tmp_path / "data" / "lake")
    assert find_lake(None, None).catalog == "postgres:dbname=x"
    assert find_lake("other", None).path == "other"


def test_looking_at_a_lake(shop: anabranch.Lake) -> None:
    assert [row["name"] for row in as_json("status")] == ["both", "by_region", "total"]
    assert {row["reason"] for row in as_json("history", "both")} == {"FIRST_REFRESH"}
    graph = as_json("graph")
    assert graph["sources"] == ["sales"]
    assert {"from": "sales", "to": "total"} in graph["edges"]
    assert as_json("diamonds")[0]["convergence"] == "both"
    sections = as_json("explain", "both", "--quick")["sections"]
    assert sections["query"].startswith("SELECT r.region")
    assert "FIRST_REFRESH" in sections["last refreshes"]
    for command in ("status", "history", "graph", "diamonds"):
        result = run(command)
        assert result.exit_code == 0
        assert "both" in result.stdout
    assert "flowchart LR" in run("graph", "--format", "mermaid").stdout
    assert "digraph" in run("graph", "both", "--format", "dot").stdout
    assert "sales" in run("graph", "both").stdout
    assert run("history", "nobody").exit_code == Exit.REFUSED
    assert run("explain").exit_code == Exit.REFUSED


def test_working_on_a_lake(shop: anabranch.Lake, tmp_path: Path) -> None:
    script = tmp_path / "writes.sql"
    script.write_text("INSERT INTO sales VALUES (1, 'north', 2.5);\nINSERT INTO sales VALUES (2, 'a;b', NULL);")
    assert run("sql", str(script)).exit_code == 0
    report = as_json("refresh")
    assert {each["action"] for each in report["nodes"]} <= {"DIFFERENTIAL", "FULL"}
    assert len(report["nodes"]) == 3
    assert as_json("refresh")["spark_jobs"] == 0
    result = run("sql", "--json", "-c", "SELECT * FROM sales ORDER BY id", "-c", "SHOW STREAM TABLES")
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    assert first == {
        "columns": ["id", "region", "amount"],
        "rows": [[1, "north", "2.50"], [2, "a;b", None]],
        "more": False,
    }
    assert len(second["rows"]) == 3
    assert "a;b" in run("sql", stdin="SELECT region FROM sales WHERE id = 2;").stdout
    assert "and more" in run("sql", "--limit", "1", "-c", "TABLE sales").stdout
    assert all(each["ok"] for each in as_json("check"))
    assert "DIFFERENTIAL" in as_json("explain", "total")["sections"]["mode"]
    assert "kernel plan" in run("explain", "--query", "SELECT id FROM sales").stdout
    wrong = run("sql", "-c", "SELECT nothing FROM sales")
    assert wrong.exit_code == Exit.REFUSED
    assert "UNRESOLVED_COLUMN" in wrong.stderr
    assert "Traceback" not in wrong.stderr + wrong.stdout


def test_a_failing_table_ends_the_refresh_with_1(lake: anabranch.Lake) -> None:
    lake.sql("CREATE TABLE numbers (n BIGINT)")
    lake.create_stream_table("inverse", "SELECT 1 / n AS i FROM numbers")
    lake.sql("INSERT INTO numbers VALUES (0)")
    result = run("refresh", "--lake", lake._engine.path)
    assert result.exit_code == Exit.NOT_SO
    assert "DIVIDE_BY_ZERO" in result.stdout
    assert (
        "DIVIDE_BY_ZERO" in as_json("explain", "inverse", "--quick", "--lake", lake._engine.path)["sections"]["error"]
    )


def test_a_project_is_made_found_and_planned_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What apply does with it is run from the documents."""
    monkeypatch.delenv("ANABRANCH_LAKE", raising=False)
    monkeypatch.chdir(tmp_path)
    assert "anabranch.toml" in run("init", "mine").stdout
    assert run("init", "mine").exit_code == Exit.REFUSED
    assert "PROJECT_NOT_FOUND" in run("plan").stderr
    monkeypatch.chdir(tmp_path / "mine")
    assert run("plan", "--quick", "--exit-code").exit_code == Exit.CHANGES
    assert not (tmp_path / "mine" / "lake").exists(), "a plan changes nothing"
    planned = as_json("plan", "--quick")
    assert [step["name"] for step in planned["steps"]] == [
        "sales",
        "exec_summary",
        "revenue_by_product",
        "revenue_by_region",
    ]
    assert "anabranch apply" in run("status").stderr, "who has a project and no lake is told how to make it"


def test_what_nobody_foresaw_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "broken.sql").write_bytes(b"\xff\xfe")
    result = run("sql", "--lake", str(tmp_path / "new"), "--create", str(tmp_path / "broken.sql"))
    assert result.exit_code == Exit.REFUSED
    assert "FILE_NOT_USABLE" in result.stderr
    assert "Traceback" not in result.stderr


def test_ctrl_c_ends_cleanly(shop: anabranch.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(anabranch.Lake, "refresh", interrupted)
    result = run("refresh")
    assert result.exit_code == Exit.INTERRUPTED
    assert "interrupted" in result.stderr


def test_the_shell(
    shop: anabranch.Lake, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    lines = iter(["SELECT 1 +", "  41 AS answer; SELECT", "KeyboardInterrupt", "\\d", "\\?", "SELECT wrong;", "\\q"])

    def read(_: str) -> str:
        line = next(lines)
        if line == "KeyboardInterrupt":
            raise KeyboardInterrupt
        return line

    Shell(shop, 10, read).run()
    told = capsys.readouterr()
    assert "42" in told.out
    assert "by_region  (stream table)" in told.out
    assert "UNRESOLVED_COLUMN" in told.err
    assert (tmp_path / "anabranch" / "history").exists()


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("SELECT 1;\n", ["SELECT 1"], ""),
        ("SELECT ';' AS a", [], "SELECT ';' AS a"),
        ("SELECT 'open;\n", [], "SELECT 'open;\n"),
        ("SELECT 1; SELECT\n", ["SELECT 1"], "SELECT\n"),
        ("-- a remark\n", [], ""),
        ("\n", [], ""),
    ],
)
def test_what_is_complete(text: str, statements: list[str], rest: str) -> None:
    assert complete_statements(text) == (statements, rest)


def test_durations_in_words() -> None:
    assert [in_words(each) for each in (-1, 3, 90, 7200, 200000)] == ["0 s", "3 s", "2 min", "2 h", "2 d"]


def test_the_demo_is_right_from_start_to_end(lake: anabranch.Lake) -> None:
    lake.sql("CREATE TABLE unused (n BIGINT)")
    told = as_json("demo")
    assert told["kill"]["killed"]
    assert all(each["equal"] for each in told["rounds"])
    assert all(each["ok"] for each in told["checks"])


def test_the_version() -> None:
    assert run("--version").stdout.strip() == "0.1.0"
    assert main.__doc__
