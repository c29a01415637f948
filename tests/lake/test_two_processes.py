"""Two processes on one lake at once: nothing is lost, nothing is doubled, and no error that a retry mends is seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import anabranch
from anabranch import Lake
from tests.lake.tools import counted
from tests.lake.worker import Workers, make_shop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS = 4


@pytest.fixture(params=["sqlite", "postgres"])
def catalog(request: pytest.FixtureRequest) -> str | None:
    if request.param == "sqlite":
        return None
    new_catalog: Callable[[], str] = request.getfixturevalue("new_postgres_catalog")
    return new_catalog()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "shop")


@pytest.fixture
def shop(spark: SparkSession, folder: str, catalog: str | None) -> Iterator[Lake]:
    with anabranch.connect(folder, spark=spark, catalog=catalog) as lake:
        make_shop(lake)
        yield lake


@pytest.fixture
def two(spark: SparkSession, folder: str, catalog: str | None) -> Iterator[tuple[Workers, Workers]]:
    pair = Workers(spark, folder, catalog), Workers(spark, folder, catalog)
    yield pair
    for each in pair:
        each.close()


def at_once(two: tuple[Workers, Workers], operations: list[list[tuple[str, int]]]) -> None:
    for workers, orders in zip(two, operations, strict=True):
        workers.start(orders)
    for workers in two:
        said = workers.until_ended()
        assert said[-1] == "ended 0", said


def test_two_processes_refresh_the_same_nodes(shop: Lake, two: tuple[Workers, Workers]) -> None:
    """Both write, so that there is something to do, and both refresh, so that they meet."""
    orders = [
        [(name, 2 * number + side) for number in range(ROUNDS) for name in ("append", "refresh", "refresh")]
        for side in (0, 1)
    ]
    at_once(two, orders)
    assert counted(shop.table("log")) == Counter({(number,): 1 for number in range(2 * ROUNDS)})
    assert shop.table("sales").count() == 4 * ROUNDS
    shop.refresh()
    assert shop.check("revenue")
    assert shop.check("top")
    check_history(shop)


def test_two_processes_change_the_same_rows(shop: Lake, two: tuple[Workers, Workers]) -> None:
    """Every UPDATE takes effect exactly once, whoever comes first."""
    shop.append("sales", [(1, "odd", 0), (2, "even", 0)])
    orders = [[("count_up", number) for number in range(ROUNDS)] for _ in (0, 1)]
    at_once(two, orders)
    assert counted(shop.table("sales")) == Counter({(1, "odd", 2 * ROUNDS): 1, (2, "even", 2 * ROUNDS): 1})


def test_one_writes_while_the_other_refreshes(shop: Lake, two: tuple[Workers, Workers]) -> None:
    writes: list[tuple[str, int]] = [
        (("append", "count_up", "append_by_executors")[number % 3], number) for number in range(2 * ROUNDS)
    ]
    at_once(two, [writes, [("refresh", number) for number in range(2 * ROUNDS)]])
    shop.refresh()
    assert shop.check("revenue")
    assert shop.check("top")
    check_history(shop)


def check_history(lake: Lake) -> None:
    """No tick is there twice, and each node's frontier only ever moved on."""
    ticks: list[dict[str, Any]] = lake.history().to_pylist()
    assert len({(each["node_name"], each["snapshot"]) for each in ticks}) == len(ticks)
    assert all(each["action"] in ("DIFFERENTIAL", "FULL") for each in ticks)
