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
