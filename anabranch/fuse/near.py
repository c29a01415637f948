"""Rows of large tables whose keys the changes themselves name: read by one scan, before anything is computed.

    near(T)  =  { t in T : t.c in K(T, c) for some c }        K(T, c) = the values of d, for every join on T.c = S.d

where d is a bare column of rows that are at hand. Wave after wave would otherwise find some of these keys and scan the
table for them. Rows beyond those needed do no harm: the join that asked for them passes them over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from anabranch.algebra.relation import (
    After,
    Aggregate,
    Before,
    Change,
    Consolidate,
    Distinct,
    Filter,
    Join,
    Negate,
    Project,
    Relation,
    Stored,
    Support,
    UnionAll,
    Weigh,
    Window,
)
from anabranch.delta.build import key_set, keys_of
from anabranch.fuse.codes import is_equated
from anabranch.fuse.reads import Read, Table, name_of, read_of
from anabranch.fuse.scan import FindRaw, RawLeaf, near_scan
from anabranch.fuse.steps import Step
from anabranch.fuse.tables import WORTH_WAITING, Near, Reduce, Tables, key_sets_at_hand, versions_of

Origin = tuple[Change, str]
_SAME_COLUMNS = (Filter, Consolidate, Negate, Support, Weigh, Distinct, Window)


@dataclass(frozen=True)
class Nearby:
    """The rows of large tables that are at hand; `reduced` works key sets out."""

    tables: Tables
    reduced: Reduce

    def scans(self, order: Iterable[Relation], is_far: Callable[[Table], bool], suffix: str) -> Iterator[Step]:
        """One scan of each large table for the keys that changes name."""

        def is_wanted(table: Before | After) -> bool:
            is_large = is_far(table) and self.tables.rows(table) > WORTH_WAITING
            return is_large and name_of(table) not in self.tables.near and not self.tables.is_here_as_a_whole(table)

        for name, named in named_keys(order, is_wanted).items():
            named_by = {
                column: each for column, each in named.keys.items() if not self._has_index(named.tables, column)
            }
            found = zip(named_by, self.reduced(tuple(named_by.values())), strict=True)
            keys = {column: each for column, each in found if self._is_selective(named.tables, column, each)}
            for versions in versions_of(self.tables, tuple(named.tables)):
                as_keys = key_sets_at_hand(self.tables, self.reduced)
                step = near_scan(versions, keys, suffix, as_keys, self.tables.raw)
                if step is not None:
                    self.tables.near[name] = Near(versions, step.pieces[0].leaf, keys)
                    yield step

    def rows_of(self, table: Table) -> Near | None:
        """The rows of a table that are at hand, if some are."""
        near = self.tables.near.get(name_of(table))
        is_there = near is not None and self.tables.is_local(near.rows) and table in near.versions.tables
        return near if is_there else None

    def has_all_of(self, read: Read) -> bool:
        """Whether no scan is needed for the rows that the read asks for."""
        is_whole = self.rows_of(read.table) is None and self._is_whole(read.table)
        return is_whole or self.is_indexed(read) or self.covers(read)

    def covers(self, read: Read) -> bool:
        """Whether all rows that the read asks for are at hand."""
        near = self.rows_of(read.table)
        if near is None:
            return False
        for place, value in enumerate(read.values):
            known = near.keys.get(key_column(read, place) or "")
            if known is not None:
                (asked,) = self.reduced((key_set(read.small, (value,)),))
                if self.tables.covers(known, asked, read.null_safe[place]):
                    return True
        return False

    def is_indexed(self, read: Read) -> bool:
        """Whether an index leads to the rows that the read asks for."""
        columns = [key_column(read, place) for place in range(len(read.keys))]
        return any(each is not None and self.tables.is_indexed(read.table, each) for each in columns)

    def is_picked(self, read: Read) -> bool:
        """Whether the driver picks the rows, for which it needs the keys at hand."""
        return self._is_whole(read.table) or self.rows_of(read.table) is not None or self.is_indexed(read)

    def _is_whole(self, table: Table) -> bool:
        return isinstance(table, Before | After) and self.tables.is_here_as_a_whole(table)

    def _has_index(self, tables: set[Before | After], column: str) -> bool:
        return all(self.tables.is_indexed(each, column) for each in tables)

    def _is_selective(self, tables: set[Before | After], column: str, keys: Relation) -> bool:
        """Whether few rows have these keys."""
        return all(self.tables.rows_by(each, column, keys) <= WORTH_WAITING for each in tables)


def picked_from(rows: Relation) -> FindRaw:
    """The way to read that picks from rows at hand."""
    return lambda versions, columns, reads: RawLeaf((rows,), None)


@dataclass
class Named:
    """A table that joins read, at these versions, and by column the keys that changes name, of any sign."""

    tables: set[Before | After] = field(default_factory=set)
    terms: dict[str, dict[Relation, None]] = field(default_factory=dict)

    @property
    def keys(self) -> dict[str, Relation]:
        """By column, the keys, each once."""
        return {column: Support(_union(tuple(terms))) for column, terms in self.terms.items()}


def named_keys(order: Iterable[Relation], is_wanted: Callable[[Before | After], bool]) -> dict[str, Named]:
    """By table, whatever its version: the keys by which joins read it, as far as changes name them."""
    origins = Origins()
    found: dict[str, Named] = {}
    for join in order:
        read = read_of(join, lambda _: True) if isinstance(join, Join) else None
        if read is None or isinstance(read[1].table, Stored) or not is_wanted(read[1].table):
            continue
        for column, terms in _named_by(read[1], origins):
            named = found.setdefault(name_of(read[1].table), Named())
            named.tables.add(read[1].table)
            named.terms.setdefault(column, {}).update(dict.fromkeys(terms))
    return found


def key_column(read: Read, place: int) -> str | None:
    """The table's column that is a key of the read, if values of it are found by their bytes."""
    key, value = read.keys[place], read.values[place]
    if not (key.is_column and value.is_column) or key.type != value.type or not is_equated(key.type):
        return None
    return next(iter(key.columns))


