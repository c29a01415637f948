"""One Spark session serves the whole run; a test that does not ask for it does not start it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

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
