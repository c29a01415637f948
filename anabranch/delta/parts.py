"""What a node stores: one or more parts, each one stored table. The last part is what readers see."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from anabranch.algebra.relation import RESERVED_PREFIX, Column, Relation, Scan, Stored
from anabranch.algebra.types import storable

PART_PREFIX = "part:"
"""A part reads another part of its node through a Scan of `part:<name>`; it sees the visible columns and rows."""

FLAG = f"{RESERVED_PREFIX}visible"

HIDDEN = f"{RESERVED_PREFIX}kept_"
"""Hidden columns that parts store start like this; lowering, which makes hidden columns too, uses other names."""


class Strategy(Enum):
    """How the change of a part's stored rows is found."""

    LINEAR = "linear"
    """From the changes of its inputs alone; nothing but the result is stored."""
    MERGE = "merge"
    """Stored counts, sums and extremes plus those of the change."""
    KEYED = "keyed"
    """The touched groups worked out anew, minus the stored rows of these groups."""
    TOP = "top"
    """The best rows and some more are kept; they move with the change until too few are left."""
    RECOMPUTE = "recompute"
    """Everything worked out anew, minus the stored rows."""


@dataclass(frozen=True)
class Part:
    """One stored table. `relation` defines its visible rows; hidden columns carry what a merge needs.

    `flag` names the stored BOOLEAN column that is false for rows readers do not see; `keys` are the stored columns that
    tell groups apart.
    """

    name: str
    relation: Relation
    columns: tuple[Column, ...]
    visible: tuple[str, ...]
    flag: str | None
    strategy: Strategy
    keys: tuple[str, ...] = ()

    @property
    def table(self) -> str:
        """The table name under which other parts read it."""
        return PART_PREFIX + self.name

    @property
    def is_storable(self) -> bool:
        """Whether a lake can hold all of its columns, the hidden ones included."""
        return all(storable(each.type) for each in self.columns)

    @property
    def stored(self) -> Stored:
        """Its rows before the tick, hidden columns included."""
        return Stored(self.name, self.columns)

    @property
    def scan(self) -> Scan:
        """Its visible rows, as a table that other parts read."""
        return Scan(self.table, self.relation.columns)
