"""Large results: Parquet files that executors write into a staging folder, from where a commit takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from anabranch.algebra.relation import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class StagedFiles:
    """Files that are ready to be registered, and how many rows they hold."""

    paths: tuple[str, ...]
    rows: int


class Stager(Protocol):
    """Lets executors write rows, such as a lake does."""

    def stage(self, rows: DataFrame, columns: tuple[Column, ...]) -> StagedFiles:
        """The files that hold the rows."""
