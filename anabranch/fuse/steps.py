"""What is worked out in one wave: relations, and the leaves that are cut out of their rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from anabranch.algebra.relation import Relation


@dataclass(frozen=True)
class Piece:
    """A leaf that stands for some rows of a step: those in which all flags are true.

    `columns` are the step's columns that the leaf shows under its own names, one for each.
    """

    leaf: Relation
    columns: tuple[str, ...]
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Raw:
    """A shorter way to few rows: a relation over files as they are, of whose rows `told` says which are there."""

    relation: Relation
    told: Callable[[pa.Table], pa.Table]


@dataclass(frozen=True)
class Step:
    """A relation to work out. Afterwards each leaf stands for its piece of the rows."""

    relation: Relation
    pieces: tuple[Piece, ...]
    raw: Raw | None = None

    @staticmethod
    def of(relation: Relation, leaf: Relation) -> Step:
        """All rows of the relation, for one leaf."""
        return Step(relation, (Piece(leaf, relation.names),))
