"""One test for each known trap: what is kept incrementally and looks right until exactly this happens."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import anabranch
from anabranch import Lake
from anabranch.observe.report import Action
from tests.lake.tools import bag, code_of, head, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """One lake for all traps; each uses tables of its own."""
    folder: Path = tmp_path_factory.mktemp("traps")
    with anabranch.connect(str(folder), spark=spark) as lake:
        yield lake


def source(lake: Lake, name: str, columns: str, *given: Row) -> None:
    lake.sql(f"CREATE TABLE {name} ({columns})")
    if given:
        lake.append(name, list(given))


def stream(lake: Lake, name: str, query: str) -> None:
    lake.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")


def moved(lake: Lake, name: str, **changes: tuple[list[Row], list[Row]]) -> None:
    """Insert and delete rows of several tables in one transaction, refresh, and see that only the change was used."""
    with lake.transaction():
        for table, (inserted, deleted) in changes.items():
            lake.apply(table, insert=inserted or None, delete=deleted or None)
    assert lake.refresh(name)[name].action in (Action.DIFFERENTIAL, Action.NO_DATA)
    assert lake.check(name)


def test_both_sides_of_a_join_change_in_one_tick(shop: Lake) -> None:
    source(shop, "both_l", "k INT, a STRING", (1, "a"), (2, "b"))
    source(shop, "both_r", "k INT, x STRING", (1, "x"), (3, "z"))
    stream(shop, "both", "SELECT l.k, a, x FROM both_l l JOIN both_r r ON l.k = r.k")
    moved(shop, "both", both_l=([(3, "c")], [(1, "a")]), both_r=([(2, "y"), (3, "w")], [(1, "x")]))
    assert rows(shop, "both") == bag((2, "b", "y"), (3, "c", "z"), (3, "c", "w"))


def test_a_key_changes_while_its_partner_is_deleted(shop: Lake) -> None:
    source(shop, "partner_l", "k INT, a STRING", (1, "a"))
    source(shop, "partner_r", "k INT, x STRING", (1, "x"), (2, "y"))
    stream(shop, "partner", "SELECT a, x FROM partner_l l LEFT JOIN partner_r r ON l.k = r.k")
    moved(shop, "partner", partner_l=([(2, "a")], [(1, "a")]), partner_r=([], [(1, "x"), (2, "y")]))
    assert rows(shop, "partner") == bag(("a", None))


def test_an_update_moves_a_row_between_groups(shop: Lake) -> None:
    source(shop, "moving", "g STRING, v INT", ("a", 1), ("a", 2), ("b", 5))
    stream(shop, "moving_sums", "SELECT g, sum(v) AS s, count(*) AS n FROM moving GROUP BY g")
    moved(shop, "moving_sums", moving=([("b", 2)], [("a", 2)]))
    assert rows(shop, "moving_sums") == bag(("a", 1, 1), ("b", 7, 2))


def test_a_group_is_born_dies_and_is_born_again(shop: Lake) -> None:
    source(shop, "lives", "g STRING, v INT", ("a", 1))
    stream(shop, "lives_sums", "SELECT g, sum(v) AS s, max(v) AS m FROM lives GROUP BY g")
    moved(shop, "lives_sums", lives=([("b", 7)], []))
    assert rows(shop, "lives_sums") == bag(("a", 1, 1), ("b", 7, 7))
    moved(shop, "lives_sums", lives=([], [("b", 7)]))
    assert rows(shop, "lives_sums") == bag(("a", 1, 1))
    moved(shop, "lives_sums", lives=([("b", 3)], []))
    assert rows(shop, "lives_sums") == bag(("a", 1, 1), ("b", 3, 3))


def test_null_keys_in_joins(shop: Lake) -> None:
    source(shop, "null_l", "k INT, a STRING", (None, "a"))
    source(shop, "null_r", "k INT, x STRING", (1, "x"))
    stream(shop, "null_join", "SELECT a, x FROM null_l l FULL JOIN null_r r ON l.k = r.k")
    moved(shop, "null_join", null_r=([(None, "n")], []))
    assert rows(shop, "null_join") == bag(("a", None), (None, "x"), (None, "n"))
    moved(shop, "null_join", null_l=([(1, "b")], [(None, "a")]))
    assert rows(shop, "null_join") == bag(("b", "x"), (None, "n"))


def test_null_keys_in_groups(shop: Lake) -> None:
    source(shop, "null_groups", "k INT, v INT", (None, 1), (1, 1))
    stream(shop, "null_sums", "SELECT k, sum(v) AS s FROM null_groups GROUP BY k")
    moved(shop, "null_sums", null_groups=([(None, 5)], [(1, 1)]))
    assert rows(shop, "null_sums") == bag((None, 6))


def test_null_keys_in_not_in(shop: Lake) -> None:
    source(shop, "null_in_l", "k INT", (1,), (2,), (None,))
    source(shop, "null_in_r", "k INT", (1,))
    stream(shop, "null_in", "SELECT k FROM null_in_l WHERE k NOT IN (SELECT k FROM null_in_r)")
    assert rows(shop, "null_in") == bag((2,))
    moved(shop, "null_in", null_in_r=([(None,)], []))
    assert rows(shop, "null_in") == bag()
    moved(shop, "null_in", null_in_r=([], [(None,), (1,)]))
    assert rows(shop, "null_in") == bag((1,), (2,), (None,))


def test_one_copy_of_a_duplicate_is_deleted(shop: Lake) -> None:
    source(shop, "copies", "k INT", (1,), (1,), (1,))
    stream(shop, "copies_kept", "SELECT k FROM copies WHERE k > 0")
    stream(shop, "copies_once", "SELECT DISTINCT k FROM copies")
    shop.apply("copies", delete=[(1,)])
    shop.refresh("copies_kept", "copies_once")
    assert rows(shop, "copies_kept") == bag((1,), (1,))
    assert rows(shop, "copies_once") == bag((1,))
    shop.apply("copies", delete=[(1,), (1,)])
    shop.refresh("copies_kept", "copies_once")
    assert rows(shop, "copies_kept") == rows(shop, "copies_once") == bag()


def test_a_sum_over_nothing_is_null(shop: Lake) -> None:
    source(shop, "nothing", "g STRING, v INT", ("a", 1))
    stream(shop, "nothing_all", "SELECT sum(v) AS s, count(v) AS n FROM nothing")
    stream(shop, "nothing_by", "SELECT g, sum(v) AS s FROM nothing GROUP BY g")
    shop.apply("nothing", insert=[("a", None)], delete=[("a", 1)])
    shop.refresh("nothing_all", "nothing_by")
    assert rows(shop, "nothing_all") == bag((None, 0))
    assert rows(shop, "nothing_by") == bag(("a", None))
    moved(shop, "nothing_all", nothing=([], [("a", None)]))
    assert rows(shop, "nothing_all") == bag((None, 0))


def test_an_average_after_partial_deletes(shop: Lake) -> None:
    source(shop, "parts", "g STRING, v INT", ("a", 1), ("a", 2), ("a", None), ("a", 6))
    stream(shop, "parts_average", "SELECT g, avg(v) AS m FROM parts GROUP BY g")
    moved(shop, "parts_average", parts=([], [("a", 2), ("a", None)]))
    assert rows(shop, "parts_average") == bag(("a", 3.5))


def test_the_maximum_is_deleted(shop: Lake) -> None:
    source(shop, "maxima", "g STRING, v INT", ("a", 1), ("a", 9), ("a", 9), ("b", 4))
    stream(shop, "maxima_of", "SELECT g, max(v) AS m FROM maxima GROUP BY g")
    moved(shop, "maxima_of", maxima=([], [("a", 9)]))
    assert rows(shop, "maxima_of") == bag(("a", 9), ("b", 4))
    moved(shop, "maxima_of", maxima=([("b", 5)], [("a", 9)]))
    assert rows(shop, "maxima_of") == bag(("a", 1), ("b", 5))


def test_having_is_crossed_both_ways(shop: Lake) -> None:
    source(shop, "crossing", "g STRING", ("a",), ("b",), ("b",))
    stream(shop, "crossed", "SELECT g, count(*) AS n FROM crossing GROUP BY g HAVING count(*) > 1")
    moved(shop, "crossed", crossing=([("a",)], [("b",)]))
    assert rows(shop, "crossed") == bag(("a", 2))
    moved(shop, "crossed", crossing=([("b",)], [("a",)]))
    assert rows(shop, "crossed") == bag(("b", 2))


def test_ties_in_a_window(shop: Lake) -> None:
    source(shop, "ties", "g STRING, v INT, w STRING", ("a", 1, "x"), ("a", 1, "y"), ("a", 2, "z"))
    stream(
        shop,
        "ties_ranked",
        "SELECT w, rank() OVER (PARTITION BY g ORDER BY v) AS r, row_number() OVER (PARTITION BY g ORDER BY v) AS n "
        "FROM ties",
    )
    assert rows(shop, "ties_ranked") == bag(("x", 1, 1), ("y", 1, 2), ("z", 3, 3))
    moved(shop, "ties_ranked", ties=([("a", 1, "w")], [("a", 2, "z")]))
    assert rows(shop, "ties_ranked") == bag(("w", 1, 1), ("x", 1, 2), ("y", 1, 3))


def test_copies_of_a_row_in_two_windows(shop: Lake) -> None:
    """Which copy comes first in the one window has to be known in the other, or their values pair up by chance."""
    given = [(1, 1), (1, 2), (2, 2), (2, None), (None, 3), (3, 5), (3, 5), (5, 8)]
    source(shop, "alike", "x INT, y INT", *given)
    stream(
        shop,
        "neighbours_alike",
        "SELECT x, lead(y, 1, -1) OVER (PARTITION BY x ORDER BY y) AS a, lag(y, 2, x) OVER (ORDER BY x, y) AS b, "
        "first_value(y) OVER (PARTITION BY x ORDER BY y ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) AS c FROM alike",
    )
    moved(shop, "neighbours_alike", alike=([(4, 4), (1, 2), (None, None)], [(3, 5), (3, 5)]))
    moved(shop, "neighbours_alike", alike=([(1, 1), (1, 1), (2, None)], [(1, 2)]))


def test_ties_at_the_edge_of_the_first_rows(shop: Lake) -> None:
    source(shop, "edge", "v INT, w STRING", (1, "a"), (2, "b"), (2, "c"), (2, "d"))
    stream(shop, "edge_first", "SELECT v, w FROM edge ORDER BY v LIMIT 2")
    assert rows(shop, "edge_first") == bag((1, "a"), (2, "b"))
    moved(shop, "edge_first", edge=([(2, "aa")], [(1, "a")]))
    assert rows(shop, "edge_first") == bag((2, "aa"), (2, "b"))
    moved(shop, "edge_first", edge=([], [(2, "aa"), (2, "b"), (2, "c")]))
    assert rows(shop, "edge_first") == bag((2, "d"))


def test_a_self_join(shop: Lake) -> None:
    source(shop, "people", "id INT, boss INT", (1, None), (2, 1))
    stream(shop, "pairs", "SELECT p.id, b.id AS boss FROM people p JOIN people b ON p.boss = b.id")
    moved(shop, "pairs", people=([(3, 2), (4, 4)], [(1, None)]))
    assert rows(shop, "pairs") == bag((3, 2), (4, 4))


def test_one_source_under_an_aggregate_and_beside_it(shop: Lake) -> None:
    source(shop, "beside", "g STRING, v INT", ("a", 1), ("a", 5), ("b", 2))
    stream(shop, "greatest", "SELECT g, v FROM beside t WHERE v = (SELECT max(v) FROM beside i WHERE i.g = t.g)")
    stream(shop, "below_mean", "SELECT g, v FROM beside t WHERE v < (SELECT avg(v) FROM beside i WHERE i.g = t.g)")
    shop.apply("beside", insert=[("b", 9), ("a", 3)], delete=[("a", 5)])
    shop.refresh("greatest", "below_mean")
    assert rows(shop, "greatest") == bag(("a", 3), ("b", 9))
    assert rows(shop, "below_mean") == bag(("a", 1), ("b", 2))


def test_a_correlated_exists_with_unequal(shop: Lake) -> None:
    source(shop, "suppliers", "ordered INT, supplier INT, late BOOLEAN", (1, 1, True), (1, 2, False), (2, 1, True))
    query = (
        "SELECT ordered, supplier FROM suppliers l WHERE late AND EXISTS (SELECT 1 FROM suppliers o WHERE "
        "o.ordered = l.ordered AND o.supplier <> l.supplier) AND NOT EXISTS (SELECT 1 FROM suppliers o WHERE "
        "o.ordered = l.ordered AND o.supplier <> l.supplier AND o.late)"
    )
    stream(shop, "only_late", query)
    assert rows(shop, "only_late") == bag((1, 1))
    moved(shop, "only_late", suppliers=([(2, 3, False), (1, 3, True)], []))
    assert rows(shop, "only_late") == bag((2, 1))
    moved(shop, "only_late", suppliers=([], [(1, 3, True), (2, 3, False)]))
    assert rows(shop, "only_late") == bag((1, 1))


def test_sources_that_are_empty_at_creation(shop: Lake) -> None:
    source(shop, "empty_l", "k INT, v INT")
    source(shop, "empty_r", "k INT")
    stream(shop, "empty_join", "SELECT l.k, sum(v) AS s FROM empty_l l LEFT JOIN empty_r r ON l.k = r.k GROUP BY l.k")
    stream(shop, "empty_count", "SELECT count(*) AS n FROM empty_l")
    assert rows(shop, "empty_count") == bag((0,))
    shop.append("empty_l", [(1, 2), (1, 3)])
    shop.refresh("empty_join", "empty_count")
    assert rows(shop, "empty_join") == bag((1, 5))
    assert rows(shop, "empty_count") == bag((2,))


def test_a_row_inserted_and_deleted_in_one_batch(shop: Lake) -> None:
    source(shop, "net", "k INT", (1,))
    stream(shop, "net_rows", "SELECT k FROM net")
    with shop.transaction():
        shop.append("net", [(2,)])
        shop.apply("net", delete=[(2,)])
    before = head(shop)
    report = shop.refresh("net_rows")["net_rows"]
    assert (report.rows_inserted, report.rows_deleted) == (0, 0)
    assert rows(shop, "net_rows") == bag((1,))
    assert shop.refresh("net_rows")["net_rows"].action is Action.NO_DATA
    assert head(shop) - before <= 1


def test_one_source_behind_two_nodes_with_different_frontiers(shop: Lake) -> None:
    source(shop, "apart", "k INT, v INT", (1, 1))
    for name, query in (("fast", "SELECT k, sum(v) AS s FROM apart GROUP BY k"), ("slow", "SELECT k, v FROM apart")):
        shop.create_stream_table(name, query, refresh_mode="DIFFERENTIAL", diamond_consistency="none")
    shop.append("apart", [(1, 10)])
    shop.refresh("fast")
    shop.append("apart", [(2, 5)])
    shop.refresh("fast")
    assert rows(shop, "slow") == bag((1, 1))
    stream(shop, "met", "SELECT f.k, s, v FROM fast f JOIN slow w ON f.k = w.k")
    shop.refresh()
    assert rows(shop, "met") == bag((1, 11, 1), (1, 11, 10), (2, 5, 5))
    assert shop.frontier("fast").sources == shop.frontier("slow").sources


def test_a_full_node_in_the_middle_of_a_chain(shop: Lake) -> None:
    source(shop, "chain", "k INT, v INT", (1, 1), (2, 2))
    stream(shop, "chain_first", "SELECT k, v FROM chain WHERE v > 0")
    shop.create_stream_table("chain_full", "SELECT k, v * 2 AS v FROM chain_first", refresh_mode="FULL")
    stream(shop, "chain_last", "SELECT sum(v) AS s, count(*) AS n FROM chain_full")
    shop.apply("chain", insert=[(3, 3)], delete=[(1, 1)])
    report = shop.refresh("chain_last", "chain_full", "chain_first")
    assert [report[name].action for name in ("chain_first", "chain_full", "chain_last")] == [
        Action.DIFFERENTIAL,
        Action.FULL,
        Action.DIFFERENTIAL,
    ]
    assert (report["chain_full"].rows_inserted, report["chain_full"].rows_deleted) == (1, 1)
    assert rows(shop, "chain_last") == bag((10, 2))


def test_a_schema_change_of_a_source(shop: Lake) -> None:
    source(shop, "changing", "k INT, v INT, unused INT", (1, 1, 0))
    stream(shop, "changing_rows", "SELECT k, v FROM changing")
    shop.sql("ALTER TABLE changing DROP COLUMN unused")
    shop.sql("ALTER TABLE changing ADD COLUMN added STRING")
    shop.append("changing", [(2, 2, "new")])
    shop.refresh("changing_rows")
    assert rows(shop, "changing_rows") == bag((1, 1), (2, 2))
    assert code_of(shop, "ALTER TABLE changing DROP COLUMN v") is not None or shop.refresh("changing_rows")[
        "changing_rows"
    ].action in (Action.FAILED, Action.FULL)


def test_the_order_of_columns(shop: Lake) -> None:
    source(shop, "ordered", "a INT, b STRING, c INT", (1, "x", 10))
    stream(shop, "reordered", "SELECT c, a, b, a AS a_again FROM ordered")
    shop.append("ordered", [{"c": 20, "b": "y", "a": 2}])
    moved(shop, "reordered", ordered=([(3, "z", 30)], [(1, "x", 10)]))
    assert shop.table("reordered").columns == ["c", "a", "b", "a_again"]
    assert rows(shop, "reordered") == bag((20, 2, "y", 2), (30, 3, "z", 3))


def test_the_case_of_names(shop: Lake) -> None:
    source(shop, "Cased", "Key INT, VALUE INT", (1, 1))
    stream(shop, "cased_Sums", "SELECT KEY, Sum(value) AS Total FROM CASED GROUP BY key")
    moved(shop, "cased_Sums", cased=([(1, 4)], []))
    assert shop.table("CASED_SUMS").columns == ["KEY", "Total"]
    assert rows(shop, "cased_sums") == bag((1, 5))


def test_reserved_words_as_names(shop: Lake) -> None:
    shop.sql("CREATE TABLE `order` (`group` INT, `select` STRING, `from` DATE, `a b` INT)")
    shop.append("order", [(1, "x", None, 2)])
    query = "SELECT `group`, max(`select`) AS `where`, sum(`a b`) AS `count(*)` FROM `order` GROUP BY ALL"
    stream(shop, "table", query)
    moved(shop, "table", order=([(1, "y", None, 3)], []))
    assert shop.table("table").columns == ["group", "where", "count(*)"]
    assert rows(shop, "table") == bag((1, "y", 5))


def test_decimals_at_full_precision(shop: Lake) -> None:
    large = Decimal("12345678901234567890123456789012.345678")
    negative = Decimal("-12345678901234567890123456789012.345678")
    source(shop, "large", "g INT, v DECIMAL(38,6)", (1, large), (1, negative), (2, large))
    stream(shop, "large_sums", "SELECT g, sum(v) AS s, max(v) AS x FROM large GROUP BY g")
    assert rows(shop, "large_sums") == bag((1, Decimal("0.000000"), large), (2, large, large))
    moved(shop, "large_sums", large=([(1, Decimal("0.000001"))], [(1, negative)]))
    expected = Decimal("12345678901234567890123456789012.345679")
    assert rows(shop, "large_sums") == bag((1, expected, large), (2, large, large))


def test_timestamps_with_and_without_zone(shop: Lake) -> None:
    source(shop, "times", "z TIMESTAMP, n TIMESTAMP_NTZ")
    shop.sql(
        "INSERT INTO times VALUES (TIMESTAMP'2024-03-31 01:30:00+01:00', TIMESTAMP_NTZ'2024-03-31 02:30:00.000001')"
    )
    stream(shop, "times_kept", "SELECT date_trunc('DAY', z) AS d, max(n) AS n, count(*) AS c FROM times GROUP BY 1")
    shop.sql("INSERT INTO times VALUES (TIMESTAMP'2024-03-31 00:30:00Z', TIMESTAMP_NTZ'2024-03-31 02:30:00.000002')")
    shop.refresh("times_kept")
    ((_, latest, count),) = shop.table("times_kept").collect()
    assert (latest, count) == (datetime(2024, 3, 31, 2, 30, 0, 2), 2)
    assert shop.check("times_kept")


def test_not_a_number_and_negative_zero(shop: Lake) -> None:
    source(shop, "floats", "k INT, v DOUBLE", (1, 0.0), (2, math.nan))
    stream(shop, "floats_kept", "SELECT k, v FROM floats")
    stream(shop, "floats_max", "SELECT max(v) AS m, sum(v) AS s FROM floats")
    shop.apply("floats", insert=[(1, -0.0)], delete=[(1, 0.0)])
    shop.refresh("floats_kept", "floats_max")
    assert rows(shop, "floats_kept") == bag((1, -0.0), (2, math.nan))
    shop.apply("floats", delete=[(2, math.nan)])
    shop.refresh("floats_kept", "floats_max")
    assert rows(shop, "floats_kept") == bag((1, -0.0))
    assert [(abs(row["m"]), row["s"]) for row in shop.table("floats_max").collect()] == [(0.0, 0.0)]


def test_a_change_that_nothing_is_left_of_shows_timestamps(shop: Lake) -> None:
    """The filter takes all of the change away before anything is joined."""
    source(shop, "dated", "k INT, at TIMESTAMP", (1, datetime(2024, 2, 29, 23, 59)))
    source(shop, "large_only", "k INT, size INT", (1, 200))
    large = "SELECT 1 FROM large_only AS l WHERE l.k = dated.k AND size > 100"
    stream(shop, "dated_large", f"SELECT at FROM dated WHERE EXISTS ({large})")
    moved(shop, "dated_large", large_only=([(1, 5)], []))
    assert shop.table("dated_large").count() == 1


def test_a_group_whose_rows_change_places_and_stay_the_same(shop: Lake) -> None:
    """Its change cancels: some jobs see terms of it and others none, and all have to agree on the groups touched."""
    words = ((1, "p"), (2, "p"), (2, "p"), (2, "pq"), (2, None), (3, "pq"), (3, "q"), (3, None), (4, "p"), (4, "q"))
    source(shop, "swap_l", "item INT, word STRING", *words, (None, ""), (None, "p"))
    others = ((3, None), (4, -0.0), (None, -0.0), (None, -0.0), (None, -0.0))
    source(
        shop,
        "swap_r",
        "place INT, x DOUBLE",
        (1, -0.0),
        (1, 0.5),
        (2, -1.5),
        (2, -1.5),
        (2, 0.5),
        (2, 2.0),
        (3, -0.0),
        *others,
    )
    items = "SELECT coalesce(item, 0) AS k FROM swap_l WHERE word IN (SELECT word FROM swap_l)"
    joined = f"SELECT coalesce(x, 0D) AS x FROM ({items}) AS l JOIN swap_r AS r ON k <=> place AND (x IS NOT NULL)"
    stream(shop, "swap", f"SELECT coalesce(x, 0D) AS x, sum(x) AS total FROM ({joined}) GROUP BY coalesce(x, 0D)")
    variants = f"SELECT x, parse_json(to_json(struct(x))) AS v FROM ({joined})"
    stream(shop, "swap_v", f"SELECT x, sum(x) AS total, max(to_json(v)) AS v FROM ({variants}) GROUP BY x")
    gone = [(1, -0.0), (1, 0.5), (2, -1.5), (2, -1.5), (2, 0.5), (3, -0.0), (None, -0.0)]
    came = [(3, 0.5), (3, 0.5), (2, -0.0), (3, None), (None, -1.5)]
    moved(shop, "swap", swap_l=([(1, "p")], [(2, "p")]), swap_r=(came, gone))
    assert rows(shop, "swap") == bag((0.5, 2.0), (2.0, 4.0), (0.0, 0.0))
    assert shop.refresh("swap_v")["swap_v"].action is Action.DIFFERENTIAL
    assert shop.check("swap_v")
