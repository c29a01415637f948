"""The tables of a tick, for cutting plans into waves: which are at hand, and how the others are scanned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.algebra.relation import (
    FILE,
    IS_THERE,
    POSITION,
    ROWID,
    STORED_ROWID,
    WAS_THERE,
    After,
    Before,
    Column,
    Relation,
    Stored,
)
from anabranch.delta.build import key_set
from anabranch.fuse.at_hand import can_tell_apart
from anabranch.fuse.near import key_column
from anabranch.fuse.reads import Read, Table
from anabranch.fuse.scan import RawLeaf, Versions, with_rowid
from anabranch.fuse.tables import Near
from anabranch.inputs import MOVED, TickInputs
from anabranch.spark.moved import Moved
from anabranch.spark.rows import Later
from anabranch.spark.run import Runner
from anabranch.store.pick import matching
from anabranch.store.protocol import Version

_ADDRESS = (Column(FILE, "string"), Column(POSITION, "bigint"), Column(STORED_ROWID, "bigint"))
_FLAGS = (Column(WAS_THERE, "boolean"), Column(IS_THERE, "boolean"))
Span = tuple[str, Version, Version]
"""A table's id, and the versions from which to which it is scanned."""


@dataclass(frozen=True)
class _Place:
    """Where the lake has the rows of a leaf, and what the tick changes of them, which is not in the lake yet."""

    span: Span
    moved: Moved | None = None

    def named(self, rows: str) -> str:
        """A name for some of the rows."""
        table, since, upto = self.span
        return f"{table}@{since}&{upto}{'' if self.moved is None else MOVED}/{rows}"

    def added(self) -> tuple[Column, ...]:
        """What comes with the columns: nothing where rows may be new, for those have no rowid."""
        return (Column(ROWID, "bigint"), *_FLAGS) if self.moved is None else ()

    def settled(self, rows: pa.Table) -> pa.Table:
        """Rows that the lake has, with ROWID and both flags, as the tick leaves them."""
        if self.moved is None:
            return rows
        after = self.moved.after_here(rows.drop_columns([each.name for each in _FLAGS]))
        assert after is not None
        return after


