"""Three ways to keep the TPC-H graph fresh, on identical lakes, in alternation: fused, one by one, recomputed in full.

The full way runs the 22 queries on plain Parquet files in the same Spark, with Spark's own settings and with ours, and
counts the faster of the two, best of three. It stores nothing; the other two commit.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from anabranch.bench import graph, tpch
from anabranch.bench.batches import apply_batch
from anabranch.errors import RefreshError
from anabranch.lake import connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.lake import Lake
    from anabranch.observe.report import Report

SPARKS_OWN = {"spark.sql.adaptive.enabled": "true", "spark.sql.shuffle.partitions": "200"}
WARM_UP = 3
"""The first tick makes key indexes, the second plans the queries that come again, and Java compiles in all of them."""
Told = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """How much to do: TPC-H's scale factor, changed rows a tick, ticks that count."""

    scale: float
    changes: int
    ticks: int
    full: bool = True


def run(options: Options, folder: Path | None = None, told: Told = lambda _: None) -> dict[str, Any]:
    """Everything that was measured, as plain values."""
    with _place(folder) as place:
        _build(options, place, told)
        ticks = list(_ticks(options, place, told))
    return {**_summary(options, ticks[WARM_UP:]), "warm_up": ticks[:WARM_UP]}


@contextmanager
def _place(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder
        return
    with TemporaryDirectory(prefix="anabranch-bench-") as made:
        yield Path(made)


def _build(options: Options, place: Path, told: Told) -> None:
    """The lake twice; what was built before at this scale is taken again."""
    made = place / f"tpch-{options.scale:g}"
    if not (made / "ready").exists():
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        told("making the tables")
        paths = tpch.generate(options.scale, made / "parquet")
        with connect(str(made / "lake")) as lake:
            told("loading the tables")
            tpch.load(lake, paths)
            graph.create(lake, lambda name: told(f"filling {name}"))
        (made / "ready").touch()
    for way in ("fused", "sequential"):
        shutil.rmtree(place / way, ignore_errors=True)
        shutil.copytree(made / "lake", place / way)


def _ticks(options: Options, place: Path, told: Told) -> Iterator[dict[str, Any]]:
    with (
        connect(str(place / "fused")) as fused,
        connect(str(place / "sequential"), enable_fused_refresh=False) as sequential,
    ):
        for number in range(WARM_UP + options.ticks):
            told(f"tick {number + 1} of {WARM_UP + options.ticks}: changing {options.changes} rows")
            for lake in (fused, sequential):
                apply_batch(lake, number, options.changes)
            ways = [("fused", fused), ("sequential", sequential)]
            reports = {}
            for way, lake in ways if number % 2 == 0 else reversed(ways):
                told(f"tick {number + 1}: {way}")
                reports[way] = _refreshed(lake, way)
            full = {}
            if options.full and number >= WARM_UP:
                told(f"tick {number + 1}: in full")
                full = in_full(fused, place / "now")
            yield {**{way: _measured(report) for way, report in reports.items()}, "full": full}


def _refreshed(lake: Lake, way: str) -> Report:
    report = lake.refresh()
    failed = [each.name for each in report.nodes.values() if each.action not in ("DIFFERENTIAL", "NO_DATA")]
    if failed:
        raise RefreshError("BENCHMARK_INVALID", f"not refreshed by its change: {', '.join(failed)}", f"way: {way}")
    return report


def _measured(report: Report) -> dict[str, Any]:
    return {
        "seconds": report.seconds,
        "spark_jobs": report.spark_jobs,
        "spark_stages": report.spark_stages,
        "table_scans": report.table_scans,
        "timings": dict(report.timings),
        "fused_nodes": sum(each.fused for each in report.nodes.values()),
        "rows_changed": sum(each.rows_inserted + each.rows_deleted for each in report.nodes.values()),
        "node_seconds": {each.name: each.seconds for each in report.nodes.values()},
    }


def in_full(lake: Lake, folder: Path) -> dict[str, float]:
    """Seconds of each of the 22 queries on the tables as they are now; the faster settings, best of three."""
    shutil.rmtree(folder, ignore_errors=True)
    spark = lake.spark.newSession()
    for table in tpch.TABLES:
        lake.table(table).write.parquet(str(folder / table))
        spark.read.parquet(str(folder / table)).createOrReplaceTempView(table)
    ours = {key: str(spark.conf.get(key)) for key in SPARKS_OWN}
    found = [_best_of_three(spark, settings) for settings in (SPARKS_OWN, ours)]
    return min(found, key=lambda seconds: sum(seconds.values()))


def _best_of_three(spark: SparkSession, settings: dict[str, str]) -> dict[str, float]:
    for key, value in settings.items():
        spark.conf.set(key, value)
    return min((_once(spark) for _ in range(3)), key=lambda seconds: sum(seconds.values()))


def _once(spark: SparkSession) -> dict[str, float]:
    seconds = {}
    for number, text in tpch.queries().items():
        started = time.perf_counter()
        spark.sql(text).toArrow()
        seconds[f"q{number}"] = time.perf_counter() - started
    return seconds


def _summary(options: Options, ticks: list[dict[str, Any]]) -> dict[str, Any]:
    fused, sequential = ([tick[way]["seconds"] for tick in ticks] for way in ("fused", "sequential"))
    full = [sum(tick["full"].values()) for tick in ticks if tick["full"]]
    return {
        "scale": options.scale,
        "changes": options.changes,
        "seconds": {"fused": _spread(fused), "sequential": _spread(sequential), "full": _spread(full)},
        "fused_vs_sequential": median(fused) / median(sequential),
        "differential_vs_full": median(full) / median(fused) if full else None,
        "ticks": ticks,
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
    }


def _spread(seconds: list[float]) -> dict[str, float] | None:
    return {"median": median(seconds), "least": min(seconds), "most": max(seconds)} if seconds else None
