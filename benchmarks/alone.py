"""`make bench-alone`: each of the 22 TPC-H queries refreshed by itself, as AUTO chooses, against its own full refresh.

Two copies of one lake, in one of which all 22 are AUTO and in the other FULL, go through the same changes; what counts
is the ratio of the medians, commit included. Beside it stands what the bare query takes on plain Parquet files, which
stores nothing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from statistics import median

import anabranch
from anabranch.bench import tpch
from anabranch.bench.batches import apply_batch
from anabranch.bench.run import in_full
from benchmarks.machine import machine

WARM_UP = 2
LIMIT = 1.2


def measure(scale: float, changes: int, ticks: int, place: Path) -> dict[str, dict[str, float | str]]:
    """By query, median seconds of both ways, what AUTO did last, and seconds of the bare query."""
    names = [f"q{number}" for number in tpch.queries()]
    _build(scale, place)
    seconds: dict[str, dict[str, list[float]]] = {way: {name: [] for name in names} for way in ("AUTO", "FULL")}
    action: dict[str, str] = {}
    with anabranch.connect(str(place / "AUTO")) as auto, anabranch.connect(str(place / "FULL")) as full:
        for name in names:
            full.alter_stream_table(name, refresh_mode="FULL")
        for number in range(WARM_UP + ticks):
            for lake in (auto, full):
                apply_batch(lake, number, changes)
            for name in names:
                for way, lake in (("AUTO", auto), ("FULL", full)):
                    report = lake.refresh(name)
                    seconds[way][name].append(report.seconds)
                    if way == "AUTO":
                        action[name] = f"{report[name].action}"
        bare = in_full(auto, place / "now")
    medians = {way: {name: median(each[WARM_UP:]) for name, each in found.items()} for way, found in seconds.items()}
    return {
        name: {
            "action": action[name],
            "auto": medians["AUTO"][name],
            "full": medians["FULL"][name],
            "bare": bare[name],
            "ratio": medians["AUTO"][name] / medians["FULL"][name],
        }
        for name in names
    }


def _build(scale: float, place: Path) -> None:
    with anabranch.connect(str(place / "AUTO")) as lake:
        tpch.load(lake, tpch.generate(scale, place / "parquet"))
        for number, query in tpch.queries().items():
            lake.create_stream_table(f"q{number}", query)
    shutil.copytree(place / "AUTO", place / "FULL")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--changes", type=int, default=10_000)
    parser.add_argument("--ticks", type=int, default=3)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as folder:
        found = measure(given.scale, given.changes, given.ticks, Path(folder))
    lines = [f"TPC-H at scale {given.scale:g}, {given.changes} changes, medians of {given.ticks} ticks", machine()]
    lines.append(f"{'query':8}{'done':14}{'AUTO':>8}{'FULL':>9}{'bare query':>13}{'AUTO / FULL':>14}")
    lines += [
        f"{name:8}{each['action']:14}{each['auto']:6.2f} s{each['full']:7.2f} s{each['bare']:11.2f} s"
        f"{each['ratio']:14.2f}"
        for name, each in found.items()
    ]
    text = "\n".join(lines)
    if given.output is not None:
        given.output.write_text(text + "\n")
    print(json.dumps(found) if given.json else text)
    slower = [name for name, each in found.items() if float(each["ratio"]) > LIMIT]
    if slower:
        raise SystemExit(f"slower than {LIMIT} times its own full refresh: {', '.join(slower)}")


if __name__ == "__main__":
    main()
