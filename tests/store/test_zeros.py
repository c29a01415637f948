"""Zeros of both signs stay what they are: in our writes and in our compaction. What others lose is seen as a change."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from anabranch.store.ducklake import DuckLakeStore
from anabranch.store.protocol import Commit, Version, Write

from .crash_child import BareLake
from .evaluate import evaluate, weighed
from .tools import canonical, columns, counted, create, difference, outsider

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZEROS = [0.0, -0.0] * 10
NESTED = "x double; y float; l array<double>; m map<string,double>; s struct<a:double,b:array<struct<c:float>>>"
NESTED_ROWS = pa.table(
    {
        "x": pa.array(ZEROS),
        "y": pa.array(ZEROS, pa.float32()),
        "l": pa.array([[each, -each, None] for each in ZEROS]),
        "m": pa.array([[("k", each), ("-0.0", 1.0)] for each in ZEROS], pa.map_(pa.string(), pa.float64())),
        "s": pa.array(
            [{"a": each, "b": [{"c": each}, None]} for each in ZEROS],
            pa.struct([("a", pa.float64()), ("b", pa.list_(pa.struct([("c", pa.float32())])))]),
        ),
    }
)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[BareLake]:
    opened = BareLake(tmp_path / "lake")
    yield opened
    opened.close()


def insert(lake: BareLake, key: str, rows: pa.Table) -> Version:
    return lake.committer.commit(Commit((Write(key, inserts=(rows,)),)))


def listed(rows: pa.Table) -> Counter[Any]:
    names = [name for name in rows.column_names if not name.startswith("__ab_")]
    return Counter(map(canonical, zip(*(rows.column(name).to_pylist() for name in names), strict=True)))


def version(lake: BareLake, key: str) -> Version:
    table = lake.catalog.table(key, lake.head())
    assert table is not None
    return lake.versions.of(table, lake.head())


def change(lake: BareLake, key: str, since: Version, upto: Version) -> dict[Any, int]:
    table = lake.catalog.table(key, upto)
    assert table is not None
    return weighed(evaluate(lake.catalog, table, lake.planner.change(table, since.number, upto.number)))


def test_nobody_who_goes_by_statistics_misses_a_nan(lake: BareLake) -> None:
    key = lake.create("t", "k int; x double")
    insert(lake, key, pa.table({"k": pa.array([1, 2, 3, 4], pa.int32()), "x": [0.0, -0.0, 1.5, float("nan")]}))
    with outsider(lake.opened.folder) as client:
        found = client.execute("SELECT k FROM t WHERE x > 2 ORDER BY k").fetchall()
    assert found == [(4,)]


def test_rows_are_written_as_they_are(lake: BareLake) -> None:
    key = lake.create("t", NESTED)
    insert(lake, key, NESTED_ROWS)
    assert listed(lake.rows(key)) == listed(NESTED_ROWS)
    with outsider(lake.opened.folder) as client:
        assert listed(client.execute("SELECT * FROM t").to_arrow_table()) == listed(NESTED_ROWS)


def test_executors_write_them_as_they_are(spark: SparkSession, store: DuckLakeStore) -> None:
    key = create(store, "t", NESTED)
    rows = spark.createDataFrame(NESTED_ROWS).coalesce(1)
    store.commit(Commit((Write(key, inserts=(store.stage(rows, columns(NESTED)), NESTED_ROWS)),)))
    assert counted(store.read(key, store.head())) == counted(rows.unionAll(rows))
    assert len(counted(rows)) == 2


@pytest.mark.parametrize("inlined", [0, 100])
def test_our_compaction_keeps_them(lake: BareLake, inlined: int) -> None:
    check_compaction(lake, inlined)


def test_our_compaction_keeps_them_in_postgres(tmp_path: Path, new_postgres_catalog: Callable[[], str]) -> None:
    catalog = new_postgres_catalog()
    with contextlib.closing(BareLake(tmp_path / "lake", catalog)) as lake:
        check_compaction(lake, 100, catalog)


def check_compaction(lake: BareLake, inlined: int, catalog: str | None = None) -> None:
    """Many files become one, rows in the catalog move into it; every snapshot shows the rows that it showed."""
    key = lake.create("t", "a bigint; x double")
    with outsider(lake.opened.folder, catalog=catalog) as client:
        client.execute(f"CALL theirs.set_option('data_inlining_row_limit', {inlined})")
        for sign in ("", "-", "", ""):
            client.execute(f"INSERT INTO t SELECT i, '{sign}0.0'::DOUBLE FROM range(3) r(i)")
        client.execute("DELETE FROM t WHERE a = 1")
    insert(lake, key, pa.table({"a": range(20), "x": ZEROS}))
    before = {number: listed(lake.rows(key, Version(number))) for number in range(4, lake.head().number + 1)}
    unchanged, newest = version(lake, key), lake.head()
    lake.maintainer.compact()
    assert lake.maintainer.file_counts()[key] == 1
    assert before == {number: listed(lake.rows(key, Version(number))) for number in before}
    assert listed(lake.rows(key)) == before[newest.number]
    assert version(lake, key) == unchanged
    assert change(lake, key, Version(4), lake.head()) == change(lake, key, Version(4), newest)
    assert change(lake, key, newest, lake.head()) == {}
    compacted = lake.head()
    lake.maintainer.compact()
    assert lake.head() == compacted


def test_deleted_rows_in_the_catalog_keep_them(lake: BareLake) -> None:
    """Only an old snapshot shows the negative zeros, which are still in the catalog."""
    key = lake.create("t", "a bigint; x double")
    with outsider(lake.opened.folder) as client:
        client.execute("CALL theirs.set_option('data_inlining_row_limit', 100)")
        client.execute(
            "INSERT INTO t SELECT i, CASE WHEN i % 2 = 0 THEN 0.0 ELSE '-0.0'::DOUBLE END FROM range(20) r(i)"
        )
        lake.catalog.head()
        old = lake.head()
        before = listed(lake.rows(key, old))
        client.execute("DELETE FROM t WHERE a % 2 = 1")
    lake.maintainer.compact()
    assert listed(lake.rows(key, old)) == before
    assert len(lake.rows(key)) == 10


@pytest.mark.parametrize("loses", [True, False])
def test_a_rewrite_by_others_is_a_change_where_it_is_one(lake: BareLake, loses: bool) -> None:
    """DuckDB gives all zeros of the new file the sign of the first one; where there are none, nothing has changed."""
    key = lake.create("t", "a bigint; x double")
    insert(lake, key, pa.table({"a": range(20), "x": ZEROS if loses else [1.5] * 20}))
    unchanged = version(lake, key)
    with outsider(lake.opened.folder) as client:
        client.execute("DELETE FROM t WHERE a < 4")
        lake.catalog.head()
        since = lake.head()
        client.execute("CALL ducklake_rewrite_data_files('theirs', delete_threshold => 0.0)")
        seen = Counter(map(canonical, client.execute("SELECT * FROM t").fetchall()))
    upto = lake.head()
    assert upto > since > unchanged
    before, after = listed(lake.rows(key, since)), listed(lake.rows(key, upto))
    assert after == seen
    assert (after != before) is loses
    assert change(lake, key, since, upto) == difference(after, before)
    assert version(lake, key) == (upto if loses else since)
