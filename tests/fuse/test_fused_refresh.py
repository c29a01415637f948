"""All eligible nodes of a tick are worked out together, with shared reads, and give the rows that one by one gives."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import anabranch
from anabranch import Lake
from anabranch.bench import graph, tpch
from anabranch.bench.batches import apply_batch
from tests.lake.tools import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOTALS = {
    "by_region": "SELECT region, sum(amount) AS revenue, count(*) AS n FROM sales GROUP BY region",
    "by_product": "SELECT product_id, sum(amount) AS revenue FROM sales GROUP BY product_id",
    "summary": "SELECT (SELECT sum(revenue) FROM by_region) AS r, (SELECT sum(revenue) FROM by_product) AS p",
}


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE sales (id BIGINT, region STRING, product_id BIGINT, amount BIGINT)")
    lake.append("sales", [(number, f"r{number % 3}", number % 5, number) for number in range(30)])
    return lake


def create(lake: Lake, queries: dict[str, str], **modes: str) -> None:
    for name, query in queries.items():
        lake.create_stream_table(name, query, refresh_mode=modes.get(name, "DIFFERENTIAL"))


def check_all(lake: Lake, names: Any) -> None:
    for name in names:
        result = lake.check(name)
        assert result, result


def test_fused_refresh_disabled(spark: SparkSession, tmp_path: Path) -> None:
    with anabranch.connect(str(tmp_path / "shop"), spark=spark, enable_fused_refresh=False) as lake:
        lake.sql("CREATE TABLE sales (id BIGINT, region STRING, product_id BIGINT, amount BIGINT)")
        lake.append("sales", [(1, "a", 1, 10), (2, "b", 1, 20)])
        create(lake, TOTALS)
        lake.sql("UPDATE sales SET amount = amount + 1 WHERE id = 1")
        report = lake.refresh()
        assert {each.not_fused for each in report.nodes.values()} == {"DISABLED"}
        assert not any(each.fused for each in report.nodes.values())
        assert counted(lake.table("summary")) == Counter({(31, 31): 1})
        assert {each["snapshot"] for each in lake.history().to_pylist()[:3]} == {report.snapshot}


def test_fused_refresh_full_node_excluded(shop: Lake) -> None:
    create(shop, TOTALS, by_product="FULL")
    shop.sql("DELETE FROM sales WHERE id < 3")
    report = shop.refresh()
    assert {name: (each.fused, each.not_fused) for name, each in report.nodes.items()} == {
        "by_region": (True, None),
        "by_product": (False, "FULL"),
        "summary": (False, "UPSTREAM_NOT_FUSED"),
    }
    assert report["by_product"].action == "FULL"
    assert report["summary"].action == "DIFFERENTIAL"
    check_all(shop, TOTALS)


def test_fused_refresh_large_delta_excluded(spark: SparkSession, tmp_path: Path) -> None:
    with anabranch.connect(str(tmp_path / "shop"), spark=spark, fused_refresh_max_delta_rows=20) as lake:
        lake.sql("CREATE TABLE few (k BIGINT, v BIGINT)")
        lake.sql("CREATE TABLE many (k BIGINT, v BIGINT)")
        create(lake, {name: f"SELECT k, sum(v) AS v FROM {name[3:]} GROUP BY k" for name in ("by_few", "by_many")})
        lake.append("few", [(1, 1)])
        lake.append("many", [(number % 7, number) for number in range(100)])
        report = lake.refresh()
        assert report["by_few"].fused
        assert not report["by_many"].fused
        assert report["by_many"].not_fused == "CHANGE_TOO_LARGE"
        check_all(lake, ("by_few", "by_many"))


def test_fuse_shares_source_delta(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes created at different times read one change of their source."""
    create(
        shop,
        {f"n{number}": f"SELECT region, sum(amount) + {number} AS s FROM sales GROUP BY region" for number in range(5)},
    )
    shop.append("sales", [(100, "r0", 1, 1)])
    store, reads = shop._engine.store, []

    def counted(original: Any) -> Any:
        def changes(self: Any, table: str, *versions: Any) -> Any:
            reads.append(table)
            return original(self, table, *versions)

        return changes

    for way in ("changes", "few_changes"):
        monkeypatch.setattr(type(store), way, counted(getattr(type(store), way)))
    report = shop.refresh()
    assert all(each.fused for each in report.nodes.values())
    assert len(reads) == 1


def test_a_source_read_by_20_nodes_is_scanned_once(lake: Lake) -> None:
    lake.sql("CREATE TABLE orders (k BIGINT, amount BIGINT)")
    lake.sql("CREATE TABLE items (k BIGINT, name STRING)")
    lake.append("items", lake.sql("SELECT id AS k, concat('item ', id) AS name FROM range(30000)"))
    lake.append("orders", [(number, number) for number in range(50)])
    queries = {
        f"n{number}": f"SELECT name, sum(amount) + {number} AS total FROM orders JOIN items USING (k) GROUP BY name"
        for number in range(20)
    }
    create(lake, queries)
    lake.append("orders", [(7, 1), (29999, 2)])
    report = lake.refresh()
    assert sum(each.fused for each in report.nodes.values()) == 20
    assert report.table_scans == 1
    assert report.spark_jobs is not None
    assert report.spark_jobs < 20
    check_all(lake, ("n0", "n19"))


