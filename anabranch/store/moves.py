"""Staged files on their way into the lake's data folder.

A file is renamed to the folder of its table before the transaction that registers it, and back if that fails. A process
killed in between leaves a file that no snapshot knows; cleaning finds it by its age.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from anabranch.errors import StorageError

GRACE_SECONDS = 86400.0


@dataclass(frozen=True, slots=True)
class Move:
    """One file: where it was staged and where the lake wants it."""

    staged: Path
    stored: Path


def plan_moves(paths: tuple[str, ...], folder: Path) -> list[Move]:
    """Where each staged file goes; staged names are unique already."""
    return [Move(Path(path), folder / Path(path).name) for path in paths]


def perform_moves(moves: list[Move]) -> None:
    """Move all files in; on an error none has moved."""
    done: list[Move] = []
    try:
        for each in moves:
            each.stored.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(each.staged, each.stored)
            os.utime(each.stored)
            done.append(each)
    except OSError as error:
        undo_moves(done)
        raise StorageError(
            "STAGED_FILES_GONE",
            "staged files cannot be moved into the lake",
            detail=str(error),
            hint="Staged files are removed after a day; stage the rows again.",
        ) from error


def finish_moves(moves: list[Move]) -> None:
    """Remove the folders that the files were staged in, with what Spark left beside them."""
    for folder in {each.staged.parent for each in moves}:
        shutil.rmtree(folder, ignore_errors=True)


def clean_staging(staging: Path, grace_seconds: float) -> None:
    """Remove what a killed writer left: folders in which nothing was written for so long."""
    oldest = time.time() - grace_seconds
    for place in staging.iterdir():
        written = [place.stat().st_mtime, *(each.stat().st_mtime for each in place.rglob("*") if each.exists())]
        if max(written) < oldest:
            shutil.rmtree(place, ignore_errors=True)


def undo_moves(moves: list[Move]) -> None:
    """Move files back to where they were staged."""
    for each in moves:
        if each.stored.exists():
            each.staged.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(each.stored, each.staged)
