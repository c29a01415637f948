"""Plan and apply for programs: an open lake and a project's folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import NotFoundError
from anabranch.project.apply import Applied, apply_project, plan_project
from anabranch.project.desired import Desired
from anabranch.project.find import project_in
from anabranch.project.read import read_project
from anabranch.project.steps import Plan

if TYPE_CHECKING:
    from anabranch.lake import Lake


def plan_folder(lake: Lake, folder: str | Path) -> Plan:
    """What would make the lake as the project in the folder says; starts no Spark."""
    return plan_project(lake._engine, _desired(Path(folder)))


def apply_folder(lake: Lake, folder: str | Path, allow_data_loss: bool = False) -> Applied:
    """Make the lake as the project in the folder says. Doing it again changes nothing."""
    return apply_project(lake._engine, _desired(Path(folder)), allow_data_loss)


def _desired(folder: Path) -> Desired:
    project = project_in(folder.absolute())
    if project is None:
        raise NotFoundError(
            "PROJECT_NOT_FOUND",
            f"there is no project in {folder}",
            "a project has an anabranch.toml or a spark-pipeline.yml",
            "make one with `anabranch init shop`",
        )
    return read_project(project)
