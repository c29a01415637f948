"""One Spark session serves the whole run; a test that does not ask for it does not start it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.postgres import find_programs, running_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch import Lake


def pytest_addoption(parser: pytest.Parser) -> None:
    choices = ("all", "with", "without")
    parser.addoption("--spark", choices=choices, default="all", help="only tests that need Spark, or only the others")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A server is started by one run only, so tests with PostgreSQL go with Spark."""
    wanted = config.getoption("--spark")
    if wanted == "all":
        return
    kept: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        needs = bool({"spark", "new_postgres_catalog"} & set(getattr(item, "fixturenames", ())))
        kept[needs is (wanted == "with")].append(item)
    items[:] = kept[True]
    config.hook.pytest_deselected(items=kept[False])


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from anabranch.spark.session import local_session

    session = local_session()
    yield session
    session.stop()


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    """An empty lake in a folder of its own."""
    import anabranch

    with anabranch.connect(str(tmp_path / "shop"), spark=spark) as opened:
        yield opened


@pytest.fixture(scope="session")
def new_postgres_catalog() -> Iterator[Callable[[], str]]:
    """Gives catalogs in databases of their own on one PostgreSQL server."""
    programs = find_programs()
    if programs is None:
        pytest.skip("PostgreSQL is neither installed on this machine nor installable")
    with running_server(programs) as server:
        yield server.new_catalog
