"""What the documents say is true: their code runs, their links lead somewhere, their reference is that of the code."""

from __future__ import annotations

import os
import re
import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch.observe.reasons import REASONS, reason_of
from tests.documents import ROOT, SHOWN_ONLY, blocks, links, run_console, run_python

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")])
RUN_PYTHON = (
    "docs/graph-and-schedule.md",
    "docs/how-to/diamonds.md",
    "docs/how-to/duckdb.md",
    "docs/how-to/from-full-recompute.md",
    "docs/how-to/schedules.md",
    "docs/how-to/slow-table.md",
)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, as the current one."""
    monkeypatch.delenv("ANABRANCH_LAKE", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("spark", "elsewhere")
def test_the_first_python_of_the_readme_runs_as_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    first = next(each for each in blocks(ROOT / "README.md") if each.language == "python")
    names: dict[str, Any] = {}
    run_python(first.text, names)
    names["lake"].close()
    assert "equal to the query run from scratch" in capsys.readouterr().out


@pytest.mark.usefixtures("spark", "elsewhere")
def test_the_commands_of_the_readme_run() -> None:
    for block in blocks(ROOT / "README.md"):
        if block.language == "console":
            run_console(block.text)


@pytest.mark.usefixtures("spark", "elsewhere")
@pytest.mark.parametrize("page", RUN_PYTHON)
def test_python_of_a_page_runs(page: str) -> None:
    names: dict[str, Any] = {}
    for block in blocks(ROOT / page):
        if block.language == "python":
            run_python(block.text, names)


@pytest.mark.usefixtures("spark", "elsewhere")
def test_getting_started_from_top_to_bottom() -> None:
    names: dict[str, Any] = {}
    for block in blocks(ROOT / "docs" / "getting-started.md"):
        if block.language == "console":
            run_console(block.text)
        elif block.language == "python":
            run_python(block.text, names)


@pytest.mark.usefixtures("spark", "elsewhere")
def test_projects_from_top_to_bottom() -> None:
    for block in blocks(ROOT / "docs" / "projects.md"):
        if block.language == "console":
            run_console(block.text)
        elif block.language == "python":
            run_python(block.text, {})
        elif block.language == "toml":
            Path("anabranch.toml").write_text(block.text)
            run_console("$ anabranch apply")
        elif block.language == "sql":
            Path("tables/revenue_by_region.sql").write_text(block.text)
            run_console("$ anabranch apply")


@pytest.mark.usefixtures("spark")
def test_why_full_from_top_to_bottom(elsewhere: Path) -> None:
    names: dict[str, Any] = {}
    page = blocks(ROOT / "docs" / "how-to" / "why-full.md")
    for block in page:
        if block.language == "python":
            run_python(block.text, names)
    os.chdir(elsewhere / "orders_lake")
    for block in page:
        if block.language == "console":
            run_console(block.text)


def test_the_pipelines_page_runs(lake: anabranch.Lake, elsewhere: Path) -> None:
    shutil.copytree(ROOT / "examples" / "12_spark_pipelines", elsewhere / "pipeline")
    os.chdir(elsewhere / "pipeline")
    run_console('$ anabranch sql --lake lake --create -c "CREATE TABLE clicks (page STRING, is_robot BOOLEAN)"')
    for block in blocks(ROOT / "docs" / "spark-pipelines.md"):
        if block.language == "console":
            run_console(block.text)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere_and_blocks_have_a_known_language(page: Path) -> None:
    assert [each for each in links(page) if not (page.parent / each).exists()] == []
    assert {each.language for each in blocks(page)} <= {*SHOWN_ONLY, "python", "console"}


def test_the_reference_is_that_of_the_code() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "generate.py"))["pages"]()
    for name, text in made.items():
        there = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
        assert there == text, f"docs/reference/{name} has fallen behind: run `make docs`"


def test_reasons_are_found_by_their_first_word() -> None:
    found = reason_of("NOT_DIFFERENTIABLE: approximate aggregate: percentile_approx")
    assert found is REASONS["NOT_DIFFERENTIABLE"]
    assert reason_of("SOMETHING_ELSE") is None


def test_the_plans_in_life_of_a_refresh_are_those_of_explain(lake: anabranch.Lake) -> None:
    """`...` stands for anything within a line."""
    text = (ROOT / "docs" / "life-of-a-refresh.md").read_text(encoding="utf-8")
    (statement,) = re.findall(r"^```sql\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    plans = re.findall(r"^ *```\n( *r0 := .*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    lake.sql("CREATE TABLE sales (id BIGINT, region STRING, product_id BIGINT, amount DECIMAL(12,2))")
    lake.sql(statement)
    explained = lake.explain("revenue_by_region")
    for title, plan in zip(("kernel plan", "delta plan when sales changes"), plans, strict=True):
        shown = [re.escape(line.strip()).replace(r"\.\.\.", ".*") for line in plan.strip().splitlines()]
        found = explained[title].splitlines()
        assert len(shown) == len(found), explained[title]
        for pattern, line in zip(shown, found, strict=True):
            assert re.fullmatch(pattern, line), f"{title}: {line}"


def test_the_first_screen_of_the_readme_says_what_to_do() -> None:
    first_screen = (ROOT / "README.md").read_text(encoding="utf-8").split("## ")[0]
    code = next(each for each in blocks(ROOT / "README.md") if each.language == "python").text
    assert code in first_screen
    assert len(code.strip().splitlines()) <= 12
    assert "make demo" in first_screen
    assert "make test" in first_screen
