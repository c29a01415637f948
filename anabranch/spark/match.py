"""Finds rows among rows that are all at hand, by byte identity and without a Spark job."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.algebra.relation import ROWID, WEIGHT, Column


def can_match(columns: tuple[Column, ...]) -> bool:
    """Whether rows of these columns can be compared here; nested values are left to Spark."""
    return bool(columns) and not any(_is_left_to_spark(each.type) for each in columns)


def _is_left_to_spark(type: str) -> bool:
    return "<" in type or type.startswith(("interval", "variant"))


def rowids_of(gone: pa.Table, stored: pa.Table, columns: tuple[Column, ...]) -> pa.Array:
    """For each row that goes `-weight` times, as many rowids of identical stored rows; fewer if there are fewer."""
    codes = np.zeros(gone.num_rows + stored.num_rows, dtype=np.int64)
    for each in columns:
        codes = _combined(codes, _codes(gone.column(each.name), stored.column(each.name)))
    wanted, found = codes[: gone.num_rows], codes[gone.num_rows :]
    rowids = stored.column(ROWID).to_numpy()
    order = np.lexsort((rowids, found))
    sorted_codes = found[order]
    starts = np.searchsorted(sorted_codes, wanted, side="left")
    ends = np.searchsorted(sorted_codes, wanted, side="right")
    ends = np.minimum(ends, starts - gone.column(WEIGHT).to_numpy())
    taken = [order[start:end] for start, end in zip(starts, ends, strict=True)]
    return pa.array(rowids[np.concatenate(taken)] if taken else [], pa.int64())


def comparable(values: pa.Array) -> pa.Array:
    """Values that Arrow takes for the same where the given ones are: -0.0 is not 0.0, NaN is NaN."""
    if not pa.types.is_floating(values.type):
        return values
    one_nan = pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), values)
    return one_nan.view(pa.int32() if values.type == pa.float32() else pa.int64())


def _codes(gone: pa.ChunkedArray, stored: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """A number for each value: the same for values that are the same."""
    values = pa.concat_arrays([*gone.chunks, *stored.cast(gone.type).chunks])
    encoded = pc.dictionary_encode(comparable(values), null_encoding="encode")
    return np.asarray(encoded.indices, dtype=np.int64)


def _combined(
    left: np.ndarray[tuple[int], np.dtype[np.int64]], right: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if not len(left):
        return left
    pairs = left * (right.max() + 1) + right
    return np.unique(pairs, return_inverse=True)[1].astype(np.int64).reshape(-1)
