"""Changes of stored tables on their way to the lake: what is committed, and what readers see before it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812  the name every Spark user knows

from anabranch.algebra.relation import ROWID, WEIGHT
from anabranch.spark.identity import consolidate
from anabranch.spark.quote import quoted
from anabranch.spark.staged import StagedFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Face(Protocol):
    """What readers see of a stored table: these columns of the rows in which the flag, if there is one, is true."""

    @property
    def visible(self) -> tuple[str, ...]: ...

    @property
    def flag(self) -> str | None: ...


@dataclass(frozen=True)
class Moved:
    """The change of one stored table: what goes into the commit, and the Z-set of rows for those who read it now.

    `make_rows` gives the Z-set as a frame; `table` is the same as an Arrow table, if the change is small.
    """

    make_rows: Callable[[], DataFrame]
    deleted: pa.Array
    inserts: tuple[pa.Table | StagedFiles, ...]
    table: pa.Table | None = None

    @cached_property
    def rows(self) -> DataFrame:
        """The change as a Z-set, with WEIGHT."""
        return self.make_rows()

    @property
    def inserted(self) -> int:
        return sum(each.num_rows if isinstance(each, pa.Table) else each.rows for each in self.inserts)

    @property
    def is_empty(self) -> bool:
        return self.inserted == 0 and len(self.deleted) == 0

    def change(self) -> DataFrame:
        """The change as a Z-set, with WEIGHT."""
        return self.rows

    def after(self, stored: DataFrame) -> DataFrame:
        """The table's rows once this is committed; `stored` are its rows with rowids."""
        columns = [each for each in stored.columns if each != ROWID]
        kept = stored
        if len(self.deleted):
            gone = stored.sparkSession.createDataFrame(pa.table({ROWID: self.deleted.cast(pa.int64())}))
            kept = stored.join(F.broadcast(gone), ROWID, "left_anti")
        return _select(kept, columns).unionAll(_select(self.new_rows(), columns))

    def after_here(self, stored: pa.Table) -> pa.Table | None:
        """The same if all of it is at hand."""
        if self.table is None:
            return None
        columns = [each for each in stored.column_names if each != ROWID]
        kept = stored.filter(pc.invert(pc.is_in(stored.column(ROWID), self.deleted.cast(pa.int64()))))
        new = (each for each in self.inserts if isinstance(each, pa.Table))
        schema = stored.select(columns).schema
        return pa.concat_tables([kept.select(columns), *(each.select(columns).cast(schema) for each in new)])

    def new_rows(self) -> DataFrame:
        """The inserted rows, each as often as it is inserted."""
        copies = F.explode(F.expr(f"sequence(1L, {quoted(WEIGHT)})"))
        return self.rows.where(F.col(WEIGHT) > 0).withColumn("__ab_copy", copies).drop("__ab_copy", WEIGHT)

    def shown_counts(self, part: Face) -> tuple[int, int]:
        """How many rows readers see come and go."""
        if part.flag is None:
            return self.inserted, len(self.deleted)
        if self.table is not None:
            weights = self.table.filter(self.table.column(part.flag)).column(WEIGHT)
        else:
            weights = shown(self.rows, part).select(WEIGHT).toArrow().column(WEIGHT)
        gained = pc.sum(pc.max_element_wise(weights, 0)).as_py() or 0
        return gained, gained - (pc.sum(weights).as_py() or 0)


def shown(rows: DataFrame, part: Face) -> DataFrame:
    """What readers see of a part's rows; the weight, where there is one, is kept."""
    weight = [WEIGHT] if WEIGHT in rows.columns else []
    visible = rows.where(F.col(quoted(part.flag))) if part.flag else rows
    return _select(visible, [*part.visible, *weight])


def shown_table(rows: pa.Table, part: Face) -> pa.Table:
    """The same of rows that are at hand."""
    visible = rows.filter(rows.column(part.flag)) if part.flag else rows
    return visible.select([*part.visible, *(each for each in (WEIGHT,) if each in rows.column_names)])


def signed(rows: DataFrame, weight: int) -> DataFrame:
    """Every row with this weight."""
    return rows.withColumn(WEIGHT, F.lit(weight).cast("bigint"))


def zset_sum(terms: Sequence[DataFrame]) -> DataFrame:
    """The sum of Z-sets, not consolidated."""
    return reduce(lambda left, right: left.unionAll(right), terms)


def difference(new: DataFrame, old: DataFrame) -> DataFrame:
    """new - old, as a consolidated Z-set."""
    return consolidate(signed(new, 1).unionAll(signed(old, -1)), WEIGHT)


def _select(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    return rows.select(*(quoted(each) for each in columns))
