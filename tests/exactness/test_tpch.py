"""The 22 TPC-H queries as stream tables: changes of all eight tables, every result exact after every tick."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import anabranch
from anabranch.bench import tpch
from anabranch.observe.report import Action

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCALE = 0.01
TICKS = 10
SHARE = 0.01
CHANGED_TICKS = 3


@pytest.mark.soak
def test_all_queries_through_ten_ticks(spark: SparkSession, tmp_path: Path) -> None:
    names = {f"q{number:02}": text for number, text in tpch.queries().items()}
    changed: Counter[str] = Counter()
    with anabranch.connect(str(tmp_path / "lake"), spark=spark) as lake:
        tpch.load(lake, tpch.generate(SCALE, tmp_path / "data"))
        for name, query in names.items():
            lake.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
        empty = [name for name in names if lake.table(name).isEmpty()]
        assert empty == []
        for number in range(TICKS):
            tpch.apply(lake, tpch.changes(number, SHARE))
            report = lake.refresh()
            assert {name: report[name].action for name in names} == dict.fromkeys(names, Action.DIFFERENTIAL)
            changed.update(name for name in names if report[name].rows_inserted or report[name].rows_deleted)
            wrong = [str(result) for result in map(lake.check, names) if not result]
            assert wrong == [], f"after tick {number + 1}"
    assert {name: changed[name] for name in names if changed[name] < CHANGED_TICKS} == {}
