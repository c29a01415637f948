"""A change of a stored table, ready to commit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.algebra.relation import WEIGHT
from anabranch.errors import RefreshError
from anabranch.spark.rowids import ROWIDS


@dataclass(frozen=True)
class Located:
    """`change` is the consolidated Z-set; `inserts` its positive rows, repeated; `deletes` the rowids of the others."""

    change: pa.Table
    inserts: pa.Table
    deletes: pa.Array

    @staticmethod
    def of(rows: pa.Table) -> Located:
        """From rows with WEIGHT and ROWIDS; raises ROW_NOT_THERE unless every deleted row was found."""
        deletes = pc.list_flatten(rows.column(ROWIDS)).combine_chunks()
        change = rows.drop_columns([ROWIDS]).filter(pc.not_equal(rows.column(WEIGHT), 0))
        return Located.checked(change, deletes)

    @staticmethod
    def checked(change: pa.Table, deletes: pa.Array) -> Located:
        """The change with the rowids it deletes, one for each."""
        weights = change.column(WEIGHT).to_numpy()
        check_deletes(-int(weights[weights < 0].sum()), deletes)
        return Located(change, _repeated(change, weights), deletes)


def no_rowids() -> pa.Array:
    return pa.array([], pa.int64())


def check_deletes(wanted: int, deletes: pa.Array) -> None:
    """Raise ROW_NOT_THERE unless there are as many different rowids as rows to delete."""
    found = len(pc.unique(deletes))
    if found != wanted or found != len(deletes):
        raise RefreshError(
            "ROW_NOT_THERE",
            "a row to be deleted is not there",
            f"{wanted} rows are to be deleted, {found} of them were found.",
            "The next refresh of this stream table is full.",
        )


def _repeated(change: pa.Table, weights: numpy.ndarray) -> pa.Table:
    positions = numpy.repeat(numpy.arange(len(weights)), numpy.maximum(weights, 0))
    rows = change.drop_columns([WEIGHT])
    return rows if len(positions) == len(weights) and (weights == 1).all() else rows.take(pa.array(positions))
