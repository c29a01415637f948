"""The sales diamond under load: writers, readers of two kinds, and a look at every snapshot afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb

import anabranch
from anabranch.errors import ConflictError, StorageError
from anabranch.store.connection import extension_path

ROOT = Path(__file__).parents[2]
REGION = "SELECT region, SUM(amount) AS revenue, COUNT(*) AS sale_count FROM sales GROUP BY region"
PRODUCT = "SELECT product_id, SUM(amount) AS revenue, AVG(amount) AS average FROM sales GROUP BY product_id"
SUMMARY = (
    "SELECT (SELECT SUM(revenue) FROM revenue_by_region) AS by_region, "
    "(SELECT SUM(revenue) FROM revenue_by_product) AS by_product"
)
FAILING_PRODUCT = PRODUCT.replace("SUM(amount)", "SUM(IF(product_id < 0, amount / 0, amount))")
"""Fails as long as there are sales of a product with a negative id."""
WITHIN_THE_SUMMARY = "SELECT by_region, by_product FROM exec_summary"
TOTALS = (
    "SELECT by_region, by_product, (SELECT SUM(revenue) FROM revenue_by_region) AS region_sum, "
    "(SELECT SUM(revenue) FROM revenue_by_product) AS product_sum FROM exec_summary"
)


def make_diamond(lake: anabranch.Lake, unit: float = 1.0, product: str = PRODUCT, **summary: Any) -> None:
    """`sales` and three stream tables, refreshed every 2, 5 and 3 units of seconds."""
    lake.sql("CREATE TABLE sales (id BIGINT, region STRING, product_id BIGINT, amount DECIMAL(12,2))")
    lake.append("sales", random_sales(Random(0), 20))
    lake.create_stream_table("revenue_by_region", REGION, _seconds(2 * unit), "DIFFERENTIAL")
    lake.create_stream_table("revenue_by_product", product, _seconds(5 * unit), "DIFFERENTIAL")
    lake.create_stream_table("exec_summary", SUMMARY, _seconds(3 * unit), "DIFFERENTIAL", **summary)


def change_schedules(lake: anabranch.Lake, unit: float) -> None:
    for name, factor in (("revenue_by_region", 2), ("revenue_by_product", 5), ("exec_summary", 3)):
        lake.alter_stream_table(name, schedule=_seconds(factor * unit))


def unit_of(lake: anabranch.Lake) -> float:
    """One second, or up to five where the machine is so busy that a tick takes longer than that."""
    for number in range(2):
        lake.append("sales", random_sales(Random(number), 3))
        seconds = lake.refresh().seconds
    return min(5.0, max(1.0, seconds))


def random_sales(rng: Random, count: int) -> list[tuple[Any, ...]]:
    return [
        (
            rng.randrange(1000),
            rng.choice(("north", "south", "east", None)),
            rng.randrange(5),
            Decimal(rng.randrange(1, 10_000)) / 100,
        )
        for _ in range(count)
    ]


@contextmanager
def in_threads(*works: Callable[[threading.Event], None]) -> Iterator[None]:
    """Each work in a thread of its own, told to stop at the end; an error in one fails the test."""
    stop = threading.Event()
    errors: list[BaseException] = []

    def guarded(work: Callable[[threading.Event], None]) -> None:
        try:
            work(stop)
        except BaseException as error:
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(300)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads)


@contextmanager
def scheduler_of(lake: anabranch.Lake) -> Iterator[None]:
    thread = threading.Thread(target=lake.run, name="scheduler")
    thread.start()
    try:
        yield
    finally:
        lake.stop()
        thread.join(300)
        assert not thread.is_alive()


@dataclass
class Writer:
    """Commits random sales: appends, updates, deletes."""

    lake: anabranch.Lake
    seed: int
    commits: int = 0

    def __call__(self, stop: threading.Event) -> None:
        rng = Random(self.seed)
        while not stop.is_set():
            try:
                self._write(rng)
                self.commits += 1
            except (ConflictError, StorageError):
                continue

    def _write(self, rng: Random) -> None:
        kind = rng.choice(("append", "append", "update", "delete"))
        if kind == "append":
            self.lake.append("sales", random_sales(rng, rng.randint(1, 5)))
        elif kind == "update":
            self.lake.sql(
                f"UPDATE sales SET amount = amount + 1, product_id = {rng.randrange(5)} "
                f"WHERE id % 7 = {rng.randrange(7)}"
            )
        else:
            self.lake.sql(f"DELETE FROM sales WHERE id % 11 = {rng.randrange(11)}")


@dataclass
class Disturber:
    """Pauses a branch for a while, then makes it fail for a while, again and again; leaves it able to go on."""

    lake: anabranch.Lake
    branch: str
    seconds: float
    paused: int = 0
    failed: int = 0

    def __call__(self, stop: threading.Event) -> None:
        while not stop.wait(self.seconds):
            self.lake.pause(self.branch)
            self.paused += 1
            stop.wait(self.seconds)
            self.lake.resume(self.branch)
            self.lake.append("sales", [(-1, "north", -1, Decimal(5))])
            while not self._fails() and not stop.wait(0.2):
                pass
            self.failed += self._fails()
            self._repair()

    def _fails(self) -> bool:
        (status,) = (each for each in self.lake.status().to_pylist() if each["name"] == self.branch)
        return bool(status["consecutive_errors"])

    def _repair(self) -> None:
        patiently(lambda: self.lake.sql("DELETE FROM sales WHERE product_id < 0"))
        patiently(lambda: self.lake.resume(self.branch))


def patiently(write: Callable[[], object]) -> None:
    """A write that gives way to others as often as it must."""
    while True:
        try:
            write()
            return
        except ConflictError:
            continue


@dataclass
class Reader:
    """Reads the totals through Anabranch, all at one snapshot, as fast as it can."""

    lake: anabranch.Lake
    query: str = TOTALS
    reads: int = 0
    wrong: list[Any] = field(default_factory=list)

    def __call__(self, stop: threading.Event) -> None:
        while not stop.is_set():
            (row,) = self.lake.sql(self.query).collect()
            self.reads += 1
            if len(set(row)) > 1:
                self.wrong.append(row)


CLIENT = """
import json, sys, time
sys.path.insert(0, {root!r})
from tests.scheduler.shop import plain_client
client = plain_client({folder!r})
reads, wrong = 0, []
print("ready", flush=True)
stop_at = time.monotonic() + {seconds}
while time.monotonic() < stop_at:
    (row,) = client.execute({query!r}).fetchall()
    reads += 1
    if len(set(row)) > 1:
        wrong.append([str(each) for each in row])
