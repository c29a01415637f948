"""One direction of imports: a stage imports the algebra, the errors and the stages before it, never one after it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "anabranch"
STAGES = (
    "sql",
    "algebra",
    "lower",
    "delta",
    "fuse",
    "spark",
    "store",
    "graph",
    "schedule",
    "observe",
    "project",
    "bench",
    "cli",
)
FOR_ALL = frozenset({"algebra", "errors", "settings"})
ABOVE_THE_ENGINE = frozenset({"observe", "project", "cli", "bench"})
"""These look at the engine as a whole; for all other stages the modules beside them are above."""
MAY_IMPORT_PYSPARK = frozenset({"spark", "store"})


def imports(path: Path, at_run_time: bool = False) -> Iterator[str]:
    """The modules that a file imports; `at_run_time` leaves out those for the type checker alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if at_run_time and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            skipped.update(each for child in node.body for each in ast.walk(child))
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports by a relative name"
            module = node.module or ""
            yield from (f"{module}.{alias.name}" for alias in node.names) if module == "anabranch" else (module,)


def stage_of(path: Path) -> str | None:
    """The stage that a file belongs to; None for the modules beside the stages."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else None


def test_every_folder_is_a_stage() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert folders <= set(STAGES)


def test_a_stage_imports_only_what_comes_before_it() -> None:
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        stage = stage_of(path)
        for module in imports(path):
            if stage is None or not module.startswith("anabranch."):
                continue
            target = module.split(".")[1]
            if target in FOR_ALL or target == stage:
                continue
            allowed = STAGES.index(target) < STAGES.index(stage) if target in STAGES else stage in ABOVE_THE_ENGINE
            if not allowed:
                wrong.append(f"{path.relative_to(PACKAGE)} imports {module}")
    assert wrong == []


def test_the_engine_does_not_know_its_commands() -> None:
    wrong = [
        f"{path.name} imports {module}"
        for path in sorted(PACKAGE.glob("*.py"))
        if path.name != "__main__.py"
        for module in imports(path)
        if module.startswith(("anabranch.cli", "anabranch.bench", "anabranch.project"))
    ]
    assert wrong == []


def test_the_algebra_stands_alone() -> None:
    for path in sorted((PACKAGE / "algebra").rglob("*.py")):
        for module in imports(path):
            assert not module.startswith("anabranch.") or module.split(".")[1] in ("algebra", "errors"), path


def test_only_spark_and_store_import_pyspark_when_they_run() -> None:
    """So that the stages before them can be read, tested and thought about without it."""
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {module}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if stage_of(path) not in MAY_IMPORT_PYSPARK
        for module in imports(path, at_run_time=True)
        if module.split(".")[0] in ("pyspark", "py4j")
    ]
    assert wrong == []


def test_packages_only_name_what_they_offer() -> None:
    for path in sorted(PACKAGE.rglob("__init__.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            assert is_text or isinstance(node, ast.ImportFrom | ast.Assign), f"{path} does more than name things"
