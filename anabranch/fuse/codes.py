"""Numbers for rows: the same for rows that are the same. What compares rows here in the driver is built on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Numbers: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"


_EQUATED = {"boolean", "tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz", "string", "binary"}


def is_equated(type: str) -> bool:
    """Whether Spark's `=` and DISTINCT take values of this type for equal where their bytes are: -0.0 equals 0.0."""
    return type in _EQUATED or type.startswith("decimal(")


def is_comparable(type: str) -> bool:
    """Whether values of this type can be told apart here; nested values and the like are left to Spark."""
    return is_equated(type) or type in ("float", "double")


def codes_of(columns: Sequence[pa.ChunkedArray], count: int) -> Numbers:
    """A number for each row of these columns, the same where every value is, by byte identity; NULL is a value."""
    codes = np.zeros(count, dtype=np.int64)
    for place, each in enumerate(columns):
        encoded = pc.dictionary_encode(comparable(_one_chunk(each)), null_encoding="encode")
        own = np.asarray(encoded.indices, dtype=np.int64)
        codes = own if place == 0 else _combined(codes, own)
    return codes


def comparable(values: pa.Array) -> pa.Array:
    """Values that Arrow takes for the same where the given ones are: -0.0 is not 0.0, NaN is NaN."""
    if not pa.types.is_floating(values.type):
        return values
    one_nan = pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), values)
    return one_nan.view(pa.int32() if values.type == pa.float32() else pa.int64())


def stacked(first: pa.ChunkedArray, second: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values of one column above those of another, in the type of the first."""
    return pa.chunked_array([*first.chunks, *second.cast(first.type).chunks], type=first.type)


def _one_chunk(values: pa.ChunkedArray) -> pa.Array:
    return values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays(values.chunks or [pa.array([], values.type)])


def _combined(left: Numbers, right: Numbers) -> Numbers:
    if not len(left):
        return left
    pairs = left * (right.max() + 1) + right
    return np.unique(pairs, return_inverse=True)[1].astype(np.int64).reshape(-1)