print(json.dumps([reads, wrong]), flush=True)
"""


@contextmanager
def outside_reader(folder: str, seconds: float, query: str = TOTALS) -> Iterator[list[Any]]:
    """A plain DuckDB client in a process of its own; the list gets its number of reads and the unequal ones."""
    text = CLIENT.format(root=str(ROOT), folder=folder, seconds=seconds, query=query)
    result: list[Any] = []
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield result
        # DuckDB may print an empty line of its own where a query takes long.
        result.extend(json.loads(process.stdout.read().strip().splitlines()[-1]))


def plain_client(folder: str, read_only: bool = True) -> duckdb.DuckDBPyConnection:
    """DuckDB with the DuckLake extension, nothing of ours."""
    client = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for name in ("ducklake", "sqlite_scanner"):
        client.execute(f"LOAD '{extension_path(name)}'")
    mode = "READ_ONLY, " if read_only else ""
    options = f"{mode}META_BUSY_TIMEOUT 10000, DATA_PATH '{folder}/data/', OVERRIDE_DATA_PATH true"
    client.execute(f"ATTACH 'ducklake:sqlite:{folder}/catalog.sqlite' AS lake ({options})")
    client.execute("USE lake")
    return client


def check_every_snapshot(lake: anabranch.Lake, folder: str, since: int = 0, whole: bool = True) -> int:
    """In each snapshot: equal totals, equal to the sum over `sales` where the frontier says. How many were looked at.

    Without `whole` the members may be further than the summary, as where one of them is held.
    """
    numbers = [each.version.number for each in lake._engine.store.snapshots() if each.version.number > since]
    client = plain_client(folder)
    looked_at = 0
    for number in numbers:
        at = lake.snapshot(number)
        if "exec_summary" not in at.tables:
            continue
        looked_at += 1
        frontier = at.frontier("exec_summary")
        (source,) = frontier.sources.values()
        tables = {
            name: f"lake.{name} AT (VERSION => {number})"
            for name in ("exec_summary", "revenue_by_region", "revenue_by_product")
        }
        query = TOTALS if whole else WITHIN_THE_SUMMARY
        for name, text in tables.items():
            query = query.replace(f"FROM {name}", f"FROM {text}")
        (row,) = client.execute(query).fetchall()
        (total,) = client.execute(f"SELECT sum(amount) FROM lake.sales AT (VERSION => {source.number})").fetchall()
        assert set(row) == set(total), f"snapshot {number}: totals {row}, sales at {source}: {total}"
    client.close()
    return looked_at


def wait_until(holds: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not holds() and time.monotonic() < until:
        time.sleep(0.05)
    return holds()


def _seconds(value: float) -> str:
    return f"{round(value * 1000)}ms"
