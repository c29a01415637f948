"""How often each construct was in a query whose result changed, lost rows, or had both sides of a join changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from anabranch.observe.report import NodeReport
from tests.exactness.generate import CONSTRUCTS
from tests.exactness.model import TableChange
from tests.exactness.shapes import Made


@dataclass
class Tally:
    """Counts of ticks, by construct."""

    changed: Counter[str] = field(default_factory=Counter)
    retracted: Counter[str] = field(default_factory=Counter)
    both_sides: Counter[str] = field(default_factory=Counter)
    joins: set[str] = field(default_factory=set)
    present: set[str] = field(default_factory=set)
    results_changed: int = 0

    @classmethod
    def sum(cls, tallies: Iterable[Tally]) -> Tally:
        """All of them as one."""
        found = cls()
        for each in tallies:
            found.changed += each.changed
            found.retracted += each.retracted
            found.both_sides += each.both_sides
            found.joins |= each.joins
            found.present |= each.present
            found.results_changed += each.results_changed
        return found

    def add(self, made: Made, change: Mapping[str, TableChange], report: NodeReport) -> None:
        self.present |= made.constructs
        self.joins |= {each.construct for each in made.joins}
        if report.rows_inserted or report.rows_deleted:
            self.changed.update(made.constructs)
            self.results_changed += 1
        if report.rows_deleted:
            self.retracted.update(made.constructs)
        moved = {each.construct for each in made.joins if change.keys() & each.left and change.keys() & each.right}
        self.both_sides.update(moved)

    def too_few(self, changed: int, retracted: int, both_sides: int) -> dict[str, tuple[int, int, int]]:
        """Constructs that were not moved often enough, with their counts."""
        found = {}
        for name in sorted(CONSTRUCTS):
            counts = self.changed[name], self.retracted[name], self.both_sides[name]
            joined = name not in self.joins or counts[2] >= both_sides
            if counts[0] < changed or counts[1] < retracted or not joined:
                found[name] = counts
        return found

    def __str__(self) -> str:
        lines = [f"{'construct':26}{'changed':>9}{'retracted':>11}{'both sides':>12}"]
        for name in sorted(CONSTRUCTS):
            both = str(self.both_sides[name]) if name in self.joins else "-"
            lines.append(f"{name:26}{self.changed[name]:9}{self.retracted[name]:11}{both:>12}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, list[int]]:
        """By construct: ticks with a changed result, with a retraction, with both sides of a join changed."""
        names = sorted(self.present | self.joins)
        return {
            name: [
                self.changed[name],
                self.retracted[name],
                *([self.both_sides[name]] if name in self.joins else []),
            ]
            for name in names
        }

    @classmethod
    def from_json(cls, counts: Mapping[str, list[int]]) -> Tally:
        """What `to_json` has kept."""
        found = cls(present=set(counts))
        for name, (changed, retracted, *both_sides) in counts.items():
            found.changed[name], found.retracted[name] = changed, retracted
            if both_sides:
                found.joins.add(name)
                found.both_sides[name] = both_sides[0]
        return found
