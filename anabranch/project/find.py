"""Finds a project: the nearest folder, upwards, with an `anabranch.toml` or a `spark-pipeline.yml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.errors import SettingError

PROJECT_FILE = "anabranch.toml"
PIPELINE_FILES = ("spark-pipeline.yml", "spark-pipeline.yaml")
LAKE_FOLDER = "lake"
DEFAULT_TABLES = ("tables/**/*.sql",)
_KEYS = ("name", "lake", "catalog", "tables", "defaults", "settings")
_DEFAULTS = ("schedule", "refresh_mode", "diamond_consistency", "diamond_schedule_policy")


@dataclass(frozen=True)
class Project:
    """Where a project is and what its own file says; `pipeline` is the file of Spark Declarative Pipelines."""

    folder: Path
    name: str
    lake: Path
    catalog: str | None = None
    tables: tuple[str, ...] = DEFAULT_TABLES
    defaults: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    pipeline: Path | None = None


def find_project(start: Path) -> Project | None:
    """The project of a folder or of the nearest one above it."""
    for folder in (start.absolute(), *start.absolute().parents):
        found = project_in(folder)
        if found is not None:
            return found
    return None


def project_in(folder: Path) -> Project | None:
    """The project whose file is in this very folder. Both files together: the pipeline, in the lake the other names."""
    pipeline = next((folder / name for name in PIPELINE_FILES if (folder / name).is_file()), None)
    if (folder / PROJECT_FILE).is_file():
        return _read(folder, pipeline)
    if pipeline is not None:
        return Project(folder, folder.name, folder / LAKE_FOLDER, pipeline=pipeline)
    return None


def _read(folder: Path, pipeline: Path | None) -> Project:
    file = folder / PROJECT_FILE
    try:
        given = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError("BAD_PROJECT_FILE", f"{file} cannot be read", str(error), "mend it; it is TOML") from None
    _check_keys(file, given, _KEYS)
    defaults = _texts(file, given, "defaults")
    _check_keys(file, defaults, _DEFAULTS)
    return Project(
        folder,
        str(given.get("name", folder.name)),
        folder / str(given.get("lake", LAKE_FOLDER)),
        given.get("catalog"),
        tuple(given.get("tables", DEFAULT_TABLES)),
        defaults,
        _texts(file, given, "settings"),
        pipeline,
    )


def _texts(file: Path, given: Mapping[str, Any], key: str) -> dict[str, str]:
    """A table of the file, its values as settings are written: true, 64, 7d."""
    section = given.get(key, {})
    if not isinstance(section, dict):
        raise SettingError(
            "BAD_PROJECT_FILE", f"{key} in {file} is no table", hint=f"write [{key}] on a line of its own"
        )
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in section.items()}


def _check_keys(file: Path, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in given:
        if key not in known:
            raise SettingError(
                "BAD_PROJECT_FILE", f"{file} has {key!r}, which means nothing", f"it takes: {', '.join(known)}"
            )
