"""Compare a stream table with its query run from scratch on the same inputs: the oracle, for users and tests alike."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.algebra.relation import After
from anabranch.algebra.walk import leaves
from anabranch.compile import QUERY_ITSELF, Program
from anabranch.definitions import StreamTable
from anabranch.delta.state import initial
from anabranch.engine import Engine
from anabranch.inputs import TickInputs
from anabranch.pinned import Pinned
from anabranch.spark.identity import consolidate
from anabranch.spark.moved import difference

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

SHOWN_ROWS = 20
FLOAT_TOLERANCE = 1e-9


@dataclass(frozen=True)
class CheckResult:
    """`ok` when the table holds exactly the rows of its query. `missing` and `unexpected` show some that differ."""

    name: str
    ok: bool
    rows: int
    missing: tuple[Any, ...] = ()
    unexpected: tuple[Any, ...] = ()

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        if self.ok:
            return f"{self.name}: {self.rows} rows, equal to the query run from scratch"
        lines = [f"{self.name}: NOT equal to the query run from scratch"]
        lines += [f"  missing     {row}" for row in self.missing]
        lines += [f"  unexpected  {row}" for row in self.unexpected]
        return "\n".join(lines)
