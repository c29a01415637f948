"""Project folders for tests, written from a dict of file name -> text."""

from __future__ import annotations

from pathlib import Path

from anabranch.project.desired import Desired
from anabranch.project.find import project_in
from anabranch.project.read import read_project

TOML = 'name = "shop"\n'


def write(folder: Path, files: dict[str, str]) -> None:
    """The folder with exactly these files, and an anabranch.toml if none is among them."""
    for old in folder.rglob("*.sql"):
        old.unlink()
    for name, text in ({"anabranch.toml": TOML} | files).items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def read(folder: Path, files: dict[str, str]) -> Desired:
    """What a project of these files says."""
    write(folder, files)
    project = project_in(folder)
    assert project is not None
    return read_project(project)
