"""Compaction changes no row, for us or for others, where DuckLake alone would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.store.maintain import Maintainer
from anabranch.store.protocol import Commit, Version, Write

from .crash_child import BareLake
from .evaluate import evaluate, weighed
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


def compact(lake: BareLake) -> None:
    Maintainer(lake.catalog, lake.versions, lake.committer, lake.opened, grace_seconds=0.0).compact()


def evaluated(lake: BareLake, name: str) -> list[tuple[int, int, tuple[Any, ...]]]:
    head = lake.catalog.head()
    table = next(each for each in lake.catalog.tables(Version(head)).values() if each.info.name == name)
    return evaluate(lake.catalog, table, lake.planner.rows(table, head))


def test_a_file_of_nulls_hides_no_row_after_a_rewrite(lake: BareLake) -> None:
    key = lake.create("t", COLUMNS)
    insert(lake, key, rows(None))
    before = insert(lake, key, rows(0, 1, 2))
    gone = pa.array(range(20, 50), pa.int64())
    lake.committer.commit(Commit((Write(key, deletes=gone, since=before),)))
    compact(lake)
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


def test_rows_in_the_catalog_keep_the_columns_they_were_written_with(lake: BareLake) -> None:
    lake.create("t", "k int")
    with outsider(lake.opened.folder) as client:
        client.execute("ALTER TABLE t ADD COLUMN d BIGINT DEFAULT 1")
        client.execute("CALL theirs.set_option('data_inlining_row_limit', 10)")
        client.execute("INSERT INTO t VALUES (1, 7), (2, 8), (3, 1)")
        client.execute("ALTER TABLE t RENAME COLUMN k TO j")
    assert weighed(evaluated(lake, "t")) == {(1, 7): 1, (2, 8): 1, (3, 1): 1}
    compact(lake)
    with outsider(lake.opened.folder) as client:
        assert client.execute("SELECT j, d FROM t ORDER BY j").fetchall() == [(1, 7), (2, 8), (3, 1)]