class Origins:
    """Which bare columns of changes a plan's columns come from, remembered."""

    def __init__(self) -> None:
        self._known: dict[tuple[Relation, str], frozenset[Origin]] = {}

    def of(self, relation: Relation, name: str) -> frozenset[Origin]:
        """All of them; none if some value comes from elsewhere."""
        if (relation, name) not in self._known:
            self._known[relation, name] = self._find(relation, name)
        return self._known[relation, name]

    def _find(self, relation: Relation, name: str) -> frozenset[Origin]:
        match relation:
            case Change():
                return frozenset({(relation, name)})
            case Project(child, outputs):
                value = next(each.value for each in outputs if each.name == name)
                return self.of(child, next(iter(value.columns))) if value.is_column else frozenset()
            case UnionAll(inputs):
                place = relation.names.index(name)
                return self._all([(each, each.names[place]) for each in inputs])
            case Aggregate(child, keys):
                return self.of(child, name) if name in keys else frozenset()
            case Join(left, right):
                return self.of(left if name in left.names else right, name)
        if isinstance(relation, _SAME_COLUMNS) and name in relation.children[0].names:
            return self.of(relation.children[0], name)
        return frozenset()

    def _all(self, places: Sequence[tuple[Relation, str]]) -> frozenset[Origin]:
        found = [self.of(*each) for each in places]
        return frozenset().union(*found) if all(found) else frozenset()


def _named_by(read: Read, origins: Origins) -> Iterator[tuple[str, list[Relation]]]:
    """The columns of the read whose keys are named by changes, and the keys."""
    for place, value in enumerate(read.values):
        column = key_column(read, place)
        if column is not None:
            found = origins.of(read.small, next(iter(value.columns)))
            if found:
                ordered = sorted(found, key=lambda each: (each[0].table, each[1]))
                yield column, [keys_of(leaf, [name]) for leaf, name in ordered]


def _union(terms: tuple[Relation, ...]) -> Relation:
    return UnionAll(terms) if len(terms) > 1 else terms[0]
