"""The 22 TPC-H queries as stream tables: changes of all eight tables, every result exact after every tick."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import anabranch
from anabranch.bench import tpch
from anabranch.bench.tpch import Statements
from anabranch.observe.report import Action

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCALE = 0.01
TICKS = 10
SHARE = 0.01
CHANGED_TICKS = 3


SOME_OF_BRAND_23 = "UPDATE part SET p_brand = 'Brand#23', p_container = 'MED BOX' WHERE p_partkey % 100 = 7"
"""At this scale no part is what query 17 looks for, and it would show a NULL whatever changes."""


def selective_changes(tick: int) -> tuple[str, ...]:
    """Changes of rows that the most selective queries show: at this scale a random row is seldom one of them."""
    of_brand_23 = "SELECT p_partkey FROM part WHERE p_brand = 'Brand#23' AND p_container = 'MED BOX'"
    of_brand_12 = "SELECT p_partkey FROM part WHERE p_brand = 'Brand#12' AND p_container LIKE 'SM %'"
    from_saudi_arabia = "SELECT s_suppkey FROM supplier WHERE s_nationkey = 20"
    return (
        f"UPDATE supplier SET s_acctbal = s_acctbal + {tick + 1}, s_address = concat(s_address, '{tick}')",
        f"UPDATE part SET p_size = {tick % 5 + 1} WHERE p_brand = 'Brand#12'",
        f"UPDATE lineitem SET l_quantity = 1, l_extendedprice = l_extendedprice + {tick + 1} "
        f"WHERE l_partkey IN ({of_brand_23}) AND pmod(hash(l_orderkey, {tick}), 3) = 0",
        f"UPDATE lineitem SET l_quantity = 5, l_extendedprice = l_extendedprice + {tick + 1}, l_shipmode = 'AIR', "
        "l_shipinstruct = 'DELIVER IN PERSON' "
        f"WHERE l_partkey IN ({of_brand_12}) AND pmod(hash(l_orderkey, {tick}), 3) = 0",
        f"UPDATE lineitem SET l_receiptdate = date_add(l_commitdate, {5 if tick % 2 else -5}) "
        f"WHERE l_suppkey IN ({from_saudi_arabia}) AND pmod(hash(l_orderkey, {tick}), 4) = 0",
    )


@pytest.mark.soak
def test_all_queries_through_ten_ticks(spark: SparkSession, tmp_path: Path) -> None:
    names = {f"q{number:02}": text for number, text in tpch.queries().items()}
    changed: Counter[str] = Counter()
    with anabranch.connect(str(tmp_path / "lake"), spark=spark) as lake:
        tpch.load(lake, tpch.generate(SCALE, tmp_path / "data"))
        lake.sql(SOME_OF_BRAND_23)
        for name, query in names.items():
            lake.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
        empty = [name for name in names if lake.table(name).dropna(how="all").isEmpty()]
        assert empty == []
        for number in range(TICKS):
            tpch.apply(lake, Statements((*tpch.changes(number, SHARE).texts, *selective_changes(number))))
            report = lake.refresh()
            assert {name: report[name].action for name in names} == dict.fromkeys(names, Action.DIFFERENTIAL)
            changed.update(name for name in names if report[name].rows_inserted or report[name].rows_deleted)
            wrong = [str(result) for result in map(lake.check, names) if not result]
            assert wrong == [], f"after tick {number + 1}"
    assert {name: changed[name] for name in names if changed[name] < CHANGED_TICKS} == {}
