"""A Spark Declarative Pipelines project as it is: materialized views become stream tables, temporary views views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from anabranch.errors import AnabranchError, NotFoundError, QueryError, SettingError
from anabranch.project.desired import Desired, Place, WantedTable, WantedView, desired_of
from anabranch.project.find import Project
from anabranch.project.located import at
from anabranch.project.pipeline_sql import pipeline_statement
from anabranch.sql.statements import statement_places

FIELDS = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
CHANGES_MEANING = (
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.storeAssignmentPolicy",
)


def read_pipeline(project: Project) -> Desired:
    """What the pipeline's files define."""
    assert project.pipeline is not None
    shown = project.pipeline.name
    with at(Place(shown)):
        spec = _spec(project.pipeline)
    found: list[WantedTable | WantedView] = []
    notices: list[str] = [f"{shown}: {name} is left aside" for name in _left_aside(spec)]
    for file in _files(project, spec):
        for each, aside in _definitions(project, file):
            found.append(each)
            notices += [f"{each.place}: {name} of {each.name} is left aside" for name in aside]
    return desired_of(str(spec["name"]), [*found], project.settings, tuple(notices))


def _spec(file: Path) -> Mapping[str, Any]:
    try:
        spec = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise SettingError("BAD_PROJECT_FILE", "it is not YAML", str(error)) from None
    if not isinstance(spec, dict) or "name" not in spec:
        raise SettingError("BAD_PROJECT_FILE", "it has no name", f"it takes: {', '.join(FIELDS)}")
    for key in spec:
        if key not in FIELDS:
            raise SettingError("BAD_PROJECT_FILE", f"{key!r} means nothing", f"it takes: {', '.join(FIELDS)}")
    for key in spec.get("configuration") or {}:
        if key in CHANGES_MEANING:
            raise SettingError(
                "PIPELINE_NOT_SUPPORTED",
                f"{key} in the configuration changes what queries mean, and is not taken over from here",
                hint="give a Spark session with this setting to anabranch.connect(..., spark=...)",
            )
    return spec


def _left_aside(spec: Mapping[str, Any]) -> Iterator[str]:
    """What the file says and a lake decides itself."""
    yield from (key for key in ("catalog", "database", "schema") if spec.get(key))
    yield from (f"configuration {key}" for key in spec.get("configuration") or {})


def _files(project: Project, spec: Mapping[str, Any]) -> list[Path]:
    """The files that the patterns name: a file, or a folder with all below it, as `spark-pipelines` reads them."""
    files: set[Path] = set()
    patterns = [entry["glob"]["include"] for entry in spec.get("libraries") or []]
    for pattern in patterns:
        whole = f"{pattern}/*" if pattern.endswith("/**") else pattern
        files |= {each for each in project.folder.glob(whole) if each.is_file() and "__pycache__" not in each.parts}
    if not files:
        raise NotFoundError(
            "PROJECT_IS_EMPTY",
            f"the pipeline in {project.folder} has no files",
            f"its libraries name: {', '.join(patterns) or 'nothing'}",
        )
    return sorted(files)


def _definitions(project: Project, file: Path) -> Iterator[tuple[WantedTable | WantedView, tuple[str, ...]]]:
    shown = str(file.relative_to(project.folder))
    if file.suffix == ".sql":
        yield from _sql_definitions(project, shown, file.read_text(encoding="utf-8"))
    elif file.suffix == ".py":
        yield from _python_definitions(project, file, shown)
    else:
        with at(Place(shown)):
            raise QueryError(
                "PIPELINE_NOT_SUPPORTED", f"a file of the kind {file.suffix!r} defines nothing", hint=".sql and .py do"
            )


def _sql_definitions(
    project: Project, shown: str, text: str
) -> Iterator[tuple[WantedTable | WantedView, tuple[str, ...]]]:
    with at(Place(shown)):
        places = statement_places(text)
    for start, end in places:
        place = Place(shown, text.count("\n", 0, start) + 1)
        with at(place, text[start:end]):
            found = pipeline_statement(text[start:end])
            line = place.line + text[start:end].count("\n", 0, text[start:end].rfind(found.query))
            yield _wanted(project, found.name, found.query, Place(shown, line), found.is_view), found.left_aside


def _python_definitions(
    project: Project, file: Path, shown: str
) -> Iterator[tuple[WantedTable | WantedView, tuple[str, ...]]]:
    from anabranch.spark.pipelines import definitions_of

    try:
        found = definitions_of(file)
    except AnabranchError as error:
        error.place = error.place.replace(str(file), shown)
        raise
    for each in found:
        yield _wanted(project, each.name, each.query, Place(shown, each.line), each.is_view), each.left_aside


def _wanted(project: Project, name: str, query: str, place: Place, is_view: bool) -> WantedTable | WantedView:
    if "." in name:
        with at(place):
            raise QueryError(
                "PIPELINE_NOT_SUPPORTED", f"{name!r} is in a schema of its own", hint="a lake has one; leave it out"
            )
    if is_view:
        return WantedView(name, query, place)
    mode = project.defaults.get("refresh_mode", "AUTO").upper()
    return WantedTable(name, query, place, project.defaults.get("schedule"), mode)
