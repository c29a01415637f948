"""One Spark session serves the whole run; a test that does not ask for it does not start it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from anabranch.spark.session import local_session  # noqa: PLC0415

    session = local_session()
    yield session
    session.stop()
