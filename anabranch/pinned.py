"""The lake at one snapshot: which names mean what, which stream tables there are, how far each one is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from anabranch.algebra.relation import Column
from anabranch.definitions import CONDITION, FRONTIER, NODE, VIEW, Condition, StreamTable
from anabranch.errors import NotFoundError, StateError
from anabranch.graph.dag import Graph
from anabranch.graph.frontier import Frontier, from_json
from anabranch.store.protocol import MAIN, STATE, Store, TableInfo, Version

TIME_ZONE = "time_zone"


@dataclass(frozen=True)
class Pinned:
    """Everything a decision may look at. Nothing newer is looked at while it is in use."""

    version: Version
    tables: Mapping[str, TableInfo]
    documents: Mapping[str, str]

    @cached_property
    def nodes(self) -> dict[str, StreamTable]:
        """Stream tables by id."""
        found = (StreamTable.from_json(text) for key, text in self.documents.items() if key.startswith(NODE))
        return {each.id: each for each in sorted(found, key=lambda node: node.name)}

    @cached_property
    def frontiers(self) -> dict[str, Frontier]:
        """How far each stream table is; one that is just being created has none."""
        texts = {node: self.documents.get(FRONTIER + node) for node in self.nodes}
        return {node: from_json(text) for node, text in texts.items() if text is not None}

    @cached_property
    def conditions(self) -> dict[str, Condition]:
        return {node: Condition.from_json(self.documents.get(CONDITION + node)) for node in self.nodes}

    @cached_property
    def views(self) -> dict[str, tuple[str, str]]:
        """A user's views: name in lower case -> (name as given, query)."""
        named = {key.removeprefix(VIEW): text for key, text in self.documents.items() if key.startswith(VIEW)}
        return {name.lower(): (name, text) for name, text in named.items()}

    @property
    def view_texts(self) -> dict[str, str]:
        """A user's views: name in lower case -> query."""
        return {name: text for name, (_, text) in self.views.items()}

    @property
    def time_zone(self) -> str | None:
        """The time zone in which the lake's days begin; None while no stream table reads the clock."""
        return self.documents.get(TIME_ZONE)

    @cached_property
    def sources(self) -> dict[str, TableInfo]:
        """Tables that people and programs write to, by id."""
        return {each.id: each for each in self.tables.values() if each.schema == MAIN}

    @cached_property
    def graph(self) -> Graph:
        names = {each: self.name_of(each) for each in (*self.sources, *self.nodes)}
        return Graph({node.id: node.inputs for node in self.nodes.values()}, names)

    @cached_property
    def _ids(self) -> dict[str, str]:
        named = {each.name.lower(): each.id for each in self.sources.values()}
        return named | {node.name.lower(): node.id for node in self.nodes.values()}

    @cached_property
    def _parts(self) -> dict[str, TableInfo]:
        return {each.name: each for each in self.tables.values() if each.schema == STATE}

    def find(self, name: str) -> str | None:
        """The id of a source or stream table, whatever the case of the name."""
        return self._ids.get(_bare(name))

    def id_of(self, name: str) -> str:
        """The id of a source or stream table, or an error that lists what there is."""
        found = self.find(name)
        if found is None:
            raise NotFoundError(
                "TABLE_NOT_FOUND",
                f"there is no table {name!r}",
                f"existing tables: {', '.join(self.table_names) or 'none'}",
                "check the name, or create the table first",
            )
        return found

    def node(self, name: str) -> StreamTable:
        """A stream table by name."""
        found = self.find(name)
        if found is None or found not in self.nodes:
            existing = ", ".join(each.name for each in self.nodes.values())
            what = "is a source, not a stream table" if found else "does not exist"
            raise NotFoundError(
                "STREAM_TABLE_NOT_FOUND",
                f"stream table {name!r} {what}",
                f"existing stream tables: {existing or 'none'}",
                "lake.status() lists them",
            )
        return self.nodes[found]

    def source(self, name: str) -> TableInfo:
        """A source by name; a stream table is not one."""
        found = self.id_of(name)
        if found in self.nodes:
            raise StateError(
                "WRITE_TO_STREAM_TABLE",
                f"{name!r} is a stream table and cannot be written to",
                f"it is defined by: {self.nodes[found].query}",
                "write to its sources and refresh, or change its query with alter_stream_table",
            )
        return self.sources[found]

    def name_of(self, table: str) -> str:
        """The name of a source or stream table by id."""
        if table in self.nodes:
            return self.nodes[table].name
        return self.sources[table].name if table in self.sources else table

    def columns(self, table: str) -> tuple[Column, ...]:
        """The visible columns of a source or stream table."""
        return self.nodes[table].columns if table in self.nodes else self.sources[table].columns

    def fields(self, table: str, names: Iterable[str]) -> dict[str, int | None]:
        """The field ids of a source's columns, None where there is no column of that name."""
        info = self.sources[table]
        known = {each.name.lower(): field for each, field in zip(info.columns, info.field_ids, strict=True)}
        return {name: known.get(name.lower()) for name in names}

    def part(self, stored_name: str) -> TableInfo:
        """The stored table of a part."""
        return self._parts[stored_name]

    def with_definition(self, node: StreamTable) -> Pinned:
        """The same lake with one stream table defined, anew or otherwise."""
        return replace(self, documents={**self.documents, NODE + node.id: node.to_json()})

    @property
    def part_names(self) -> Collection[str]:
        """The stored tables that are in the lake."""
        return self._parts.keys()

    @property
    def table_names(self) -> Sequence[str]:
        return sorted([each.name for each in self.sources.values()] + [node.name for node in self.nodes.values()])


def pin(store: Store, at: Version | None = None) -> Pinned:
    """Fix one snapshot and read all that the lake knows at it."""
    version = at or store.head()
    return Pinned(version, store.tables(version), store.documents(at=version))


def _bare(name: str) -> str:
    """`main.sales` and `sales` are the same table."""
    return name.lower().removeprefix(f"{MAIN}.")
