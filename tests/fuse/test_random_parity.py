"""Random graphs, fused on one lake and one by one on another: the same rows and the same failures at every step.

Diamonds come by themselves; some nodes are FULL, some changes are over the limit, some nodes are paused, and one has a
query that cannot be run on every row.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import StateError
from tests.scheduler.graphs import FEW, RandomGraph, temporary_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.observe.report import Report

LIMIT = 4
STEPS = ("change", "change", "several", "break", "mend", "refresh", "refresh", "refresh_some", "pause", "resume")


@dataclass
class Breakable(RandomGraph):
    """A graph with a node that fails as long as s0 has the row (3, 9), and one that reads it."""

    outcomes: list[Report] = field(default_factory=list)

    def create(self, nodes: int) -> None:
        self.create_sources()
        self._stream_table("fragile", "SELECT k, 12 DIV (9 - v) AS v FROM s0 WHERE k = 3")
        self._stream_table("above", "SELECT a.k, a.v FROM fragile a JOIN s1 b ON a.k = b.k")
        for _ in range(nodes):
            self.create_node()

    def do(self, step: str) -> str:
        try:
            getattr(self, "_" + step)()
        except StateError as error:
            return f"{step}, {error.code}"
        return step

    def rows(self) -> dict[str, list[Any]]:
        return {name: sorted(self.lake.table(name).collect()) for name in (*self.nodes, "fragile", "above")}

    def _stream_table(self, name: str, query: str) -> None:
        self.lake.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")

    def _several(self) -> None:
        for _ in range(3):
            self._change()

    def _break(self) -> None:
        self.lake.append("s0", [(3, 9)])

    def _mend(self) -> None:
        self.lake.sql("DELETE FROM s0 WHERE v = 9")

    def _refreshed(self, *names: str) -> None:
        self.outcomes.append(self.lake.refresh(*names))

    def failures(self) -> list[set[str]]:
        return [{each.name for each in report.values() if each.action == "FAILED"} for report in self.outcomes]


def run(spark: SparkSession, seed: int, nodes: int, steps: int) -> Counter[str]:
    """Why nodes were not fused, and how often; `FUSED` counts those that were."""
    with (
        temporary_lake(spark, fused_refresh_max_delta_rows=LIMIT) as one,
        temporary_lake(spark, enable_fused_refresh=False) as other,
    ):
        fused, alone = Breakable(one, Random(seed)), Breakable(other, Random(seed))
        for graph in (fused, alone):
            graph.create(nodes)
        chosen = Random(seed).choices(STEPS, k=steps)
        happened: list[tuple[str, str]] = []
        for step in [*chosen, "mend", "resume", "refresh"]:
            happened.append((fused.do(step), alone.do(step)))
            assert happened[-1][0] == happened[-1][1], f"seed {seed}: {happened}"
            assert happened[-1][0] in (step, f"{step}, INPUTS_DISAGREE"), f"seed {seed}: {happened}"
            if "refresh" in step:
                assert fused.rows() == alone.rows(), f"seed {seed}: {happened}"
        assert fused.failures() == alone.failures(), f"seed {seed}: {happened}"
        assert fused.failures()[-1] == set()
        assert all(not each.fused for report in alone.outcomes for each in report.values())
        return Counter(
            each.not_fused or ("FUSED" if each.fused else "DID NOT MOVE")
            for report in fused.outcomes
            for each in report.values()
        )


@FEW
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_fused_is_one_by_one(spark: SparkSession, seed: int) -> None:
    run(spark, seed, nodes=3, steps=7)


@pytest.mark.soak
def test_fused_is_one_by_one_often(spark: SparkSession) -> None:
    found: Counter[str] = Counter()
    for seed in range(40):
        found += run(spark, seed, nodes=7, steps=20)
    assert min(found[each] for each in ("FUSED", "FULL", "CHANGE_TOO_LARGE")) > 20, found
