"""What a check says of a table beside whether it is right."""

from __future__ import annotations

from anabranch.lake import Lake


def test_rows_kept_beyond_the_limit_are_not_counted(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (id BIGINT)")
    lake.append("t", [(number,) for number in range(50)])
    lake.create_stream_table("best", "SELECT id FROM t ORDER BY id DESC LIMIT 3")
    lake.create_stream_table("all_of_them", "SELECT id FROM t")
    assert (lake.check("best").rows, lake.check("all_of_them").rows) == (3, 50)


def test_an_exists_among_the_outputs(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (id BIGINT)")
    lake.sql("CREATE TABLE u (id BIGINT)")
    lake.append("t", [(1,), (2,)])
    lake.append("u", [(2,), (2,)])
    counted = "(SELECT count(*) FROM u WHERE u.id = t.id) AS n"
    lake.create_stream_table(
        "both", f"SELECT t.*, {counted}, EXISTS (SELECT 1 FROM u WHERE u.id = t.id) AS is_there FROM t"
    )
    lake.append("u", [(1,)])
    lake.refresh()
    assert lake.check("both")
