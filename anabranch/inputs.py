"""What a tick reads: the rows that each leaf of a delta plan stands for.

A leaf says before, after or change of a table; which snapshots that means depends on the node that asks (each has its
own frontier) and on what has already moved in this tick. Naming a leaf `<table>@<since>..<upto>` says exactly that, so
two nodes that mean the same rows share one leaf, and two that do not never do.

A table that moved in this tick is not in the lake yet: its rows afterwards are the stored ones, less those deleted,
plus those inserted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from anabranch.algebra.relation import (
    After,
    Before,
    Change,
    Column,
    Empty,
    Relation,
    Stored,
    UnionAll,
)
from anabranch.algebra.walk import leaves, transform
from anabranch.compile import QUERY_ITSELF, Program
from anabranch.definitions import NODE, StoredPart, StreamTable
from anabranch.delta.state import PART_PREFIX
from anabranch.fuse.ahead import NOTHING, seen_by_readers
from anabranch.fuse.at_hand import can_tell_apart, consolidated
from anabranch.pinned import Pinned
from anabranch.spark.moved import Moved, difference, shown, shown_table, zset_sum
from anabranch.spark.rows import Later, Rows
from anabranch.spark.together import collect_tagged
from anabranch.store.protocol import ROWID, WEIGHT, Store, Version

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Frames = dict[Relation, Callable[[], Rows]]

MOVED = "+tick"
"""What the name of a leaf ends with whose table moves in this tick."""

SMALL_TABLE_ROWS = 20_000
"""A source with no more rows is read as a whole, once for all nodes and until it changes."""


@dataclass
class TickInputs:
    """The tables of one tick.

    `replaced` are the old definitions of nodes that the tick gives a new one; `moved` holds, by stored table, what the
    tick has worked out so far; `changes` are the changes of sources that have been read, by the snapshot they start at;
    `small_tables` are sources read as a whole, by version; `clocks` the time that each node arrives at; `columns_read`
    are the columns of sources that any node reads: leaves have no others, and nobody reads more.
    """

    store: Store
    pinned: Pinned
    replaced: Mapping[str, StreamTable] = field(default_factory=dict)
    moved: dict[str, Moved] = field(default_factory=dict)
    changes: dict[tuple[str, Version], pa.Table] = field(default_factory=dict)
    small_tables: dict[tuple[str, Version], pa.Table] = field(default_factory=dict)
    clocks: Mapping[str, str] = field(default_factory=dict)
    columns_read: Mapping[str, frozenset[str]] = field(default_factory=dict)
    _stored: dict[str, pa.Table | None] = field(default_factory=dict)
    _concerned: dict[tuple[str, Version, frozenset[str]], bool] = field(default_factory=dict)

    def name_leaves(
        self,
        plan: Relation,
        node: StreamTable,
        query_itself: Callable[[], DataFrame],
        ahead: Mapping[str, Relation],
    ) -> tuple[Relation, Frames]:
        """The plan with its leaves named by version, and for each how to read its rows.

        `ahead`: by stored table, changes that are worked out in the same job; they take the place of their leaves.
        """
        since = self.since(node)
        frames: Frames = {}
        named: dict[Relation, Relation] = {}
        for leaf in leaves(plan):
            if isinstance(leaf, After) and leaf.table == QUERY_ITSELF:
                named[leaf] = After(f"{node.id}/{QUERY_ITSELF}", leaf.columns)
                frames[named[leaf]] = query_itself
            elif isinstance(leaf, After | Change) and (change := self._ahead(leaf, node, ahead)) is not None:
                named[leaf] = change
                if isinstance(leaf, After):
                    before, frames_of_it = self._named(Before(leaf.table, leaf.columns), node, since)
                    frames[before] = frames_of_it
                    named[leaf] = UnionAll((before, change))
            elif isinstance(leaf, Before | After | Change | Stored):
                named[leaf], frames[named[leaf]] = self._named(leaf, node, since)
        return transform(plan, lambda relation: named.get(relation, relation)), frames

    def _named(
        self, leaf: Before | After | Change | Stored, node: StreamTable, since: Mapping[str, Version]
    ) -> tuple[Relation, Callable[[], Rows]]:
        match leaf:
            case Stored(part, columns):
                stored = _part(node, part)
                return Stored(stored.table, columns), partial(self.stored, stored)
            case Before(table, columns):
                start = self._start(table, since)
                name = f"{self._key(node, table)}@{start}"
                return Before(name, self._read(table, columns)), partial(self._before, node, table, start)
            case After(table, columns):
                name = f"{self._key(node, table)}@{self._end(node, table)}"
                return After(name, self._read(table, columns)), partial(self._after, node, table)
            case Change(table, columns):
                start = self._start(table, since)
                name = f"{self._key(node, table)}@{start}..{self._end(node, table)}"
                return Change(name, self._read(table, columns)), partial(self._change, node, table, start)

    def _read(self, table: str, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        """Those columns of a source that somebody reads; one of them at least, since there are rows to count."""
        read = self.columns_read.get(table)
        if read is None:
            return columns
        return tuple(each for each in columns if each.name in read) or columns[:1]

    def _ahead(self, leaf: After | Change, node: StreamTable, ahead: Mapping[str, Relation]) -> Relation | None:
        part = self.shown_part(node, leaf.table)
        if part is None or part.table not in ahead:
            return None
        return seen_by_readers(ahead[part.table], leaf.columns, part.flag)

    def _start(self, table: str, since: Mapping[str, Version]) -> Version:
        """Where a leaf starts: of a source its version then, so that nodes that looked at different times agree."""
        at = since.get(table, self.pinned.version)
        return self.store.version_of(table, at) if table in self.pinned.sources and self.can_read(table, at) else at

    def clock(self, node: StreamTable) -> str | None:
        """What a node's query sees as now in this tick, if it looks at all."""
        return node.clock_at(self.clocks.get(node.id))

    def is_new(self, node: StreamTable) -> bool:
        """Whether the node has no rows yet under this definition."""
        return node.id in self.replaced or node.id not in self.pinned.frontiers

    def since(self, node: StreamTable) -> Mapping[str, Version]:
        """Per input, the snapshot that the node last read."""
        return {} if self.is_new(node) else self.pinned.frontiers[node.id].inputs

    def can_read(self, table: str, at: Version) -> bool:
        """Whether an input can still be read as it was at a snapshot."""
        if table in self.pinned.nodes:
            return self._is_kept(at) or self.store.can_read(self._stored_id(table), at)
        return self.store.can_read(table, at)

    def row_count(self, table: str) -> int:
        """Rows of an input before this tick, from metadata; a table that this tick creates has none."""
        if table not in self.pinned.nodes:
            return self.store.row_count(table, self.pinned.version)
        shown = self.pinned.nodes[table].shown.table
        if shown not in self.pinned.part_names:
            return 0
        return self.store.row_count(self.pinned.part(shown).id, self.pinned.version)

    def change_size(self, table: str, since: Version) -> int:
        """An upper bound on the rows by which an input changed until this tick, from metadata."""
        stored = self._stored_id(table) if table in self.pinned.nodes else table
        return self.store.change_size(stored, since, self.pinned.version)

    def change_rows(self, node: StreamTable) -> int:
        """An upper bound on the changed rows of the node's sources, from metadata."""
        return sum(
            self.store.change_size(table, at, self.pinned.version)
            for table, at in self.since(node).items()
            if table in self.pinned.sources and self.can_read(table, at)
        )

    def changed_tables(
        self, node: StreamTable, program: Program, ahead: Mapping[str, Relation] = NOTHING
    ) -> frozenset[str]:
        """The inputs, and the node's own parts worked out so far, that differ from what the node last read.

        What is worked out in the same job (`ahead`) counts as changed, unless its plan is known to be empty.
        """
        coming = {table for table, change in ahead.items() if not isinstance(change, Empty)}
        coming |= {table for table, moved in self.moved.items() if not moved.is_empty}
        moving = {node for node in program.tables & self.pinned.nodes.keys() if self._stored_name(node) in coming}
        changed = {
            table
            for table in program.tables - moving
            if self.has_changed(node, table) and self._concerns(node, table, program)
        }
        return frozenset(moving | changed | {PART_PREFIX + part.name for part in node.parts if part.table in coming})

    def _concerns(self, node: StreamTable, table: str, program: Program) -> bool:
        """Whether a source's change, as far as it was read, is one of the columns that the node's query reads."""
        if table not in self.since(node) or table not in self.pinned.sources:
            return True
        columns, start = program.columns_needed.get(table), self._start(table, self.since(node))
        rows = self.changes.get((table, start))
        if columns is None or rows is None:
            return True
        if (table, start, columns) not in self._concerned:
            own = rows.select([*sorted(columns), WEIGHT])
            types = tuple(each for each in self.pinned.columns(table) if each.name in columns)
            self._concerned[table, start, columns] = not can_tell_apart(types) or consolidated(own).num_rows > 0
        return self._concerned[table, start, columns]

    def has_seen_all(self, node: StreamTable, table: str) -> bool:
        """Whether the node has read all that an input, or a part of its own, had before this tick."""
        if table.startswith(PART_PREFIX):
            return not self.is_new(node)
        upstream = self.pinned.nodes[table]
        since = self.since(node).get(table)
        if since is None or table in self.replaced or self.is_new(upstream):
            return False
        if self.pinned.frontiers[node.id].generations.get(table) != upstream.generation:
            return False
        return self.store.version_of(self.pinned.part(upstream.shown.table).id, self.pinned.version) <= since

    def is_here(self, part: StoredPart) -> bool:
        """Whether the rows that a part has stored are few, and at hand."""
        return self._stored_here(part) is not None

    def read_ahead(self, nodes: Sequence[StreamTable], limit: int) -> None:
        """Once for all nodes: the changes of sources, by version range, and small sources; by one job, or without."""
        now = self.pinned.version
        changes, tables = set[tuple[str, Version]](), set[tuple[str, Version]]()
        for node in nodes:
            for table, at in self.since(node).items():
                if table in self.pinned.sources and self.can_read(table, at):
                    if self.has_changed(node, table) and self.store.change_size(table, at, now) <= limit:
                        changes.add(self._version(table, at))
                    tables |= {self._version(table, each) for each in (at, now) if self._is_small(table, each)}
        for stale in self.small_tables.keys() - tables:
            del self.small_tables[stale]
        self.changes |= _found((key, self.store.few_changes(*key, now, self._names(key[0]))) for key in sorted(changes))
        self.small_tables |= _found(
            (key, self.store.few_rows(*key)) for key in sorted(tables - self.small_tables.keys())
        )
        far = sorted(changes - self.changes.keys()), sorted(tables - self.small_tables.keys())
        frames = [self.store.changes(*key, now, self._names(key[0])) for key in far[0]]
        frames += [self.store.read(*key) for key in far[1]]
        rows = collect_tagged(frames)
        self.changes.update(zip(far[0], rows[: len(far[0])], strict=True))
        self.small_tables.update(zip(far[1], rows[len(far[0]) :], strict=True))

    def _names(self, table: str) -> frozenset[str]:
        return frozenset(each.name for each in self._read(table, self.pinned.columns(table)))

    def _version(self, table: str, at: Version) -> tuple[str, Version]:
        return table, self.store.version_of(table, at)

    def _is_small(self, table: str, at: Version) -> bool:
        return self.store.row_count(table, at) <= SMALL_TABLE_ROWS

    def _source(self, table: str, at: Version) -> Rows:
        known = self.small_tables.get(self._version(table, at))
        return Later(partial(self.store.read, table, at)) if known is None else known

    def _stored_id(self, table: str) -> str:
        return self.pinned.part(self._stored_name(table)).id

    def _stored_name(self, node: str) -> str:
        return self.pinned.nodes[node].shown.table

    def has_changed(self, node: StreamTable, table: str) -> bool:
        """Whether an input differs from what the node last read, as far as metadata tells."""
        since = self.since(node).get(table)
        if since is None:
            return True
        if table not in self.pinned.nodes:
            return self.store.version_of(table, self.pinned.version) > since
        upstream = self.pinned.nodes[table]
        if self.pinned.frontiers[node.id].generations.get(table) != upstream.generation:
            return True
        moved = self.moved.get(upstream.shown.table)
        if moved is not None and not moved.is_empty:
            return True
        return self.store.version_of(self.pinned.part(upstream.shown.table).id, self.pinned.version) > since

    def stored_rows(self, part: StoredPart) -> DataFrame:
        """The rows a part has stored, hidden columns and rowids included, before this tick."""
        return self.store.read(self.pinned.part(part.table).id, self.pinned.version, rowid=True)

    def stored(self, part: StoredPart) -> Rows:
        """The same, at hand if they are few."""
        here = self._stored_here(part)
        return Later(partial(self.stored_rows, part)) if here is None else here

    def _stored_here(self, part: StoredPart) -> pa.Table | None:
        if part.table not in self._stored:
            table = self.pinned.part(part.table).id
            self._stored[part.table] = self.store.few_rows(table, self.pinned.version, rowid=True)
        return self._stored[part.table]

    def _key(self, node: StreamTable, table: str) -> str:
        return f"{node.id}/{table}" if table.startswith(PART_PREFIX) else table

    def _end(self, node: StreamTable, table: str) -> str:
        """The moment after the tick: the pin, marked where the table itself moves."""
        part = self.shown_part(node, table)
        moves = part is not None and part.table in self.moved
        return f"{self.pinned.version}{MOVED}" if moves else f"{self.pinned.version}"

    def shown_part(self, node: StreamTable, table: str) -> StoredPart | None:
        """What is stored of an input, or of a part of the node's own; None of a source."""
        if table.startswith(PART_PREFIX):
            return _part(node, table.removeprefix(PART_PREFIX))
        return self.pinned.nodes[table].shown if table in self.pinned.nodes else None

    def part_shown_whole(self, name: str, since: Version) -> StoredPart | None:
        """The stored table that leaves of this name have read since then, if readers see all of its rows."""
        node, _, part = name.partition("/")
        if node not in self.pinned.nodes:
            return None
        definition = self.pinned.nodes[node]
        stored = self.shown_part(definition, part or node)
        if stored is None or stored.flag is not None or stored.table not in self.pinned.part_names:
            return None
        return stored if part or self._definition_at(definition, since).shown == stored else None

    def _before(self, node: StreamTable, table: str, start: Version) -> Rows:
        if table.startswith(PART_PREFIX):
            part = _part(node, table.removeprefix(PART_PREFIX))
            here = self._stored_here(part)
            return Later(partial(self._shown_rows, part)) if here is None else shown_table(here, part)
        if table in self.pinned.nodes:
            return self._node_before(self.pinned.nodes[table], start)
        return self._source(table, start)

    def _shown_rows(self, part: StoredPart) -> DataFrame:
        return shown(self.stored_rows(part).drop(ROWID), part)

    def _after(self, node: StreamTable, table: str) -> Rows:
        part = self.shown_part(node, table)
        if part is None:
            return self._source(table, self.pinned.version)
        here = self._stored_here(part) if part.table in self.pinned.part_names else None
        if here is not None and part.table in self.moved:
            here = self.moved[part.table].after_here(here)
        return Later(partial(self.rows_after, node, table)) if here is None else shown_table(here, part)

    def rows_after(self, node: StreamTable, table: str) -> DataFrame:
        """What a table's readers will see once this tick is committed."""
        part = self.shown_part(node, table)
        if part is None:
            return self.store.read(table, self.pinned.version)
        if part.table not in self.moved:
            return self._shown_rows(part)
        moved = self.moved[part.table]
        is_new = part.table not in self.pinned.part_names
        return shown(moved.new_rows() if is_new else moved.after(self.stored_rows(part)), part)

    def _change(self, node: StreamTable, table: str, start: Version) -> Rows:
        part = self.shown_part(node, table)
        if part is None:
            known = self.changes.get((table, start))
            return self.store.changes(table, start, self.pinned.version, self._names(table)) if known is None else known
        if table in self.replaced:
            return difference(self.rows_after(node, table), self.node_rows(self.replaced[table], start))
        moved = self.moved.get(part.table)
        earlier = [] if table.startswith(PART_PREFIX) else self._change_before_the_tick(self.pinned.nodes[table], start)
        if moved is not None and moved.table is not None and not earlier:
            return shown_table(moved.table, part)
        return zset_sum([*earlier, *([] if moved is None else [shown(moved.change(), part)])])

    def _change_before_the_tick(self, upstream: StreamTable, start: Version) -> list[DataFrame]:
        """What moved the table in earlier ticks, since the reader last looked."""
        table = self.pinned.part(upstream.shown.table).id
        if self._definition_at(upstream, start).shown.table != upstream.shown.table:
            return [difference(self._shown_rows(upstream.shown), self.node_rows(upstream, start))]
        if self.store.version_of(table, self.pinned.version) <= start:
            return []
        return [shown(self.store.changes(table, start, self.pinned.version), upstream.shown)]

    def node_rows(self, node: StreamTable, at: Version) -> DataFrame:
        """What readers of a stream table saw at a snapshot."""
        part, table = self._stored_at(node, at)
        return shown(self.store.read(table, at), part)

    def _node_before(self, node: StreamTable, at: Version) -> Rows:
        part, table = self._stored_at(node, at)
        here = self.store.few_rows(table, at)
        return Later(partial(self.node_rows, node, at)) if here is None else shown_table(here, part)

    def _stored_at(self, node: StreamTable, at: Version) -> tuple[StoredPart, str]:
        """The part that readers of a stream table saw at a snapshot, and the id of its table."""
        part = self._definition_at(node, at).shown
        tables = self.store.tables(at if self._is_kept(at) else self.pinned.version).values()
        return part, next(each.id for each in tables if each.name == part.table)

    def _is_kept(self, at: Version) -> bool:
        return any(each.version == at for each in self.store.snapshots())

    def _definition_at(self, node: StreamTable, at: Version) -> StreamTable:
        """How the node was defined then; where the snapshot has expired and can still be read, as it is now."""
        if at == self.pinned.version or not self._is_kept(at):
            return node
        return StreamTable.from_json(self.store.documents(NODE + node.id, at)[NODE + node.id])


def _part(node: StreamTable, name: str) -> StoredPart:
    return next(each for each in node.parts if each.name == name)


def _found(
    read: Iterable[tuple[tuple[str, Version], pa.Table | None]],
) -> dict[tuple[str, Version], pa.Table]:
    return {key: rows for key, rows in read if rows is not None}
