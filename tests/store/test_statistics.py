"""Clients that go by statistics see every row, whatever was compacted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.store.maintain import Maintainer
from anabranch.store.protocol import Commit, Version, Write

from .crash_child import BareLake
from .tools import outsider

VALUES: dict[str, list[Any]] = {"s": ["a", "é", "z"], "d": ["2024-01-01", "2024-02-01", "2024-12-31"], "n": [9, 10, 11]}
COLUMNS = "k int; s string; d date; n struct<v:int>"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[BareLake]:
    opened = BareLake(tmp_path / "lake")
    yield opened
    opened.close()


def rows(*numbers: int | None) -> pa.Table:
    """A row for each number, of values that grow with it; a None is a row of NULLs."""
    picked = {name: [None if at is None else each[at] for at in numbers] for name, each in VALUES.items()}
    return pa.table(
        {
            "k": pa.array([-1 if at is None else at for at in numbers], pa.int32()),
            "s": pa.array(picked["s"], pa.string()),
            "d": pa.array(picked["d"], pa.string()).cast(pa.date32()),
            "n": pa.array(
                [None if each is None else {"v": each} for each in picked["n"]], pa.struct([("v", pa.int32())])
            ),
        }
    )


def insert(lake: BareLake, key: str, table: pa.Table) -> Version:
    many = pa.concat_tables([table] * 20)
    return lake.committer.commit(Commit((Write(key, inserts=(many,)),)))


def test_a_file_of_nulls_hides_no_row_after_a_rewrite(lake: BareLake) -> None:
    key = lake.create("t", COLUMNS)
    insert(lake, key, rows(None))
    before = insert(lake, key, rows(0, 1, 2))
    gone = pa.array(range(20, 50), pa.int64())
    lake.committer.commit(Commit((Write(key, deletes=gone, since=before),)))
    versions = lake.versions
    Maintainer(lake.catalog, versions, lake.committer, lake.opened, grace_seconds=0.0).compact()
    insert(lake, key, rows(1))
    with outsider(lake.opened.folder) as client:
        for condition in (
            "s = 'z'",
            "s = 'a'",
            "d > DATE '2024-06-01'",
            "d = DATE '2024-01-01'",
            "n.v = 9",
            "n.v > 10",
        ):
            found = client.execute(f"SELECT count(*) FROM t WHERE {condition}").fetchall()
            assert found == [(10,)], condition
