"""Rows of tables: few of them are at hand, many stay in files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Union

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, eq=False)
class Later:
    """Rows in files. Most frames that a tick could read are never read, and to make one takes a tenth of a second."""

    make: Callable[[], DataFrame]

    @cached_property
    def frame(self) -> DataFrame:
        return self.make()


Rows = Union["DataFrame", Later, pa.Table]


def frame_in(rows: DataFrame | Later) -> DataFrame:
    """The frame itself."""
    return rows.frame if isinstance(rows, Later) else rows
