"""`python -m benchmarks.picture`: draws results/tpch.svg from the results of `anabranch bench tpch` that are beside it.

One group of bars for each results file, by scale: seconds of a tick fused, one by one, and of the 22 queries in full.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
WAYS = {"fused": "#0b6e4f", "sequential": "#d98e04", "full": "#8d99ae"}
LABELS = {"fused": "all at once", "sequential": "one by one", "full": "22 queries in full"}
BAR, GAP, GROUP_GAP, WIDTH, LEFT = 22, 6, 34, 760, 150


def picture(results: list[dict[str, Any]]) -> str:
    """The SVG; bars are to one scale, so that lengths can be compared."""
    longest = max(each["seconds"][way]["median"] for each in results for way in WAYS if each["seconds"][way])
    parts = list(_groups(results, (WIDTH - LEFT - 90) / longest))
    height = 20 + len(results) * (GROUP_GAP + len(WAYS) * (BAR + GAP))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>', *parts, "</svg>"]) + "\n"


def _groups(results: list[dict[str, Any]], pixels: float) -> Iterator[str]:
    y = 24
    for each in results:
        title = f"scale {each['scale']:g}, {each['changes']:,} changed rows, {len(each['ticks'])} ticks"
        yield f'<text x="10" y="{y}" font-size="14" font-weight="bold">{title}</text>'
        y += 10
        for way, colour in WAYS.items():
            if each["seconds"][way]:
                yield from _bar(y, way, colour, each["seconds"][way]["median"], pixels)
            y += BAR + GAP
        y += GROUP_GAP - 10


def _bar(y: int, way: str, colour: str, seconds: float, pixels: float) -> Iterator[str]:
    middle, length = y + BAR - 7, max(2.0, seconds * pixels)
    yield f'<text x="{LEFT - 8}" y="{middle}" font-size="13" text-anchor="end">{LABELS[way]}</text>'
    yield f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>'
    yield f'<text x="{LEFT + length + 6:.1f}" y="{middle}" font-size="13">{seconds:.1f} s</text>'


def main() -> None:
    found = [json.loads(path.read_text()) for path in RESULTS.glob("tpch-*.json")]
    if not found:
        raise SystemExit(f"no results in {RESULTS}: run `anabranch bench tpch --output {RESULTS}/tpch-0.1.json`")
    (RESULTS / "tpch.svg").write_text(picture(sorted(found, key=lambda each: each["scale"])))


if __name__ == "__main__":
    main()
