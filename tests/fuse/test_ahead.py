"""Changes taken as plans by their readers: fewer jobs, the same rows, and nothing wrong if one of them fails."""

from __future__ import annotations

from collections import Counter

import pytest

from anabranch import Lake
from anabranch.algebra.relation import Change, Column, Filter, Project
from anabranch.fuse.ahead import comes_out_the_same, seen_by_readers
from tests.lake.tools import counted


def chain(lake: Lake, first: str, steps: int) -> list[str]:
    lake.sql("CREATE TABLE t (k BIGINT, v BIGINT, x DOUBLE)")
    lake.append("t", [(number, number % 4, number / 3) for number in range(12)])
    lake.create_stream_table("n0", first, refresh_mode="DIFFERENTIAL")
    for number in range(1, steps):
        lake.create_stream_table(f"n{number}", f"SELECT k, v + 1 AS v, x FROM n{number - 1} WHERE v < 100")
    return [f"n{number}" for number in range(steps)]


def test_a_chain_takes_fewer_jobs_than_it_has_nodes(lake: Lake) -> None:
    names = chain(lake, "SELECT k, v, CAST(x AS DECIMAL(10,2)) AS x FROM t WHERE k > 0", 6)
    lake.sql("UPDATE t SET v = 50 WHERE k < 3")
    report = lake.refresh()
    assert all(each.fused and each.action == "DIFFERENTIAL" for each in report.nodes.values())
    assert report.spark_jobs is not None
    assert report.spark_jobs < len(names)
    for name in names:
        assert lake.check(name), name


def test_a_reader_that_fails_leaves_those_before_it_alone(lake: Lake) -> None:
    chain(lake, "SELECT k, v, CAST(x AS DECIMAL(10,2)) AS x FROM t WHERE k > 0", 2)
    lake.create_stream_table("inverse", "SELECT k, 100 / (v - 8) AS i FROM n1 WHERE v <> 4")
    lake.create_stream_table("beyond", "SELECT max(i) AS i FROM inverse")
    lake.sql("UPDATE t SET v = 7 WHERE k = 2")
    report = lake.refresh()
    assert report["n1"].action == "DIFFERENTIAL"
    assert report["inverse"].action == "FAILED"
    assert report["beyond"].action == "SKIPPED"
    assert lake.check("n1")
    lake.sql("UPDATE t SET v = 9 WHERE k = 2")
    assert lake.refresh()["inverse"].action in ("DIFFERENTIAL", "FULL")
    assert lake.check("inverse")
    assert lake.check("beyond")


def test_one_that_lags_behind_reads_rows(lake: Lake) -> None:
    names = chain(lake, "SELECT k, v, CAST(x AS DECIMAL(10,2)) AS x FROM t WHERE k > 0", 3)
    lake.sql("DELETE FROM t WHERE k = 5")
    lake.refresh("n0")
    lake.sql("DELETE FROM t WHERE k = 6")
    lake.refresh()
    for name in names:
        assert lake.check(name), name
    assert counted(lake.sql("SELECT count(*) AS n FROM n2")) == Counter({(9,): 1})


@pytest.mark.parametrize(("type", "same"), [("decimal(10,2)", True), ("double", False), ("array<float>", False)])
def test_sums_of_floats_are_not_computed_twice(type: str, same: bool) -> None:
    assert comes_out_the_same(Change("t", (Column("k", "int"), Column("x", type)))) is same


def test_readers_see_the_visible_columns_of_flagged_rows() -> None:
    change = Change("t", (Column("k", "int"), Column("hidden", "int"), Column("flag", "boolean")))
    seen = seen_by_readers(change, (Column("k", "int"),), "flag")
    assert isinstance(seen, Project)
    assert isinstance(seen.child, Filter)
    assert seen.names == ("k",)
