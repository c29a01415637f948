"""Finds rows among rows that are all at hand, by byte identity and without a Spark job."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.algebra.relation import ROWID, WEIGHT, Column
from anabranch.fuse.codes import codes_of, is_equated, stacked


def rowids_of(gone: pa.Table, stored: pa.Table, columns: tuple[Column, ...]) -> pa.Array:
    """For each row that goes `-weight` times, as many rowids of identical stored rows; fewer if there are fewer."""
    stored = _possible(gone, stored, columns)
    both = [stacked(gone.column(each.name), stored.column(each.name)) for each in columns]
    codes = codes_of(both, gone.num_rows + stored.num_rows)
    wanted, found = codes[: gone.num_rows], codes[gone.num_rows :]
    rowids = stored.column(ROWID).to_numpy()
    order = np.lexsort((rowids, found))
    sorted_codes = found[order]
    starts = np.searchsorted(sorted_codes, wanted, side="left")
    ends = np.searchsorted(sorted_codes, wanted, side="right")
    ends = np.minimum(ends, starts - gone.column(WEIGHT).to_numpy())
    taken = [order[start:end] for start, end in zip(starts, ends, strict=True)]
    return pa.array(rowids[np.concatenate(taken)] if taken else [], pa.int64())


def _possible(gone: pa.Table, stored: pa.Table, columns: tuple[Column, ...]) -> pa.Table:
    """The stored rows with values that occur in rows that go: to look a value up is cheaper than to number it."""
    for each in columns:
        if is_equated(each.type):
            values = gone.column(each.name)
            stored = stored.filter(pc.is_in(stored.column(each.name).cast(values.type), values.unique()))
    return stored
