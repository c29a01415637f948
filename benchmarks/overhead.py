"""`make bench-overhead`: what a tick costs when next to nothing has changed, against the smallest job with a shuffle.

Three graphs, ten changed rows a tick, commit included: the sales diamond, a chain of ten stream tables, three levels
of twenty. All in one session, warm; what counts is the ratio of the medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator

import anabranch
from anabranch.cli import demo_shop

ROWS = 1_000
CHANGED = 10


def diamond() -> Iterator[tuple[str, str]]:
    for name, (query, _) in demo_shop.STREAM_TABLES.items():
        yield name, query


def chain(length: int = 10) -> Iterator[tuple[str, str]]:
    yield (
        "n0",
        "SELECT region, product_id, SUM(amount) AS amount, COUNT(*) AS sales FROM sales GROUP BY ALL",
    )
    for number in range(1, length):
        yield f"n{number}", f"SELECT region, product_id, amount + 1 AS amount, sales FROM n{number - 1} WHERE sales > 0"


def wide(width: int = 20) -> Iterator[tuple[str, str]]:
    for number in range(width):
        yield f"a{number}", f"SELECT region, SUM(amount + {number}) AS amount FROM sales GROUP BY region"
    for number in range(width):
        yield f"b{number}", f"SELECT region, amount * 2 AS amount FROM a{number}"
    for number in range(width):
        other = (number + 1) % width
        yield (
            f"c{number}",
            f"SELECT x.region, x.amount + y.amount AS amount FROM b{number} x JOIN b{other} y USING (region)",
        )


GRAPHS = {"diamond": diamond, "chain of 10": chain, "3 levels x 20": wide}


def measure(ticks: int) -> dict[str, object]:
    """Medians of each graph's ticks and of the small job."""
    found: dict[str, object] = {}
    for name, graph in GRAPHS.items():
        with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as folder, anabranch.connect(folder) as lake:
            _fill(lake)
            nodes = dict(graph())
            for node, query in nodes.items():
                lake.create_stream_table(node, query, refresh_mode="DIFFERENTIAL")
            for number in range(5):
                _change(lake, -1 - number)
                lake.refresh()
            seconds, small, jobs, stages = [], [], [], []
            for number in range(ticks):
                _change(lake, number)
                report = lake.refresh()
                seconds.append(report.seconds)
                jobs.append(report.spark_jobs)
                stages.append(report.spark_stages)
                small.append(_small_job(lake))
            wrong = [node for node in nodes if not lake.check(node)]
            if wrong:
                raise SystemExit(f"wrong: {', '.join(wrong)}")
            tick, job = statistics.median(seconds), statistics.median(small)
            found[name] = {
                "nodes": len(nodes),
                "tick_seconds": tick,
                "job_seconds": job,
                "ratio": tick / job,
                "jobs": jobs[-1],
                "stages": stages[-1],
            }
    return found


def _fill(lake: anabranch.Lake) -> None:
    lake.sql("CREATE TABLE sales (id BIGINT, region STRING, product_id BIGINT, amount DECIMAL(12,2))")
    lake.sql(f"INSERT INTO sales SELECT {_SALE} FROM range({ROWS})")


_SALE = "id, concat('r', id % 7), id % 11, CAST(id % 100 AS DECIMAL(12,2))"


def _change(lake: anabranch.Lake, number: int) -> None:
    """Ten changed rows in one snapshot: five come, five go."""
    start = ROWS * (number + 100)
    with lake.transaction():
        lake.sql(f"INSERT INTO sales SELECT {_SALE} FROM range({start}, {start + CHANGED // 2})")
        lake.sql(f"DELETE FROM sales WHERE id % {ROWS // (CHANGED // 2)} = {number % 100} AND id < {ROWS}")


def _small_job(lake: anabranch.Lake) -> float:
    """The smallest Spark job with one shuffle."""
    started = time.perf_counter()
    lake.spark.range(0, 100, 1, 2).selectExpr("id % 3 AS k").groupBy("k").count().collect()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ticks", type=int, default=30)
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    found = measure(given.ticks)
    if given.json:
        print(json.dumps(found))
        return
    for name, figures in found.items():
        assert isinstance(figures, dict)
        print(
            f"{name}: {figures['nodes']} nodes, tick {figures['tick_seconds']:.3f} s = {figures['ratio']:.1f} times "
            f"the smallest job with a shuffle ({figures['job_seconds']:.3f} s); {figures['jobs']} jobs, "
            f"{figures['stages']} stages"
        )


if __name__ == "__main__":
    main()
