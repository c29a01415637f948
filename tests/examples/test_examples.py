"""Every example runs as it is, and its own checks hold."""

from __future__ import annotations

import ast
import json
import runpy
import shutil
import sys
from pathlib import Path

import pytest

import anabranch
from anabranch.project.apply import apply_project
from anabranch.project.find import project_in
from anabranch.project.read import read_project
from anabranch.sql.statements import split_statements

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
PROJECTS = sorted(each for each in EXAMPLES.iterdir() if each.is_dir() and each.name[0].isdigit())


def test_there_are_examples_and_all_are_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    numbered = [each.name for each in EXAMPLES.iterdir() if each.name[0].isdigit()]
    assert len(numbered) >= 8
    assert [name for name in numbered if f"({name})" not in listed] == []


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert "assert " in script.read_text(), "an example checks its result"
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.usefixtures("spark")
def test_the_notebook_runs() -> None:
    names: dict[str, object] = {}
    for cell in json.loads((EXAMPLES / "08_notebook.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code":
            run_cell("".join(cell["source"]), names)


def run_cell(text: str, names: dict[str, object]) -> None:
    """A cell as a notebook runs it: the value of its last expression is shown, as HTML where it has some."""
    module = ast.parse(text)
    last = module.body.pop() if isinstance(module.body[-1], ast.Expr) else None
    exec(compile(module, "cell", "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        if hasattr(value, "_repr_html_"):
            assert "<" in value._repr_html_()


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda path: path.name)
def test_a_project_can_be_applied_and_is_right(folder: Path, lake: anabranch.Lake, tmp_path: Path) -> None:
    copy = tmp_path / "project"
    shutil.copytree(folder, copy)
    if (copy / "sources.sql").exists():
        run(lake, copy / "sources.sql")
    project = project_in(copy)
    assert project is not None
    desired = read_project(project)
    apply_project(lake._engine, desired)
    run(lake, copy / "check.sql")
    for name in desired.tables:
        assert lake.check(name)
        assert lake.table(name).count() > 0


def run(lake: anabranch.Lake, file: Path) -> None:
    for statement in split_statements(file.read_text()):
        lake.sql(statement).collect()
