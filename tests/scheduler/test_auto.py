"""AUTO over a stream of small and huge changes: the cheaper way, measured both ways, and no flapping."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from random import Random

import pytest

import anabranch

QUERY = "SELECT g.name, COUNT(*) AS n, SUM(f.v) AS total FROM facts f JOIN groups g ON g.id = f.grp GROUP BY g.name"
CLEARLY_CHEAPER = 1.5


@dataclass(frozen=True)
class Tick:
    """One change, what AUTO did with it, and what each way took."""

    huge: bool
    chosen: str
    reason: str
    differential_seconds: float
    full_seconds: float

    @property
    def cheaper(self) -> str | None:
        """The way that was clearly cheaper, if one was."""
        low, high = sorted((self.differential_seconds, self.full_seconds))
        if high < CLEARLY_CHEAPER * low:
            return None
        return "DIFFERENTIAL" if self.differential_seconds == low else "FULL"


def test_auto_takes_the_cheaper_way(lake: anabranch.Lake) -> None:
    ticks = run_stream(lake, rows=200_000, pattern="ssHs" + "sHss")
    check_choices(ticks, warm_up=4)


@pytest.mark.soak
def test_auto_takes_the_cheaper_way_for_long(lake: anabranch.Lake) -> None:
    rng = Random(7)
    pattern = "ssHsHs" + "".join(rng.choice("sssH") for _ in range(40))
    check_choices(run_stream(lake, rows=1_000_000, pattern=pattern), warm_up=6)


def run_stream(lake: anabranch.Lake, rows: int, pattern: str) -> list[Tick]:
    """Refresh three tables with one query, kept by AUTO and by either way, after each small or huge change."""
    lake.sql("CREATE TABLE groups (id BIGINT, name STRING)")
    lake.sql("INSERT INTO groups SELECT id, concat('group ', id) FROM range(200)")
    lake.sql("CREATE TABLE facts (id BIGINT, grp BIGINT, v BIGINT)")
    lake.sql(f"INSERT INTO facts SELECT id, id % 200, id % 17 FROM range({rows})")
    modes = {"auto": "AUTO", "differential": "DIFFERENTIAL", "full": "FULL"}
    for name, mode in modes.items():
        lake.create_stream_table(name, QUERY, refresh_mode=mode)
    ticks = []
    for number, kind in enumerate(pattern):
        if kind == "H":
            lake.sql("UPDATE facts SET v = v + 1 WHERE id % 4 <> 0")
        else:
            lake.append("facts", [(-number - each, each % 200, 1) for each in range(20)])
        order = list(modes)[number % 3 :] + list(modes)[: number % 3]
        reports = {name: lake.refresh(name)[name] for name in order}
        chosen = reports["auto"]
        seconds = (reports["differential"].seconds, reports["full"].seconds)
        ticks.append(Tick(kind == "H", chosen.action, chosen.reason, *seconds))
    assert lake.check("auto")
    return ticks


def check_choices(ticks: list[Tick], warm_up: int) -> None:
    for tick in ticks:
        print(
            f"{'huge' if tick.huge else 'small'}: {tick.chosen}; differential {tick.differential_seconds:.2f} s, "
            f"full {tick.full_seconds:.2f} s; {tick.reason}"
        )
    judged = [tick for tick in ticks[warm_up:] if tick.cheaper is not None]
    right = [tick for tick in judged if tick.chosen == tick.cheaper]
    print(f"right in {len(right)} of {len(judged)} ticks where one way was clearly cheaper")
    assert len(right) >= 0.9 * len(judged)
    for huge in (True, False):
        choices = [tick.chosen for tick in ticks[warm_up:] if tick.huge == huge and "EXPLORING" not in tick.reason]
        switches = sum(one != other for one, other in pairwise(choices))
        assert switches <= 1, f"flapping: {choices}"
