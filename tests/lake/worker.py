"""Processes that work on a lake and may be killed: each has its own Python, lake and commits.

Starting Spark takes longer than what is tested, so all share the JVM of the test, which the order names. A starter with
everything imported forks them. A killed driver whose executors go on for a while is what a cluster shows, too.

Every write is a transaction that also appends its number to `log`, so the rows tell how far the process came.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anabranch
from anabranch import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
REVENUE = "SELECT region, sum(amount) AS revenue, count(*) AS n FROM sales GROUP BY region"
TOP = "SELECT sum(revenue) AS revenue, count(*) AS regions FROM revenue"
MANY = 4_000_000
"""So many rows are expected to be too many for the driver, so that executors write what is left of them."""


def make_shop(lake: Lake) -> None:
    """The tables that the processes work on."""
    lake.sql("CREATE TABLE log (number BIGINT)")
    lake.sql("CREATE TABLE sales (id BIGINT, region STRING, amount BIGINT)")
    lake.create_stream_table("revenue", REVENUE, refresh_mode="DIFFERENTIAL")
    lake.create_stream_table("top", TOP, refresh_mode="DIFFERENTIAL")


def append(lake: Lake, number: int) -> None:
    with lake.transaction():
        lake.append("log", [(number,)])
        lake.append("sales", [(number, f"r{number % 3}", number)] * 2)


def append_by_executors(lake: Lake, number: int) -> None:
    with lake.transaction():
        lake.append("log", [(number,)])
        rows = f"SELECT {number}L AS id, 'many' AS region, id % 3 AS amount FROM range({MANY}) WHERE id < 5"
        lake.append("sales", lake.sql(rows))


def change(lake: Lake, number: int) -> None:
    with lake.transaction():
        lake.append("log", [(number,)])
        lake.sql(f"UPDATE sales SET amount = amount + 1 WHERE id % 2 = {number % 2}")
        lake.sql(f"DELETE FROM sales WHERE id = {number - 4}")


def count_up(lake: Lake, number: int) -> None:
    lake.sql("UPDATE sales SET amount = amount + 1")


def refresh(lake: Lake, number: int) -> None:
    lake.refresh()


def compact(lake: Lake, number: int) -> None:
    lake.compact()


def expire(lake: Lake, number: int) -> None:
    lake.expire("0s")


OPERATIONS: dict[str, Callable[[Lake, int], None]] = {
    each.__name__: each for each in (append, append_by_executors, change, count_up, refresh, compact, expire)
}
LOOP = ("append", "refresh", "change", "append_by_executors", "refresh", "compact", "expire")


def expected(operations: list[tuple[str, int]]) -> Counter[tuple[Any, ...]]:
    """The rows of `sales` after these operations."""
    rows: list[tuple[int, str, int]] = []
    for name, number in operations:
        match name:
            case "append":
                rows += [(number, f"r{number % 3}", number)] * 2
            case "append_by_executors":
                rows += [(number, "many", each % 3) for each in range(5)]
            case "change":
                moved = [(id, region, amount + (id % 2 == number % 2)) for id, region, amount in rows]
                rows = [row for row in moved if row[0] != number - 4]
    return Counter(rows)


def revenue_of(sales: Counter[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows of `revenue` over these sales."""
    totals: dict[str, tuple[int, int]] = {}
    for (_, region, amount), copies in sales.items():
        revenue, count = totals.get(region, (0, 0))
        totals[region] = revenue + amount * copies, count + copies
    return [(region, *each) for region, each in totals.items()]


def top_of(sales: Counter[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The row of `top` over these sales."""
    regions = revenue_of(sales)
    return [(sum(each[1] for each in regions) if regions else None, len(regions))]


class Workers:
    """Starts processes, one after the other, and tells what they say."""

    def __init__(self, spark: SparkSession, folder: str, catalog: str | None = None, **settings: Any) -> None:
        gateway = spark.sparkContext._gateway.gateway_parameters
        self._environment = {
            "PYSPARK_GATEWAY_PORT": str(gateway.port),
            "PYSPARK_GATEWAY_SECRET": gateway.auth_token,
        }
        self._order = {"folder": folder, "catalog": catalog, "settings": settings}
        self._starter = subprocess.Popen(
            [sys.executable, "-m", "tests.lake.worker"],
            cwd=ROOT,
            env={**os.environ, **self._environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, operations: list[tuple[str, int]], crash_at: str = "") -> int:
        """A process that does these operations, or is killed at the named step of the last one; its id."""
        order = {**self._order, "operations": operations, "crash_at": crash_at}
        assert self._starter.stdin is not None
        self._starter.stdin.write(json.dumps(order) + "\n")
        self._starter.stdin.flush()
        return int(self.hear("pid"))

    def hear(self, word: str) -> str:
        """The rest of the next line that starts with this word."""
        assert self._starter.stdout is not None
        for line in self._starter.stdout:
            first, _, rest = line.strip().partition(" ")
            if first == word:
                return rest
        raise AssertionError("the starter of processes ended")

    def until_ended(self) -> list[str]:
        """All that the process says until it ends."""
        assert self._starter.stdout is not None
        said: list[str] = []
        for line in self._starter.stdout:
            said.append(line.strip())
            if said[-1].startswith("ended"):
                return said
        raise AssertionError("the starter of processes ended")

    def close(self) -> None:
        assert self._starter.stdin is not None
        self._starter.stdin.close()
        self._starter.wait(60)


def shared_session() -> SparkSession:
    """A session in the Spark that runs in the gateway's JVM already."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()
    running = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    return SparkSession(SparkContext(gateway=gateway, jsc=gateway.jvm.JavaSparkContext(running)))


def work(order: dict[str, Any]) -> None:
    """Do what is ordered, telling each operation that is done."""
    lake = anabranch.connect(order["folder"], spark=shared_session(), catalog=order["catalog"], **order["settings"])
    print("ready", flush=True)
    *before, last = order["operations"]
    for name, number in before:
        OPERATIONS[name](lake, number)
        print(f"did {name} {number}", flush=True)
    os.environ["ANABRANCH_CRASH_AT"] = order["crash_at"]
    OPERATIONS[last[0]](lake, last[1])
    print(f"did {last[0]} {last[1]}", flush=True)


def main() -> None:
    """A process for each order on standard input, one after the other; tells its id, and how it ended."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                work(json.loads(line))
            except BaseException as error:
                print(f"raised {type(error).__name__}: {error}".replace("\n", " "), flush=True)
                os._exit(1)
            os._exit(0)
        print(f"pid {child}", flush=True)
        _, status = os.waitpid(child, 0)
        print(f"ended {os.waitstatus_to_exitcode(status)}", flush=True)


if __name__ == "__main__":
    main()