@dataclass(frozen=True)
class TickTables:
    """The tables that the plans of a tick read, by the names that `TickInputs` gives to leaves."""

    runner: Runner
    inputs: TickInputs
    near: dict[str, Near] = field(default_factory=dict)
    _indexed: dict[tuple[Table, str], bool] = field(default_factory=dict)
    _places: dict[Versions, _Place | None] = field(default_factory=dict)

    def is_local(self, table: Relation) -> bool:
        """Whether its rows are at hand."""
        return self.runner.is_local(table)

    def rows(self, table: Table) -> int:
        """About how many rows it has."""
        pinned = self.inputs.pinned
        name = "" if isinstance(table, Stored) else table.table.rpartition("@")[0]
        return self.inputs.row_count(name) if name in pinned.sources or name in pinned.nodes else 0

    def covers(self, known: Relation, asked: Relation, null_safe: bool) -> bool:
        """Whether all keys asked for, of one column at hand, are among the known ones."""
        keys, more = self.runner.known(known), self.runner.known(asked)
        if keys is None or more is None:
            return False
        values = more.column(0)
        if values.null_count and null_safe:
            return False
        here = keys.column(0).combine_chunks().cast(values.type)
        return bool(pc.all(pc.is_in(values.drop_null(), here), min_count=0).as_py())

    def rows_by(self, table: Before | After, column: str, keys: Relation) -> float:
        """About how many rows have one of these keys; without end if nobody can tell."""
        known, span = self.runner.known(keys), self._span(table, table)
        if known is None or span is None:
            return inf
        each = self.inputs.store.rows_per_key(span[0], span[1], column)
        return inf if each is None else each * known.num_rows

    def is_here_as_a_whole(self, table: Before | After) -> bool:
        """Whether the driver reads it as a whole, the columns that any node reads."""
        place = self._place(Versions(table))
        if place is None or not can_tell_apart(table.columns):
            return False
        return self.inputs.store.is_medium(*place.span, len(table.columns))

    def has_null(self, relation: Relation) -> tuple[bool, ...]:
        """For each column, whether it may hold a NULL."""
        rows = self.runner.known(relation)
        return tuple(rows is None or rows.column(name).null_count > 0 for name in relation.names)

    def with_rowid(self, stored: Stored) -> Stored:
        """The stored rows of a part with their rowids."""
        leaf = with_rowid(stored)
        if not self.runner.is_bound(leaf):
            self.runner.bind_like(leaf, stored)
        return leaf

    def both(self, before: Before, after: After) -> After | None:
        """One leaf for two versions of a source, each row with WAS_THERE and IS_THERE; None where there is none."""
        span = self._span(before, after)
        if span is None or before.columns != after.columns:
            return None
        leaf = After(f"{after.table}&{before.table}", after.columns + _FLAGS)
        if not self.runner.is_bound(leaf):
            if not self.inputs.store.can_read_both(*span):
                return None
            self.runner.bind(leaf, Later(partial(self.inputs.store.read_both, *span)))
        return leaf

    def is_indexed(self, table: Table, column: str) -> bool:
        """Whether rows are found by the values of a column, without a scan."""
        if (table, column) not in self._indexed:
            place, own = self._place(Versions(table)), _own(table)
            names = {each.name for each in own}
            self._indexed[table, column] = (
                place is not None and can_tell_apart(own) and self.inputs.store.can_pick(*place.span, names, column)
            )
        return self._indexed[table, column]

    def raw(self, versions: Versions, columns: frozenset[str], reads: Sequence[Read]) -> RawLeaf | None:
        """The picked rows of a source, or of a stored part, or its files as they are; None if neither will do."""
        place = self._place(versions)
        if place is None:
            return None
        own = _own(versions.before or versions.scanned)
        picked = self._picked(place, own, columns, reads) if can_tell_apart(own) else None
        if picked is not None:
            return RawLeaf((picked,), None)
        is_whole = self.inputs.store.is_medium(*place.span, len(own))
        here = self._here(place, own if is_whole else tuple(each for each in own if each.name in columns))
        if here is not None:
            return RawLeaf((here,), None)
        return self._files(place.span, own) if place.moved is None else None

    def _picked(
        self, place: _Place, own: tuple[Column, ...], columns: frozenset[str], reads: Sequence[Read]
    ) -> Relation | None:
        """A leaf of the rows that the reads ask for; None if no index leads to them."""
        asked = [self._asked(read) for read in reads]
        wanted = tuple(each for each in own if each.name in columns)
        names, wanted_names = ({each.name for each in some} for some in (own, wanted))
        rows = None
        if asked and all(asked):
            rows = self.inputs.store.pick(*place.span, names, wanted_names, asked, self.runner.limit)
        if rows is None:
            return None
        leaf = After(place.named(f"picked{self.runner.new_label()}"), (*wanted, *place.added()))
        self.runner.bind_table(leaf, rows if place.moved is None else matching(place.settled(rows), asked))
        return leaf

    def _asked(self, read: Read) -> dict[str, tuple[pa.Array, bool]]:
        """By column that is a key of the read, its values, as far as they are at hand."""
        asked = {}
        for place, value in enumerate(read.values):
            column = key_column(read, place)
            if column is not None:
                (keys,) = self.runner.reduced((key_set(read.small, (value,)),))
                known = self.runner.known(keys)
                if known is not None:
                    asked[column] = (known.column(0).combine_chunks(), read.null_safe[place])
        return asked

    def _here(self, place: _Place, columns: tuple[Column, ...]) -> Relation | None:
        """A leaf of these columns, at hand, if that is not much to read."""
        leaf = After(place.named("here"), (*columns, *place.added()))
        if self.runner.is_bound(leaf):
            return leaf
        names = {each.name for each in columns}
        rows = self.inputs.store.few_of_both(*place.span, names) if can_tell_apart(columns) else None
        if rows is None:
            return None
        self.runner.bind_table(leaf, place.settled(rows))
        self.runner.table_scans += 1
        return leaf

    def _files(self, span: Span, columns: tuple[Column, ...]) -> RawLeaf | None:
        """Leaves of all columns and the address, in files."""
        table, since, upto = span
        found = self.inputs.store.read_raw(*span)
        if found is None:
            return None
        leaves = []
        for number, frame in enumerate(found.frames):
            leaf = After(f"{table}@{since}&{upto}/files{number}", columns + _ADDRESS)
            if not self.runner.is_bound(leaf):
                self.runner.bind(leaf, Later(frame))
            leaves.append(leaf)
        return RawLeaf(tuple(leaves), found.told)

    def _place(self, versions: Versions) -> _Place | None:
        """Where the rows are of what is scanned, if it is in the lake as it is read, but for what moves at hand."""
        if versions not in self._places:
            self._places[versions] = self._found(versions)
        return self._places[versions]

    def _found(self, versions: Versions) -> _Place | None:
        scanned, pinned = versions.scanned, self.inputs.pinned
        if isinstance(scanned, Stored):
            return _Place((pinned.part(scanned.part).id, pinned.version, pinned.version))
        if versions.before is not None and versions.after is not None:
            span = self._span(versions.before, versions.after)
        else:
            span = self._span(scanned, scanned)
        return self._moved(scanned) if span is None else _Place(span)

    def _moved(self, table: Before | After) -> _Place | None:
        """A table after the tick has moved it; None unless all that moves is at hand."""
        name, _, end = table.table.rpartition("@")
        part = self.inputs.part_shown_whole(name, self.inputs.pinned.version) if end.endswith(MOVED) else None
        moved = None if part is None else self.inputs.moved.get(part.table)
        if part is None or moved is None or moved.table is None:
            return None
        pinned = self.inputs.pinned
        return _Place((pinned.part(part.table).id, pinned.version, pinned.version), moved)

    def _span(self, first: Before | After, last: Before | After) -> Span | None:
        """From one version of a table to another; None unless the lake has both: what moves now is not there yet."""
        name, _, since = first.table.rpartition("@")
        upto = last.table.rpartition("@")[2]
        if not (since.isdigit() and upto.isdigit()):
            return None
        table = self._in_lake(name, Version(int(since)))
        return None if table is None else (table, Version(int(since)), Version(int(upto)))

    def _in_lake(self, name: str, since: Version) -> str | None:
        """The id of the source that a leaf reads, or of a part of which readers see all rows, and have since then."""
        pinned = self.inputs.pinned
        if name in pinned.sources:
            return name
        part = self.inputs.part_shown_whole(name, since)
        return None if part is None else pinned.part(part.table).id


def _own(table: Relation) -> tuple[Column, ...]:
    """The columns but for the rowid."""
    return tuple(each for each in table.columns if each.name != ROWID)
