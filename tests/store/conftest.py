"""A lake of its own for every test, and small helpers to look into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from anabranch.store.ducklake import DuckLakeStore, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Opener = Callable[..., DuckLakeStore]


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "shop")


@pytest.fixture
def opener(spark: SparkSession, folder: str) -> Iterator[Opener]:
    """Opens the test's lake as often as asked; every handle is closed at the end."""
    opened: list[DuckLakeStore] = []

    def open_one(**settings: object) -> DuckLakeStore:
        opened.append(open_store(folder, spark, **settings))  # type: ignore[arg-type]
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


@pytest.fixture
def store(opener: Opener) -> DuckLakeStore:
    return opener()


@pytest.fixture(params=["sqlite", "postgres"])
def catalog(request: pytest.FixtureRequest) -> str | None:
    """Each kind of catalog in turn; None is the file in the lake's folder."""
    if request.param == "sqlite":
        return None
    new_catalog: Callable[[], str] = request.getfixturevalue("new_postgres_catalog")
    return new_catalog()
