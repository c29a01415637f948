"""What the documents show is true: their Python runs as pasted, and prints what stands below it."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch import Lake

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
FILE = re.compile(r"`((?:[\w.-]+/)*[\w-]+\.(?:py|md|toml))`")


def blocks(path: Path) -> Iterator[tuple[str, str | None]]:
    """Python, and the text that directly follows it: what it prints, `...` standing for anything."""
    text = path.read_text(encoding="utf-8")
    found = list(BLOCK.finditer(text))
    for place, block in enumerate(found):
        if block[1] != "python":
            continue
        following = found[place + 1] if place + 1 < len(found) else None
        is_output = (
            following is not None and following[1] == "text" and not text[block.end() : following.start()].strip()
        )
        yield block[2], following[2] if is_output and following is not None else None


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if "import anabranch" in path.read_text(encoding="utf-8")])
def test_python_in_documents_runs_as_pasted(
    path: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        for code, output in blocks(path):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, str(path), "exec"), names)
            if output is not None:
                said = printed.getvalue()
                matches = doctest.OutputChecker().check_output(
                    output, said, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
                )
                assert matches, f"{path.name} shows\n{output}\nand the code prints\n{said}"
    finally:
        if "lake" in names:
            names["lake"].close()


def test_the_plans_in_life_of_a_refresh_are_those_of_explain(lake: Lake) -> None:
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
    first_screen = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:35])
    (code,) = [block[2] for block in BLOCK.finditer(first_screen) if block[1] == "python"]
    assert len(code.strip().splitlines()) <= 12
    assert "make demo" in first_screen
    assert "make test" in first_screen


@pytest.mark.parametrize("path", [*DOCUMENTS, ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name)
def test_links_and_files_named_in_documents_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for link in LINK.findall(text):
        assert (path.parent / link).exists(), f"{path.name} links to {link}"
    for name in FILE.findall(text):
        places = (path.parent / name, ROOT / name, ROOT / "anabranch" / name)
        assert any(place.exists() for place in places) or _is_somewhere(name), f"{path.name} names {name}"


def _is_somewhere(name: str) -> bool:
    return any((ROOT / "anabranch").rglob(name)) or any((ROOT / "tests").rglob(name))
