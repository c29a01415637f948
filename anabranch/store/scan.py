"""A table's rows, and the difference of two states of them, as a plan: which files, which positions, which weight.

    rows(s)      = for every file f at s: the positions p of f with snapshot_id(f, p) <= s and p not in D(f, s)
    change(a, b) = rows(b) - rows(a)

where D(f, s) are the positions deleted from f up to s, and snapshot_id is NULL (always there) in most files. The plan
is pure data: Spark performs it (read.py), and a test can perform it on its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from anabranch.store.catalog import DataFile

Positions = npt.NDArray[np.int64]
NONE: Positions = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class LiveFile:
    """A data file at one snapshot. Rows of later snapshots than `upto` are not there yet (None: all are there)."""

    file: DataFile
    deleted: Positions = field(default_factory=lambda: NONE)
    upto: int | None = None


@dataclass(frozen=True, eq=False)
class FileScan:
    """Rows of one file: after < snapshot_id <= upto, position in `keep` (if given), position not in `drop`.

    `hidden` are the ids of columns that the rows' snapshot does not have, though the file may. In a scan of two
    states `there` says in which of them the rows are; those at the positions `gone` are in the first only.
    """

    file: DataFile
    weight: int = 1
    after: int | None = None
    upto: int | None = None
    keep: Positions | None = None
    drop: Positions | None = None
    hidden: frozenset[int] = frozenset()
    there: tuple[bool, bool] | None = None
    gone: Positions | None = None


def live(file: DataFile, deleted: Positions, at: int) -> LiveFile:
    """The file at a snapshot."""
    partial = file.partial_max is not None and file.partial_max > at
    return LiveFile(file, deleted, at if partial else None)


def scan_of_rows(
    files: Mapping[int, LiveFile], weight: int = 1, hidden: frozenset[int] = frozenset()
) -> list[FileScan]:
    """The rows of one state."""
    return [
        FileScan(each.file, weight, upto=each.upto, drop=each.deleted if len(each.deleted) else None, hidden=hidden)
        for each in files.values()
    ]


def scan_of_change(before: Mapping[int, LiveFile], after: Mapping[int, LiveFile]) -> list[FileScan]:
    """The rows that one state has and the other has not.

    A file in both states contributes, for the rows that are there in both, the positions deleted in between, and
    beyond that the rows that came in between and were not deleted again.
    """
    gone = {key: each for key, each in before.items() if key not in after}
    come = {key: each for key, each in after.items() if key not in before}
    scans = scan_of_rows(gone, -1) + scan_of_rows(come, +1)
    for key, old in before.items():
        if key in after:
            scans += _scan_of_file_change(old, after[key])
    return scans


def scan_of_both(before: Mapping[int, LiveFile], after: Mapping[int, LiveFile]) -> list[FileScan] | None:
    """The rows of both states, each file scanned once; None if rows came back or came later in a file."""
    scans = []
    for key, each in {**before, **after}.items():
        there = (key in before, key in after)
        old = before.get(key, each)
        gone = np.setdiff1d(each.deleted, old.deleted, assume_unique=True)
        if each.upto is not None or old.upto is not None or len(each.deleted) - len(gone) != len(old.deleted):
            return None
        drop = old.deleted if len(old.deleted) else None
        scans.append(FileScan(each.file, drop=drop, there=there, gone=gone if len(gone) else None))
    return scans


def _scan_of_file_change(old: LiveFile, new: LiveFile) -> list[FileScan]:
    early, late, sign = (old, new, 1) if _bound(old) <= _bound(new) else (new, old, -1)
    scans = []
    removed = np.setdiff1d(late.deleted, early.deleted, assume_unique=True)
    restored = np.setdiff1d(early.deleted, late.deleted, assume_unique=True)
    if len(removed):
        scans.append(FileScan(old.file, -sign, upto=early.upto, keep=removed))
    if len(restored):
        scans.append(FileScan(old.file, +sign, upto=early.upto, keep=restored))
    if early.upto is not None and early.upto != late.upto:
        drop = late.deleted if len(late.deleted) else None
        scans.append(FileScan(old.file, sign, after=early.upto, upto=late.upto, drop=drop))
    return scans


def _bound(each: LiveFile) -> float:
    return float("inf") if each.upto is None else each.upto


def rows_at_most(scans: list[FileScan]) -> int:
    """An upper bound on the rows that the scans give."""
    return sum(
        len(each.keep) if each.keep is not None else each.file.rows - (0 if each.drop is None else len(each.drop))
        for each in scans
    )
