"""What refreshes cost, learned from those that were done.

    cost(x)  =  the line through (median rows, median seconds) of neighbouring sizes, never falling as x grows

Samples are kept by size, a few for each power of four, so that a thousand small refreshes do not push out the memory of
the one large one, and a median of the few forgives an outlier; of two the lower counts, since the first refresh of its
kind is slow for other reasons. Where nothing was seen the estimate is hopeful, so that
it is tried and then known: below the smallest size cost falls in proportion, beyond the largest the last rise goes on,
or `prior_seconds_per_row` where there is none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median, median_low
from typing import Any

KEPT_PER_SIZE = 9
Sample = tuple[float, float]


def size_class(rows: float) -> int:
    """Sizes that cost about the same: 0, 1..3, 4..15, 16..63 rows and so on."""
    return (int(rows).bit_length() + 1) // 2


@dataclass(frozen=True)
class CostCurve:
    """Seconds as a function of rows: by size class, the latest samples (rows, seconds), oldest first."""

    samples: Mapping[int, tuple[Sample, ...]] = field(default_factory=dict)

    def with_sample(self, rows: float, seconds: float) -> CostCurve:
        """The curve after one more refresh."""
        size = size_class(rows)
        kept = (*self.samples.get(size, ()), (float(rows), float(seconds)))[-KEPT_PER_SIZE:]
        return replace(self, samples={**self.samples, size: kept})

    def seconds(self, rows: float, prior_seconds_per_row: float) -> float | None:
        """The estimate for so many rows; None if nothing is known."""
        points = self._points()
        if not points:
            return None
        if rows <= points[0][0]:
            return points[0][1] * rows / points[0][0] if size_class(rows) not in self.samples else points[0][1]
        if rows >= points[-1][0]:
            return points[-1][1] + (rows - points[-1][0]) * _last_rise(points, prior_seconds_per_row)
        right = bisect_left(points, (rows, 0.0))
        (x0, y0), (x1, y1) = points[right - 1], points[right]
        return y0 + (y1 - y0) * (rows - x0) / (x1 - x0)

    def seen(self, rows: float) -> int:
        """How many samples of about that size are kept."""
        return len(self.samples.get(size_class(rows), ()))

    @property
    def count(self) -> int:
        """How many samples are kept."""
        return sum(map(len, self.samples.values()))

    def _points(self) -> list[Sample]:
        """One point a size class, seconds made to rise with rows."""
        points: list[Sample] = []
        for _, samples in sorted(self.samples.items()):
            rows, seconds = median(x for x, _ in samples), median_low(y for _, y in samples)
            points.append((rows, max(seconds, points[-1][1]) if points else seconds))
        return points

    def to_document(self) -> dict[str, list[list[float]]]:
        return {str(size): [list(sample) for sample in samples] for size, samples in sorted(self.samples.items())}

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> CostCurve:
        return CostCurve({int(size): tuple((x, y) for x, y in samples) for size, samples in document.items()})


def _last_rise(points: list[Sample], prior_seconds_per_row: float) -> float:
    """Seconds per further row beyond the last point: as between the last two, if they are well apart."""
    if len(points) > 1:
        (x0, y0), (x1, y1) = points[-2], points[-1]
        if x1 >= 4 * x0 and y1 >= 1.5 * y0:
            return (y1 - y0) / (x1 - x0)
    return prior_seconds_per_row
