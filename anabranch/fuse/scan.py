"""One scan of a table for many reads: the rows that any of them needs, with the columns that any of them needs.

rows(T)  =  { t in T : keys1(t) in K1 or keys2(t) in K2 ... }       one key set for reads by the same keys
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.algebra.expression import Expression, equals, expression
from anabranch.algebra.relation import (
    IS_THERE,
    RESERVED_PREFIX,
    WAS_THERE,
    After,
    Before,
    Column,
    Filter,
    Join,
    JoinKind,
    Output,
    Project,
    Relation,
    Support,
    UnionAll,
)
from anabranch.delta.build import key_set
from anabranch.fuse.reads import Read, Table

_TRUE = expression("TRUE", "boolean")


@dataclass(frozen=True)
class Versions:
    """What is scanned: a table, or one leaf for two versions of it."""

    scanned: Table
    before: Before | None = None
    after: After | None = None

    @property
    def tables(self) -> tuple[tuple[Table, str | None], ...]:
        """Each version, and the column that tells its rows."""
        if self.before is None or self.after is None:
            return ((self.scanned, None),)
        return ((self.before, WAS_THERE), (self.after, IS_THERE))


def rows_needed(
    versions: Versions, reads: Sequence[Read], suffix: str
) -> tuple[Relation, list[tuple[Table, Table, str | None]]]:
    """The rows, and for each version the leaf that stands for its own among them, told by a flag."""
    tables = dict(versions.tables)
    own = [read for read in reads if read.table in tables]
    columns = tuple(each for each in versions.scanned.columns if any(each.name in read.columns for read in own))
    outputs = [Output(each.name, each.value) for each in columns]
    outputs += [Output(flag, versions.scanned.column(flag).value) for flag in tables.values() if flag is not None]
    made = [(table, type(table)(f"{table.table}{suffix}", columns), flag) for table, flag in tables.items()]
    return Project(_matching(versions.scanned, own), tuple(outputs)), made


def _matching(table: Relation, reads: Sequence[Read]) -> Relation:
    """The rows whose keys occur in the small side of any read."""
    groups: dict[tuple[tuple[Expression, ...], tuple[bool, ...]], dict[Relation, None]] = {}
    for read in reads:
        groups.setdefault((read.keys, read.null_safe), {})[key_set(read.small, read.values)] = None
    rows, marks = table, []
    for place, ((keys, null_safe), sets) in enumerate(groups.items()):
        keyset = _renamed(Support(UnionAll(tuple(sets))) if len(sets) > 1 else next(iter(sets)), place)
        pairs = zip(keys, keyset.columns, null_safe, strict=True)
        on = tuple(equals(key, each.value, safe) for key, each, safe in pairs)
        if len(groups) == 1:
            return Join(rows, keyset, JoinKind.SEMI, on)
        mark = f"{RESERVED_PREFIX}hit_{place}"
        outputs = (*(Output(each.name, each.value) for each in keyset.columns), Output(mark, _TRUE))
        rows = Join(rows, Project(keyset, outputs), JoinKind.LEFT, on)
        marks.append(Column(mark, "boolean"))
    template = " OR ".join(["{} IS NOT NULL"] * len(marks))
    return Filter(rows, (expression(template, "boolean", *(mark.value for mark in marks)),))


def _renamed(keyset: Relation, place: int) -> Relation:
    """Key sets that meet in one plan need columns of their own."""
    outputs = (Output(f"{RESERVED_PREFIX}in_{place}_{index}", each.value) for index, each in enumerate(keyset.columns))
    return Project(keyset, tuple(outputs))
