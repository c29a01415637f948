"""`lake.status()` says what readers see."""

from __future__ import annotations

from anabranch import Lake


def test_rows_are_those_that_readers_see(lake: Lake) -> None:
    """A top-N keeps rows beyond N in store; nobody sees them, and nobody counts them."""
    lake.sql("CREATE TABLE scores (player STRING, points INT)")
    lake.sql("INSERT INTO scores VALUES ('a', 5), ('b', 9), ('c', 1), ('d', 7), ('e', 3)")
    lake.create_stream_table("best", "SELECT player, points FROM scores ORDER BY points DESC LIMIT 2")
    assert lake.status().column("rows").to_pylist() == [2]
    assert lake.table("best").count() == 2