def test_fuse_name_collision_free(lake: Lake) -> None:
    """Names that our own texts use, names that differ in case only from them, reserved words, and odd letters."""
    lake.sql("CREATE TABLE r0 (`__0` BIGINT, weight BIGINT, `select` STRING)")
    lake.sql("CREATE TABLE `shared 1` (`f0` BIGINT, `tag` BIGINT)")
    lake.append("r0", [(1, 2, "x"), (2, 3, "y")])
    lake.append("shared 1", [(1, 10), (2, 20)])
    queries = {
        "r1": "SELECT `select` AS r0, sum(weight) AS `__1` FROM r0 GROUP BY `select`",
        "g": "SELECT `__0` AS g, weight AS s FROM r0 WHERE weight > 0",
        "order": "SELECT a.s AS `from`, b.tag AS `where``s` FROM g a JOIN `shared 1` b ON a.g = b.f0",
        "Part": "SELECT r0 AS part, `__1` AS rows FROM r1 UNION ALL SELECT CAST(`from` AS STRING), 0 FROM `order`",
    }
    create(lake, queries)
    lake.append("r0", [(1, 5, "x")])
    lake.sql("UPDATE `shared 1` SET tag = 11 WHERE f0 = 1")
    report = lake.refresh()
    assert all(each.fused for each in report.nodes.values())
    check_all(lake, queries)


@pytest.fixture(scope="module")
def tpch_lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with the 22 queries and 8 stream tables on top of them, closed."""
    folder = tmp_path_factory.mktemp("tpch")
    with anabranch.connect(str(folder / "lake"), spark=spark) as lake:
        tpch.load(lake, tpch.generate(0.01, folder / "parquet"))
        graph.create(lake)
        empty = [name for name in graph.stream_tables() if lake.table(name).isEmpty()]
        assert empty == []
    return folder / "lake"


def parity(spark: SparkSession, folder: Path, made: Path, batches: int, from_scratch: bool = True) -> None:
    """The same batches, fused on one copy of the lake and one by one on another: the same rows after each.

    Fused is faster: the time of all batches together, in one run and in one Spark, is compared.
    """
    seconds = {"fused": 0.0, "sequential": 0.0}
    names = list(graph.stream_tables())
    for way in ("fused", "sequential"):
        shutil.copytree(made, folder / way)
    with (
        anabranch.connect(str(folder / "fused"), spark=spark) as fused,
        anabranch.connect(str(folder / "sequential"), spark=spark, enable_fused_refresh=False) as sequential,
    ):
        for number in range(batches):
            for lake in (fused, sequential):
                apply_batch(lake, number, 600)
            reports = fused.refresh(), sequential.refresh()
            for way, report in zip(seconds, reports, strict=True):
                seconds[way] += report.seconds
            assert {each.action for each in reports[0].nodes.values()} == {"DIFFERENTIAL"}
            assert all(each.fused for each in reports[0].nodes.values())
            assert not any(each.fused for each in reports[1].nodes.values())
            for name in names:
                assert rounded(fused, name) == rounded(sequential, name), (number, name)
        if from_scratch:
            check_all(fused, names)
    assert seconds["fused"] < seconds["sequential"], seconds


def rounded(lake: Lake, name: str) -> Counter[tuple[Any, ...]]:
    """The rows, floating-point numbers to nine digits."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row in lake.table(name).collect():
        found[tuple(f"{value:.9g}" if isinstance(value, float) else value for value in row)] += 1
    return found


def test_fused_refresh_tpch_22(spark: SparkSession, tpch_lake: Path, tmp_path: Path) -> None:
    shutil.copytree(tpch_lake, tmp_path / "lake")
    with anabranch.connect(str(tmp_path / "lake"), spark=spark) as lake:
        apply_batch(lake, 7, 600)
        report = lake.refresh()
        assert {each.action for each in report.nodes.values()} == {"DIFFERENTIAL"}
        assert len([name for name, each in report.nodes.items() if name.startswith("q") and each.fused]) == 22
        assert sum(each.rows_inserted + each.rows_deleted > 0 for each in report.nodes.values()) > 10
        check_all(lake, report.nodes)


def test_fused_vs_sequential_parity(spark: SparkSession, tpch_lake: Path, tmp_path: Path) -> None:
    """That a fused tick equals the queries run from scratch is the test above."""
    parity(spark, tmp_path, tpch_lake, 1, from_scratch=False)


@pytest.mark.soak
def test_fused_vs_sequential_parity_over_50_batches(spark: SparkSession, tpch_lake: Path, tmp_path: Path) -> None:
    parity(spark, tmp_path, tpch_lake, 50)
