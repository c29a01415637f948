"""What a tick reads: the rows that each leaf of a delta plan stands for.

A leaf says before, after or change of a table; which snapshots that means depends on the node that asks (each has its
own frontier) and on what has already moved in this tick. Naming a leaf `<table>@<since>..<upto>` says exactly that, so
two nodes that mean the same rows share one leaf, and two that do not never do.

A table that moved in this tick is not in the lake yet: its rows afterwards are the stored ones, less those deleted,
plus those inserted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from anabranch.algebra.relation import After, Before, Change, Relation, Stored
from anabranch.algebra.walk import leaves, transform
from anabranch.compile import QUERY_ITSELF, Program
from anabranch.definitions import NODE, StoredPart, StreamTable
from anabranch.delta.state import PART_PREFIX
from anabranch.pinned import Pinned
from anabranch.spark.moved import Moved, difference, shown, zset_sum
from anabranch.spark.together import kept_together
from anabranch.store.protocol import ROWID, Store, Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Frames = dict[Relation, "Callable[[], DataFrame]"]


@dataclass
class TickInputs:
    """The tables of one tick.

    `replaced` are the old definitions of nodes that the tick gives a new one; `moved` holds, by stored table, what the
    tick has worked out so far; `changes` are the changes of sources that have been read, by the snapshot they start at;
    `clocks` the time that each node arrives at.
    """

    store: Store
    pinned: Pinned
    replaced: Mapping[str, StreamTable] = field(default_factory=dict)
    moved: dict[str, Moved] = field(default_factory=dict)
    changes: dict[tuple[str, Version], DataFrame] = field(default_factory=dict)
    clocks: Mapping[str, str] = field(default_factory=dict)

    def name_leaves(
        self, plan: Relation, node: StreamTable, query_itself: Callable[[], DataFrame]
    ) -> tuple[Relation, Frames]:
        """The plan with its leaves named by version, and for each how to read its rows."""
        since = self.since(node)
        frames: Frames = {}
        named: dict[Relation, Relation] = {}
        for leaf in leaves(plan):
            if isinstance(leaf, After) and leaf.table == QUERY_ITSELF:
                named[leaf] = After(f"{node.id}/{QUERY_ITSELF}", leaf.columns)
                frames[named[leaf]] = query_itself
            elif isinstance(leaf, Before | After | Change | Stored):
                named[leaf], frames[named[leaf]] = self._named(leaf, node, since)
        return transform(plan, lambda relation: named.get(relation, relation)), frames

    def _named(
        self, leaf: Before | After | Change | Stored, node: StreamTable, since: Mapping[str, Version]
    ) -> tuple[Relation, Callable[[], DataFrame]]:
        match leaf:
            case Stored(part, columns):
                stored = _part(node, part)
                return Stored(stored.table, columns), partial(self.stored_rows, stored)
            case Before(table, columns):
                start = since.get(table, self.pinned.version)
                return Before(f"{self._key(node, table)}@{start}", columns), partial(self._before, node, table, start)
            case After(table, columns):
                end = self._end(node, table)
                return After(f"{self._key(node, table)}@{end}", columns), partial(self.rows_after, node, table)
            case Change(table, columns):
                start = since.get(table, self.pinned.version)
                span = f"{start}..{self._end(node, table)}"
                return Change(f"{self._key(node, table)}@{span}", columns), partial(self._change, node, table, start)

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
            kept = {each.version for each in self.store.snapshots()}
            return at in kept or self.store.can_read(self._stored_id(table), at)
        return self.store.can_read(table, at)

    def change_rows(self, node: StreamTable) -> int:
        """An upper bound on the changed rows of the node's sources, from metadata."""
        return sum(
            self.store.change_size(table, at, self.pinned.version)
            for table, at in self.since(node).items()
            if table in self.pinned.sources and self.can_read(table, at)
        )

    def changed_tables(self, node: StreamTable, program: Program) -> frozenset[str]:
        """The inputs, and the node's own parts worked out so far, that differ from what the node last read."""
        moved = (part for part in node.parts if part.table in self.moved and not self.moved[part.table].is_empty)
        return frozenset(
            [table for table in program.tables if self.has_changed(node, table)]
            + [PART_PREFIX + part.name for part in moved]
        )

    def read_changes(self, nodes: Iterable[StreamTable], limit: int) -> None:
        """Read the changes of all sources by one job, once for all nodes: by source and version range."""
        wanted = {
            (table, at)
            for node in nodes
            for table, at in self.since(node).items()
            if table in self.pinned.sources and self.has_changed(node, table) and self.can_read(table, at)
        }
        small = [
            (table, at)
            for table, at in sorted(wanted)
            if self.store.change_size(table, at, self.pinned.version) <= limit
        ]
        frames = [self.store.changes(table, at, self.pinned.version) for table, at in small]
        self.changes.update(zip(small, kept_together(frames), strict=True))

    def _stored_id(self, table: str) -> str:
        return self.pinned.part(self.pinned.nodes[table].shown.table).id

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

    def _key(self, node: StreamTable, table: str) -> str:
        return f"{node.id}/{table}" if table.startswith(PART_PREFIX) else table

    def _end(self, node: StreamTable, table: str) -> str:
        """The moment after the tick: the pin, marked where the table itself moves."""
        part = self._shown_part(node, table)
        moves = part is not None and part.table in self.moved
        return f"{self.pinned.version}+tick" if moves else f"{self.pinned.version}"

    def _shown_part(self, node: StreamTable, table: str) -> StoredPart | None:
        if table.startswith(PART_PREFIX):
            return _part(node, table.removeprefix(PART_PREFIX))
        return self.pinned.nodes[table].shown if table in self.pinned.nodes else None

    def _before(self, node: StreamTable, table: str, start: Version) -> DataFrame:
        if table.startswith(PART_PREFIX):
            part = _part(node, table.removeprefix(PART_PREFIX))
            return shown(self.stored_rows(part).drop(ROWID), part)
        if table in self.pinned.nodes:
            return self.node_rows(self.pinned.nodes[table], start)
        return self.store.read(table, start)

    def rows_after(self, node: StreamTable, table: str) -> DataFrame:
        """What a table's readers will see once this tick is committed."""
        part = self._shown_part(node, table)
        if part is None:
            return self.store.read(table, self.pinned.version)
        if part.table not in self.moved:
            return shown(self.stored_rows(part).drop(ROWID), part)
        moved = self.moved[part.table]
        is_new = part.table not in self.pinned.part_names
        return shown(moved.new_rows() if is_new else moved.after(self.stored_rows(part)), part)

    def _change(self, node: StreamTable, table: str, start: Version) -> DataFrame:
        part = self._shown_part(node, table)
        if part is None:
            known = self.changes.get((table, start))
            return self.store.changes(table, start, self.pinned.version) if known is None else known
        if table in self.replaced:
            return difference(self.rows_after(node, table), self.node_rows(self.replaced[table], start))
        in_tick = [shown(self.moved[part.table].change(), part)] if part.table in self.moved else []
        earlier = [] if table.startswith(PART_PREFIX) else self._change_before_the_tick(self.pinned.nodes[table], start)
        return zset_sum([*earlier, *in_tick])

    def _change_before_the_tick(self, upstream: StreamTable, start: Version) -> list[DataFrame]:
        """What moved the table in earlier ticks, since the reader last looked."""
        table = self.pinned.part(upstream.shown.table).id
        if self._definition_at(upstream, start).shown.table != upstream.shown.table:
            new = shown(self.stored_rows(upstream.shown).drop(ROWID), upstream.shown)
            return [difference(new, self.node_rows(upstream, start))]
        if self.store.version_of(table, self.pinned.version) <= start:
            return []
        return [shown(self.store.changes(table, start, self.pinned.version), upstream.shown)]

    def node_rows(self, node: StreamTable, at: Version) -> DataFrame:
        """What readers of a stream table saw at a snapshot."""
        part = self._definition_at(node, at).shown
        tables = self.store.tables(at).values()
        stored = next(each for each in tables if each.name == part.table)
        return shown(self.store.read(stored.id, at), part)

    def _definition_at(self, node: StreamTable, at: Version) -> StreamTable:
        if at == self.pinned.version:
            return node
        return StreamTable.from_json(self.store.documents(NODE + node.id, at)[NODE + node.id])


def _part(node: StreamTable, name: str) -> StoredPart:
    return next(each for each in node.parts if each.name == name)
