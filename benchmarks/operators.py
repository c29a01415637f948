"""`make bench-operators`: each operator on a million rows, 1,000 changed rows a tick, differential against full.

Every operator is two stream tables in one lake, one of each mode, refreshed in turns after the same change; what
counts is the ratio of the medians, commit included.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import anabranch
from benchmarks.machine import machine

OPERATORS: Mapping[str, str] = {
    "project": "SELECT id, amount * 2 AS twice FROM sales",
    "filter": "SELECT id, amount FROM sales WHERE amount > 900",
    "generate": "SELECT id, part FROM sales LATERAL VIEW explode(array(key, key + 1)) AS part",
    "union all": "SELECT id FROM sales UNION ALL SELECT id FROM items",
    "distinct": "SELECT DISTINCT key, amount FROM sales",
    "inner join": "SELECT s.id, s.amount, i.label FROM sales s JOIN items i ON s.key = i.id",
    "left join": "SELECT s.id, i.label FROM sales s LEFT JOIN items i ON s.key = i.id AND i.id % 2 = 0",
    "full join": "SELECT s.id, i.label FROM sales s FULL JOIN items i ON s.key = i.id AND i.id % 2 = 0",
    "semi-join": "SELECT id FROM sales s WHERE EXISTS (SELECT 1 FROM items i WHERE i.id = s.key AND i.id % 2 = 0)",
    "anti-join": "SELECT id FROM sales s WHERE NOT EXISTS (SELECT 1 FROM items i WHERE i.id = s.key AND i.id % 2 = 0)",
    "merged aggregate": "SELECT key, sum(amount) AS total, count(*) AS sold, avg(amount) AS m FROM sales GROUP BY key",
    "extremes": "SELECT key, min(amount) AS low, max(amount) AS high FROM sales GROUP BY key",
    "recomputed aggregate": "SELECT key, stddev(amount) AS spread, median(amount) AS middle FROM sales GROUP BY key",
    "aggregate without groups": "SELECT count(*) AS sold, sum(amount) AS total FROM sales",
    "distinct aggregate": "SELECT key, count(DISTINCT amount) AS amounts FROM sales GROUP BY key",
    "grouping sets": "SELECT key, kind, sum(amount) AS total FROM sales GROUP BY ROLLUP (kind, key)",
    "except all": "SELECT key FROM sales EXCEPT ALL SELECT id FROM items",
    "window": "SELECT id, rank() OVER (PARTITION BY key ORDER BY amount DESC) AS place FROM sales",
    "window without partition": "SELECT key, rank() OVER (ORDER BY sum(amount)) AS place FROM sales GROUP BY key",
    "top rows": "SELECT id, amount FROM sales ORDER BY amount DESC, id LIMIT 100",
    "correlated scalar": "SELECT i.id, (SELECT max(amount) FROM sales s WHERE s.key = i.id) AS high FROM items i",
}


@dataclass(frozen=True)
class Measured:
    """Median seconds of a tick in each mode, and how many times as fast differential is."""

    operator: str
    differential: float
    full: float
    ratio: float


def measure(rows: int, keys: int, changed: int, ticks: int, wanted: list[str]) -> Iterator[Measured]:
    """One lake for all operators; each pair of stream tables is dropped before the next is made."""
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as folder, anabranch.connect(folder) as lake:
        _load(lake, rows, keys)
        tick = 0
        for operator in wanted:
            for mode in ("DIFFERENTIAL", "FULL"):
                lake.create_stream_table(mode.lower(), OPERATORS[operator], refresh_mode=mode)
            seconds: dict[str, list[float]] = {"differential": [], "full": []}
            for number in range(ticks + 1):
                tick += 1
                _change(lake, rows, changed, tick)
                for name, found in seconds.items():
                    report = lake.refresh(name)
                    found.extend([report.seconds] if number else [])
            if not lake.check("differential"):
                raise SystemExit(f"{operator} is wrong: {lake.check('differential')}")
            medians = {name: statistics.median(found) for name, found in seconds.items()}
            ratio = medians["full"] / medians["differential"]
            yield Measured(operator, medians["differential"], medians["full"], ratio)
            for name in seconds:
                lake.drop_stream_table(name)


def _load(lake: anabranch.Lake, rows: int, keys: int) -> None:
    amount = "CAST(pmod(hash(id, 7), 1000) AS DECIMAL(12,2)) AS amount"
    lake.sql("CREATE TABLE sales (id BIGINT, key BIGINT, kind BIGINT, amount DECIMAL(12,2))")
    lake.append(
        "sales", lake.spark.range(rows).selectExpr("id", f"pmod(hash(id), {keys}) AS key", "id % 5 AS kind", amount)
    )
    lake.sql("CREATE TABLE items (id BIGINT, label STRING)")
    lake.append("items", lake.spark.range(keys).selectExpr("id", "concat('item ', id) AS label"))


def _change(lake: anabranch.Lake, rows: int, changed: int, tick: int) -> None:
    """Half of the changed rows are updates, a quarter each deletes and inserts; a few items change too."""
    step = max(1, rows // changed)
    with lake.transaction():
        lake.sql(f"UPDATE sales SET amount = amount + 1 WHERE id % {2 * step} = {tick % (2 * step)}")
        lake.sql(f"DELETE FROM sales WHERE id % {4 * step} = {(step + tick) % (4 * step)}")
        new = f"id + {rows * (tick + 1)}, pmod(hash(id), 10000), id % 5, CAST(7 AS DECIMAL(12,2))"
        lake.sql(f"INSERT INTO sales SELECT {new} FROM range(0, {rows}, {4 * step})")
        lake.sql(f"UPDATE items SET label = concat('tick {tick} ', id) WHERE id % 1000 = {tick % 1000}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=1_000)
    parser.add_argument("--ticks", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=sorted(OPERATORS), help="some operators alone")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--output", type=Path, help="write the table to this file, too")
    given = parser.parse_args()
    wanted = given.only or list(OPERATORS)
    if given.json:
        measured = measure(given.rows, given.keys, given.changes, given.ticks, wanted)
        print(json.dumps([asdict(each) for each in measured]))
        return
    lines = [
        f"{given.rows} rows, {given.changes} changed rows a tick, medians of {given.ticks} ticks, commit included",
        machine(),
        f"{'operator':28}{'differential':>14}{'full':>10}{'ratio':>8}",
    ]
    print("\n".join(lines), flush=True)
    for each in measure(given.rows, given.keys, given.changes, given.ticks, wanted):
        lines.append(f"{each.operator:28}{each.differential:12.2f} s{each.full:8.2f} s{each.ratio:8.1f}")
        print(lines[-1], flush=True)
        if given.output:
            given.output.parent.mkdir(parents=True, exist_ok=True)
            given.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
