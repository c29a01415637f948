"""Decoded files are kept within their room, those asked for last the longest."""

from __future__ import annotations

import pyarrow as pa

from anabranch.store.decoded import Decoded


def table(rows: int) -> pa.Table:
    return pa.table({"x": pa.array(range(rows), pa.int64())})


def test_what_is_known_is_not_read_again() -> None:
    decoded, reads = Decoded(1_000), []
    for _ in range(3):
        assert decoded.get("a", lambda: reads.append("a") or table(10)).num_rows == 10
    assert reads == ["a"]


def test_the_longest_not_asked_for_goes_first() -> None:
    decoded, reads = Decoded(8 * 25), []
    for key in ("a", "b", "a", "c", "a", "b"):
        decoded.get(key, lambda key=key: reads.append(key) or table(10))
    assert reads == ["a", "b", "c", "b"]


def test_what_is_larger_than_the_room_is_read_and_not_kept() -> None:
    decoded, reads = Decoded(8 * 5), []
    for _ in range(2):
        assert decoded.get("a", lambda: reads.append("a") or table(10)).num_rows == 10
    assert reads == ["a", "a"]
