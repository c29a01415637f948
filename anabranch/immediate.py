"""IMMEDIATE: the refresh is part of the write.

    commit(write) = the written rows + the change of every IMMEDIATE node above them: one snapshot, or nothing

The rows of a written source before the write are in the lake; after it they are what the transaction shows; the change
is what the transaction did. What a write by an outside client left behind is caught up along the way.

Two writers on two sides of a join, each seeing the other side as it was, would both miss the pairs of their rows. So
the commit requires that no source below a moved node changed since the transaction began; the second one is done again.
A document lists the IMMEDIATE nodes, and every write requires it unchanged: a write that began before a node was
created does not slip past it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from anabranch.definitions import CONDITION, FRONTIER, NODE, Condition, RefreshMode, StreamTable
from anabranch.engine import Engine
from anabranch.errors import ConflictError, QueryError, RefreshError, SettingError, StateError
from anabranch.graph.frontier import THIS_COMMIT, Frontier, merge, to_json
from anabranch.inputs import TickInputs
from anabranch.node_work import NodeWork
from anabranch.observe.record import TickCost, history_row, readable
from anabranch.observe.report import NodeReport
from anabranch.pinned import Pinned, pin
from anabranch.spark.moved import zset_sum
from anabranch.spark.rows import Rows
from anabranch.store.protocol import Document, DocumentIs, Requirement, TableUnchanged, Version
from anabranch.work import TickWork

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from anabranch.store.transaction import Transaction

IMMEDIATE_NODES = "immediate"


@dataclass
class WriteInputs(TickInputs):
    """The tables of a write: a source that it writes to ends where the transaction has brought it."""

    transaction: Transaction = None  # type: ignore[assignment]

    def has_changed(self, node: StreamTable, table: str) -> bool:
        return table in self.transaction.written or super().has_changed(node, table)

    def rows_after(self, node: StreamTable, table: str) -> DataFrame:
        return self.transaction.read(table) if table in self.transaction.written else super().rows_after(node, table)

    def _after(self, node: StreamTable, table: str) -> Rows:
        return self.transaction.read(table) if table in self.transaction.written else super()._after(node, table)

    def change_rows(self, node: StreamTable) -> int:
        written = (table for table in node.inputs if table in self.transaction.written)
        return super().change_rows(node) + sum(self.transaction.change_size(table) for table in written)

    def read_ahead(self, nodes: Sequence[StreamTable], limit: int) -> None:
        """Nothing: a write is small and mostly in memory, its changes are read where they are used."""

    def _change(self, node: StreamTable, table: str, start: Version) -> Rows:
        if table not in self.transaction.written:
            return super()._change(node, table, start)
        change = self.transaction.change(table)
        if self.store.version_of(table, self.pinned.version) <= start:
            return change
        return zset_sum([self.store.changes(table, start, self.pinned.version), change])

    def _end(self, node: StreamTable, table: str) -> str:
        return f"{self.pinned.version}+write" if table in self.transaction.written else super()._end(node, table)


def commit(engine: Engine, transaction: Transaction) -> Version:
    """Commit a transaction together with the IMMEDIATE nodes above what it writes."""
    pinned = pin(engine.store, transaction.pinned)
    listed = DocumentIs(IMMEDIATE_NODES, pinned.documents.get(IMMEDIATE_NODES))
    moving = _moving(engine, pinned, transaction.written)
    if not moving:
        return transaction.commit((listed,))
    requirements = (listed, *_requirements(pinned, moving))
    with engine.lock, engine.restoring():
        _check_at_once(engine, requirements)
        return _commit_with(engine, pinned, transaction, moving, requirements)


def writing(engine: Engine) -> AbstractContextManager[object]:
    """Writers of one process take turns where IMMEDIATE nodes would make them wait for each other anyway."""
    return engine.writing if engine.store.documents(IMMEDIATE_NODES) else nullcontext()


def check_definition(pinned: Pinned, node: StreamTable) -> None:
    """What an IMMEDIATE node may be: without schedule, on sources and IMMEDIATE nodes, read by whom it likes."""
    if node.refresh_mode is not RefreshMode.IMMEDIATE:
        readers = [pinned.nodes[each] for each in pinned.graph.readers.get(node.id, ())]
        waiting = [each.name for each in readers if each.refresh_mode is RefreshMode.IMMEDIATE]
        if waiting:
            raise StateError(
                "IMMEDIATE_READS_IT",
                f'stream table "{node.name}" has to stay IMMEDIATE',
                f"these IMMEDIATE stream tables read it: {', '.join(waiting)}",
                "alter their refresh mode first",
            )
        return
    if node.schedule is not None:
        raise SettingError(
            "IMMEDIATE_HAS_NO_SCHEDULE",
            f'stream table "{node.name}" is IMMEDIATE and has no schedule',
            "it is refreshed in the commit of each write",
            "leave the schedule out, or choose another refresh mode",
        )
    if node.clock is not None:
        raise QueryError(
            "IMMEDIATE_READS_CLOCK",
            f'IMMEDIATE stream table "{node.name}" reads the clock, which moves on without any write',
            "an IMMEDIATE stream table is refreshed by writes alone",
            "leave the time functions out, or choose another refresh mode",
        )
    later = [pinned.name_of(each) for each in node.inputs if _is_refreshed_later(pinned, each)]
    if later:
        raise QueryError(
            "IMMEDIATE_READS_LATER",
            f'IMMEDIATE stream table "{node.name}" reads {", ".join(later)}, refreshed later than its sources',
            "an IMMEDIATE stream table reads sources and IMMEDIATE stream tables",
            "make them IMMEDIATE too, or choose another refresh mode",
        )


def list_of(nodes: Iterable[StreamTable]) -> dict[str, Document]:
    """The document that every write relies on: which IMMEDIATE nodes there are, in which definition."""
    listed = {each.id: each.generation for each in nodes if each.refresh_mode is RefreshMode.IMMEDIATE}
    return {IMMEDIATE_NODES: json.dumps(listed, sort_keys=True) if listed else None}


def unchanged_sources(pinned: Pinned, nodes: Iterable[StreamTable]) -> tuple[Requirement, ...]:
    """That nobody wrote to the sources below these nodes since the pin."""
    graph = pinned.graph
    sources = {source for each in nodes for source in graph.sources_below(each.id)}
    return tuple(TableUnchanged(source, pinned.version) for source in sorted(sources))


def _is_refreshed_later(pinned: Pinned, table: str) -> bool:
    return table in pinned.nodes and pinned.nodes[table].refresh_mode is not RefreshMode.IMMEDIATE


def _moving(engine: Engine, pinned: Pinned, written: frozenset[str]) -> list[StreamTable]:
    """IMMEDIATE nodes above the written tables, and those that share sources with them and have fallen behind."""
    immediate = {node.id for node in pinned.nodes.values() if node.refresh_mode is RefreshMode.IMMEDIATE}
    if not immediate or not written:
        return []
    graph = pinned.graph
    found = {node for node in immediate if graph.sources_below(node) & written}
    if not found:
        return []
    related, sources = set(found), frozenset[str]()
    while sources != (sources := frozenset().union(*(graph.sources_below(node) for node in related))):
        related |= {node for node in immediate if graph.sources_below(node) & sources}
    found |= {node for node in related if _is_behind(engine, pinned, node)}
    return [pinned.nodes[node] for node in graph.order if node in found]


def _is_behind(engine: Engine, pinned: Pinned, node: str) -> bool:
    reflected = pinned.frontiers[node].sources
    return any(
        reflected.get(source) != engine.store.version_of(source, pinned.version)
        for source in pinned.graph.sources_below(node)
    )


def _requirements(pinned: Pinned, moving: list[StreamTable]) -> Iterator[Requirement]:
    yield from unchanged_sources(pinned, moving)
    relied_on = {each.id for each in moving} | {table for each in moving for table in each.inputs}
    for node in sorted(relied_on & pinned.nodes.keys()):
        yield DocumentIs(NODE + node, pinned.documents.get(NODE + node))
        yield DocumentIs(FRONTIER + node, pinned.documents.get(FRONTIER + node))


def _check_at_once(engine: Engine, requirements: Iterable[Requirement]) -> None:
    """Before the work, not only in the commit: who has lost already need not begin."""
    documents = engine.store.documents()
    for each in requirements:
        if isinstance(each, DocumentIs) and documents.get(each.key) != each.value:
            raise ConflictError("REQUIREMENT_FAILED", f"document {each.key!r} has changed", hint="Try again.")


def _commit_with(
    engine: Engine,
    pinned: Pinned,
    transaction: Transaction,
    moving: list[StreamTable],
    requirements: tuple[Requirement, ...],
) -> Version:
    _check_columns_stay(pinned, transaction, moving)
    now = datetime.now(UTC)
    inputs = WriteInputs(engine.store, pinned, transaction=transaction)
    tick_work = TickWork(engine, inputs, moving)
    works = tick_work.run()
    for work in works.values():
        if work.error is not None:
            raise _not_written(work)
    documents: dict[str, Document] = {}
    targets = _targets(engine, pinned, transaction.written, moving)
    for node, target in targets.items():
        documents[FRONTIER + node] = lambda at, target=target: to_json(target.settled_at(at))  # type: ignore[misc]
        condition = pinned.conditions[node].succeeded(now.timestamp())
        documents[CONDITION + node] = lambda at, condition=condition: _moved_in(condition, at)  # type: ignore[misc]
    tick = TickCost(uuid.uuid4().hex, now, seconds=tick_work.seconds)
    history = tuple(
        history_row(tick, work.node, _report(engine, pinned, work), readable(targets[node], pinned.name_of))
        for node, work in works.items()
    )
    actions = tuple(action for work in works.values() for action in work.actions)
    return transaction.commit(requirements, documents, history, f"write with tick {tick.id}", actions)


def _targets(engine: Engine, pinned: Pinned, written: frozenset[str], moving: list[StreamTable]) -> dict[str, Frontier]:
    """Where each node arrives: at this commit for what is written or moves in it, at the pin for the rest."""
    targets: dict[str, Frontier] = {}
    for node in moving:
        handed_over: list[Frontier] = []
        for table in node.inputs:
            if table in pinned.nodes:
                reflected = targets.get(table, pinned.frontiers[table])
                handed_over.append(reflected.seen_by_readers(table, pinned.nodes[table].generation))
            else:
                at = THIS_COMMIT if table in written else engine.store.version_of(table, pinned.version)
                handed_over.append(Frontier({table: at}))
        moved = written | targets.keys()
        read = {table: THIS_COMMIT if table in moved else pinned.version for table in node.inputs}
        targets[node.id] = merge(handed_over, read)
    return targets


def _check_columns_stay(pinned: Pinned, transaction: Transaction, moving: list[StreamTable]) -> None:
    for node in moving:
        altered = pinned.graph.sources_below(node.id) & transaction.altered & transaction.written
        if altered:
            raise StateError(
                "ALTERED_AND_WRITTEN",
                f"table {pinned.name_of(min(altered))!r} is altered and written in one transaction",
                f'the IMMEDIATE stream table "{node.name}" reads it and is refreshed in the same commit',
                "alter the table in a transaction of its own",
            )


def _not_written(work: NodeWork) -> RefreshError:
    error = work.error
    assert error is not None
    return RefreshError(
        error.code,
        f'the write was not committed, because IMMEDIATE stream table "{work.node.name}" could not follow it',
        f"{error.message}\n{error.detail}".strip(),
        error.hint,
    )


def _report(engine: Engine, pinned: Pinned, work: NodeWork) -> NodeReport:
    reason = work.choice.reason
    if reason == "CHANGED":
        reason = "FOREIGN_WRITE" if _is_behind(engine, pinned, work.node.id) else "IMMEDIATE"
    return NodeReport(
        work.node.name,
        work.choice.action,
        reason,
        work.not_fused is None,
        work.rows_inserted,
        work.rows_deleted,
        work.seconds,
    )


def _moved_in(condition: Condition, at: Version) -> str:
    return replace(condition, moved_in=at.number).to_json()
