"""`make bench`: a GROUP BY of 10,000 groups over a million rows, 1,000 changed rows a tick, differential against full.

Both ways run in one session on the same lake, in turns; what counts is the ratio of their medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile

import anabranch

QUERY = "SELECT key, SUM(amount) AS total, COUNT(*) AS sales, AVG(amount) AS average FROM sales GROUP BY key"


def measure(rows: int, groups: int, changed: int, ticks: int) -> dict[str, object]:
    """Seconds per tick of each way, commit included."""
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as folder, anabranch.connect(folder) as lake:
        made = lake.spark.range(rows).selectExpr(
            "id", f"pmod(hash(id), {groups}) AS key", "CAST(id % 1000 AS DECIMAL(12,2)) AS amount"
        )
        lake.sql("CREATE TABLE sales (id BIGINT, key BIGINT, amount DECIMAL(12,2))")
        lake.append("sales", made)
        lake.create_stream_table("differential", QUERY, refresh_mode="DIFFERENTIAL")
        lake.create_stream_table("full", QUERY, refresh_mode="FULL")
        seconds: dict[str, list[float]] = {"differential": [], "full": []}
        jobs: dict[str, int | None] = {}
        for tick in range(ticks + 2):
            _change(lake, rows, changed, tick)
            for name in seconds:
                report = lake.refresh(name)
                jobs[name] = report.spark_jobs
                if tick >= 2:
                    seconds[name].append(report.seconds)
        for name in seconds:
            if not lake.check(name):
                raise SystemExit(f"{name} is wrong: {lake.check(name)}")
        medians = {name: statistics.median(each) for name, each in seconds.items()}
        return {
            "rows": rows,
            "groups": groups,
            "changed_rows": changed,
            "ticks": ticks,
            "seconds": {name: {"median": medians[name], "all": each} for name, each in seconds.items()},
            "spark_jobs": jobs,
            "differential_vs_full": medians["full"] / medians["differential"],
        }


def _change(lake: anabranch.Lake, rows: int, changed: int, tick: int) -> None:
    """Half of the changed rows are updates, a quarter each deletes and inserts; all in one snapshot."""
    step = rows // changed
    with lake.transaction():
        lake.sql(f"UPDATE sales SET amount = amount + 1 WHERE id % {2 * step} = {tick}")
        lake.sql(f"DELETE FROM sales WHERE id % {4 * step} = {step + tick}")
        inserted = f"id + {rows * (tick + 2)}, pmod(hash(id), 10000), CAST(7 AS DECIMAL(12,2))"
        lake.sql(f"INSERT INTO sales SELECT {inserted} FROM range(0, {rows}, {4 * step})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=1_000)
    parser.add_argument("--ticks", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    result = measure(given.rows, given.groups, given.changes, given.ticks)
    if given.json:
        print(json.dumps(result))
        return
    print(f"{given.rows} rows, {given.groups} groups, {given.changes} changed rows a tick, {given.ticks} ticks")
    for name in ("differential", "full"):
        print(f"  {name}: median {result['seconds'][name]['median']:.2f} s, {result['spark_jobs'][name]} Spark jobs")
    print(f"  differential is {result['differential_vs_full']:.1f} times as fast as full")


if __name__ == "__main__":
    main()
