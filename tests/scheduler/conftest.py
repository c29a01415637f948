"""A lake of its own for every test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import anabranch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Opener = Callable[..., anabranch.Lake]


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "shop")


@pytest.fixture
def open_lake(spark: SparkSession, folder: str) -> Iterator[Opener]:
    """Opens the test's lake as often as asked; every handle is closed at the end."""
    opened: list[anabranch.Lake] = []

    def open_one(**settings: Any) -> anabranch.Lake:
        opened.append(anabranch.connect(folder, spark=spark, **settings))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


@pytest.fixture
def lake(open_lake: Opener) -> anabranch.Lake:
    return open_lake()
