"""Changes of stored tables on their way to the lake: what is committed, and what readers see before it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  the name every Spark user knows

from anabranch.spark.identity import consolidate
from anabranch.spark.quote import quoted
from anabranch.store.protocol import ROWID, WEIGHT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from anabranch.definitions import StoredPart


@dataclass(frozen=True)
class Moved:
    """The change of one stored table: a consolidated Z-set of its rows, and the rowids of the rows that go."""

    rows: DataFrame
    deleted: pa.Array
    inserted: int

    @property
    def is_empty(self) -> bool:
        return self.inserted == 0 and len(self.deleted) == 0

    def after(self, stored: DataFrame) -> DataFrame:
        """The table's rows once this is committed; `stored` are its rows with rowids."""
        columns = [each for each in stored.columns if each != ROWID]
        kept = stored
        if len(self.deleted):
            gone = stored.sparkSession.createDataFrame(pa.table({ROWID: self.deleted.cast(pa.int64())}))
            kept = stored.join(F.broadcast(gone), ROWID, "left_anti")
        return _select(kept, columns).unionAll(_select(self.new_rows(), columns))

    def new_rows(self) -> DataFrame:
        """The inserted rows, each as often as it is inserted."""
        copies = F.explode(F.array_repeat(F.lit(0), F.col(WEIGHT).cast("int")))
        return self.rows.where(F.col(WEIGHT) > 0).withColumn("__ab_copy", copies).drop("__ab_copy", WEIGHT)


def shown(rows: DataFrame, part: StoredPart) -> DataFrame:
    """What readers see of a part's rows; the weight, where there is one, is kept."""
    weight = [WEIGHT] if WEIGHT in rows.columns else []
    visible = rows.where(F.col(quoted(part.flag))) if part.flag else rows
    return _select(visible, [*part.visible, *weight])


def zset_sum(terms: Sequence[DataFrame]) -> DataFrame:
    """The sum of Z-sets, not consolidated."""
    return reduce(lambda left, right: left.unionAll(right), terms)


def difference(new: DataFrame, old: DataFrame) -> DataFrame:
    """new - old, as a consolidated Z-set."""
    return consolidate(new.withColumn(WEIGHT, F.lit(1)).unionAll(old.withColumn(WEIGHT, F.lit(-1))), WEIGHT)


def _select(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    return rows.select(*(quoted(each) for each in columns))
