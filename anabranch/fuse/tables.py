"""What cutting plans needs to know of the tables that they read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from anabranch.algebra.relation import After, Before, Relation, Stored
from anabranch.fuse.reads import Read, Table
from anabranch.fuse.scan import AtHand, KeySet, RawLeaf, Versions

WORTH_WAITING = 100_000
"""A table with more rows than this waits until all reads of it are known, if other tables can be read meanwhile."""

Reduce = Callable[[Sequence[Relation]], tuple[Relation, ...]]
"""Works out what needs no expression, over rows that are at hand."""


@dataclass(frozen=True)
class Near:
    """The rows of two versions of a table that are at hand, and by column the keys of which all rows are."""

    versions: Versions
    rows: Relation
    keys: dict[str, Relation]


class Tables(Protocol):
    """What is known of the tables that plans read."""

    def is_local(self, table: Relation) -> bool:
        """Whether its rows are at hand, so that there is nothing to gain from reading fewer."""
        ...

    def rows(self, table: Table) -> int:
        """About how many rows it has."""
        ...

    def both(self, before: Before, after: After) -> After | None:
        """One leaf for two versions of a table, with the columns of the second, BEFORE and AFTER; None if unlike."""
        ...

    def with_rowid(self, stored: Stored) -> Stored:
        """The leaf of the same rows with their rowids."""
        ...

    def raw(self, versions: Versions, columns: frozenset[str], reads: Sequence[Read]) -> RawLeaf | None:
        """At least these columns of the rows that the reads ask for: picked, or files as they are; None: neither."""
        ...

    def is_indexed(self, table: Table, column: str) -> bool:
        """Whether rows are found by the values of a column, without a scan."""
        ...

    def has_null(self, relation: Relation) -> tuple[bool, ...]:
        """For each column, whether it may hold a NULL."""
        ...

    @property
    def near(self) -> dict[str, Near]:
        """By table, the rows that are at hand, those of earlier cutters included."""
        ...

    def covers(self, known: Relation, asked: Relation, null_safe: bool) -> bool:
        """Whether all that may be asked for, a key set of one column at hand, is among the known keys."""
        ...

    def rows_by(self, table: Before | After, column: str, keys: Relation) -> float:
        """About how many rows have one of these keys, which are at hand; without end if nobody can tell."""
        ...

    def is_here_as_a_whole(self, table: Before | After) -> bool:
        """Whether it is read by the driver, all of it."""
        ...


def versions_of(known: Tables, read: Sequence[Table]) -> Iterator[Versions]:
    """Before and after of a table, together where one scan can give both."""
    tables = list(dict.fromkeys(read))
    if isinstance(tables[0], Stored):
        yield Versions(known.with_rowid(tables[0]))
        return
    if len(tables) == 2:
        before, after = sorted(tables, key=lambda each: isinstance(each, After))
        if isinstance(before, Before) and isinstance(after, After):
            both = known.both(before, after)
            if both is not None:
                yield Versions(both, before, after)
                return
    for table in tables:
        yield Versions(table)


def key_sets_at_hand(known: Tables, reduced: Reduce) -> AtHand:
    """Works key sets out as far as that takes no job."""

    def at_hand(keys: Relation) -> KeySet:
        (here,) = reduced((keys,))
        return KeySet(here, known.has_null(here))

    return at_hand
