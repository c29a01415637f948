"""docs/tpcds.md: the 99 TPC-DS queries as stream tables, what came of each over some ticks of changes.

`python -m tests.exactness.tpcds_page` runs them all and writes the page; the long tests run the same.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anabranch
from anabranch.errors import AnabranchError
from anabranch.observe.report import Action
from anabranch.project.apply import apply_project
from anabranch.project.desired import Desired, Place, WantedTable
from anabranch.spark.session import configure
from tests import tpcds
from tests.exactness.run_graph import INTERPRETED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch import Lake
    from anabranch.observe.report import NodeReport

PAGE = Path(__file__).parents[2] / "docs" / "tpcds.md"
SCALE, SHARE, TICKS = 0.03, 0.04, 10
OFTEN = 3
HEAP = "10g"
"""For the queries from scratch: with 4 gigabytes one of them could not build its hash table after the ninth tick."""
HEAD = """# The 99 TPC-DS queries

Made by `python -m tests.exactness.tpcds_page` (about an hour). Texts and data come from DuckDB's tpcds extension,
at scale {scale}. All 99 are stream tables of one lake with `refresh_mode="DIFFERENTIAL"`. Each of {ticks} ticks
updates, deletes and inserts about {share:.0%} of the rows of all 24 tables in one snapshot; after each, every stream
table is compared with its query run from scratch.

{lively} of 99 have rows at the start, changed in at least {often} ticks, and were exact after every tick.

| query | rows at the start | ticks with a change | exact after | |
|---|---|---|---|---|
"""


@dataclass
class Outcome:
    """What came of one query."""

    number: int
    rows: int = 0
    changed: int = 0
    exact: int = 0
    trouble: str = ""

    @property
    def is_lively(self) -> bool:
        return not self.trouble and self.rows > 0 and self.changed >= OFTEN and self.exact == TICKS

    @property
    def remark(self) -> str:
        if self.trouble or self.is_lively:
            return self.trouble
        return "no rows at this scale" if not self.rows else f"changed in fewer than {OFTEN} ticks"


def run(spark: SparkSession, folder: Path) -> list[Outcome]:
    """All queries through all ticks. Trouble with one does not keep the others from going on."""
    with anabranch.connect(str(folder / "lake"), spark=spark) as lake:
        configure(lake._engine.session, INTERPRETED)
        tables = tpcds.load(lake, SCALE, folder / "data")
        outcomes = _create(lake)
        print(f"{sum(each.rows > 0 for each in outcomes.values())} of {len(outcomes)} have rows", flush=True)
        for tick in range(TICKS):
            tpcds.change(lake, tables, tick, SHARE)
            report = lake.refresh()
            print(f"tick {tick + 1}: {report.seconds:.1f} s, {report.spark_jobs} jobs", flush=True)
            for name, each in outcomes.items():
                _compare(lake, report[name], each, tick + 1)
            print(f"{sum(each.exact > tick for each in outcomes.values())} are exact", flush=True)
    return list(outcomes.values())


def _create(lake: Lake) -> dict[str, Outcome]:
    """All stream tables in one commit; one that is refused stops the run."""
    texts = {f"q{number:02}": text for number, text in sorted(tpcds.queries().items())}
    wanted = {name: WantedTable(name, text, Place(name), refresh_mode="DIFFERENTIAL") for name, text in texts.items()}
    apply_project(lake._engine, Desired("tpcds", wanted))
    return {name: Outcome(int(name[1:]), lake.table(name).count()) for name in texts}


def _compare(lake: Lake, report: NodeReport, outcome: Outcome, tick: int) -> None:
    if outcome.trouble:
        return
    if report.action is not Action.DIFFERENTIAL:
        outcome.trouble = f"tick {tick}: {report.action} {report.reason}"
        return
    outcome.changed += bool(report.rows_inserted or report.rows_deleted)
    try:
        result = lake.check(report.name)
    except AnabranchError as error:
        outcome.trouble = f"tick {tick}: the query from scratch: {error.code}"
        print(f"{report.name}: {error}", flush=True)
        return
    outcome.exact += result.ok
    if not result:
        outcome.trouble = f"tick {tick}: wrong"
        print(result, flush=True)


def page(outcomes: list[Outcome]) -> str:
    lively = sum(each.is_lively for each in outcomes)
    head = HEAD.format(scale=SCALE, ticks=TICKS, share=SHARE, lively=lively, often=OFTEN)
    lines = (f"| {each.number} | {each.rows} | {each.changed} | {each.exact} | {each.remark} |" for each in outcomes)
    return head + "\n".join(lines) + "\n"


if __name__ == "__main__":
    from anabranch.spark.session import local_session

    with tempfile.TemporaryDirectory(prefix="anabranch-tpcds-") as made:
        PAGE.write_text(page(run(local_session({"spark.driver.memory": HEAP}), Path(made))))
