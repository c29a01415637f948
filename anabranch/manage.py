"""Creating, dropping, pausing stream tables. Each is one commit, in which all that has to move along does."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from anabranch.algebra.relation import RESERVED_PREFIX
from anabranch.clock import zone_documents, zone_requirements
from anabranch.compile import Program
from anabranch.define import defined_by, view_of
from anabranch.definitions import CONDITION, FRONTIER, NODE, RefreshMode, StreamTable
from anabranch.engine import Engine
from anabranch.errors import QueryError, SettingError, StateError
from anabranch.graph.diamonds import announcement, find_group
from anabranch.immediate import check_definition, list_of, unchanged_sources
from anabranch.observe.report import Report
from anabranch.pinned import Pinned
from anabranch.refresh import Tick, planned_again
from anabranch.schedule.plan import plan_creation
from anabranch.schedule.schedules import parse_schedule
from anabranch.settings import check
from anabranch.situation import graph_state, node_state, pin_of
from anabranch.store.protocol import (
    MAIN,
    Commit,
    Document,
    DocumentIs,
    DropTable,
    DropView,
    TableName,
    Version,
)
from anabranch.store.protocol import Action as StoreAction
from anabranch.store.types import check_columns


@dataclass(frozen=True)
class Request:
    """What a user asks for when creating a stream table."""

    name: str
    query: str
    schedule: str | None = None
    refresh_mode: str = "AUTO"
    diamond_consistency: str | None = None
    diamond_schedule_policy: str | None = None


def create(engine: Engine, request: Request) -> Report:
    """Create and fill a stream table, its inputs brought to agreement, in one commit."""
    _check_request(request)
    return planned_again(engine, lambda now: _create(engine, request, now))


def drop(engine: Engine, name: str, cascade: bool) -> None:
    """Drop a stream table, with `cascade` those that read it too."""
    planned_again(engine, lambda _: _drop(engine, name, cascade))


def hold(engine: Engine, names: Sequence[str], paused: bool) -> None:
    """Pause or resume stream tables; resuming ends a suspension and a back-off."""

    def change(_: datetime) -> Version:
        pinned = engine.pin()
        documents: dict[str, Document] = {}
        for name in names:
            node = pinned.node(name)
            if paused and node.refresh_mode is RefreshMode.IMMEDIATE:
                raise StateError(
                    "IMMEDIATE_CANNOT_PAUSE",
                    f'stream table "{node.name}" is IMMEDIATE and cannot be paused',
                    "it is refreshed in the commit of each write",
                    "alter its refresh mode first",
                )
            condition = replace(pinned.conditions[node.id], paused=paused)
            if not paused:
                condition = replace(condition, suspended=False, consecutive_errors=0, retry_at=None)
            documents[CONDITION + node.id] = condition.to_json()
        if not names:
            documents[SCHEDULER] = "paused" if paused else None
        return engine.store.commit(Commit(documents=documents, message="pause" if paused else "resume"))

    planned_again(engine, change)


SCHEDULER = "scheduler"


def _create(engine: Engine, request: Request, now: datetime) -> Report:
    pinned = engine.pin()
    check_name(pinned, request.name)
    pin = pin_of(engine, pinned, now)
    program = engine.compile(request.query, pinned, clock=pin.clock)
    check_mode(request.name, read_mode(request.refresh_mode), program)
    check_columns(program.columns)
    node = new_definition(engine, pinned, request, program, now)
    planned = pinned.with_definition(node)
    check_definition(planned, node)
    created = node_state(engine, planned, node)
    state = graph_state(engine, pinned)
    decided = plan_creation(state, created, pin, now)
    is_immediate = node.refresh_mode is RefreshMode.IMMEDIATE
    tick = Tick(
        engine,
        planned,
        state.with_nodes(created),
        decided,
        now,
        defined=(node,),
        actions=(view_of(node),),
        documents={**list_of(planned.nodes.values()), **zone_documents(pinned, node)},
        requirements=(
            *zone_requirements(pinned, node),
            *(unchanged_sources(planned, [node]) if is_immediate else ()),
        ),
        existing=dict(pinned.documents),
        notices=(*program.notes, *announcements(planned, node)),
    )
    return tick.perform()


def _drop(engine: Engine, name: str, cascade: bool) -> None:
    pinned = engine.pin()
    node = pinned.node(name)
    readers = [pinned.nodes[each] for each in pinned.graph.order if each in pinned.graph.descendants(node.id)]
    if readers and not cascade:
        raise StateError(
            "TABLE_IS_READ",
            f'stream table "{node.name}" is read by others',
            f"these read it: {', '.join(each.name for each in readers)}",
            "drop them first, or pass cascade=True (SQL: CASCADE)",
        )
    dropped = [node, *readers]
    actions: list[StoreAction] = [DropView(TableName(MAIN, each.name)) for each in dropped]
    actions += [DropTable(pinned.part(part.table).id) for each in dropped for part in each.parts]
    documents = documents_without(dropped)
    documents |= list_of(each for each in pinned.nodes.values() if each not in dropped)
    requirements = tuple(DocumentIs(NODE + each.id, pinned.documents[NODE + each.id]) for each in dropped)
    engine.store.commit(Commit(tuple(actions), requirements, documents, message=f"drop {node.name}"))


def documents_without(dropped: Iterable[StreamTable]) -> dict[str, Document]:
    """What removes all that the lake knows of these stream tables."""
    return {prefix + each.id: None for each in dropped for prefix in (NODE, FRONTIER, CONDITION)}


def announcements(pinned: Pinned, node: StreamTable) -> tuple[str, ...]:
    """What the user is told about the diamond that a new definition closes."""
    group = find_group(pinned.graph, node.id)
    return () if group is None else (announcement(group, pinned.graph.names, node.diamond_consistency != "none"),)


def new_definition(engine: Engine, pinned: Pinned, request: Request, program: Program, now: datetime) -> StreamTable:
    """The definition of a stream table that is just being created."""
    bare = StreamTable(
        id=uuid.uuid4().hex,
        name=request.name,
        query=request.query,
        schedule=request.schedule,
        refresh_mode=read_mode(request.refresh_mode),
        generation=1,
        inputs=(),
        columns=(),
        parts=(),
        created_at=now.isoformat(),
        diamond_consistency=request.diamond_consistency,
        diamond_schedule_policy=request.diamond_schedule_policy,
    )
    return defined_by(engine, pinned, bare, program)


def _check_request(request: Request) -> None:
    read_mode(request.refresh_mode)
    parse_schedule(request.schedule)
    for setting in ("diamond_consistency", "diamond_schedule_policy"):
        if getattr(request, setting) is not None:
            check(setting, getattr(request, setting))


def check_name(pinned: Pinned, name: str) -> None:
    """Refuse a name that cannot be a stream table's, or is taken."""
    if not name or name.lower().startswith(RESERVED_PREFIX) or "." in name:
        raise SettingError(
            "BAD_TABLE_NAME",
            f"{name!r} cannot be a table's name",
            f"names are not empty, have no dot and do not start with {RESERVED_PREFIX}",
        )
    if pinned.find(name) is not None or name.lower() in pinned.views:
        raise StateError(
            "TABLE_EXISTS",
            f"there is a table {name!r} already",
            f"existing tables: {', '.join(pinned.table_names)}",
            "choose another name, drop it first, or use CREATE OR REPLACE STREAM TABLE",
        )


def check_mode(name: str, mode: RefreshMode, program: Program) -> None:
    """Refuse DIFFERENTIAL and IMMEDIATE for a query that can only run in full."""
    if mode in (RefreshMode.DIFFERENTIAL, RefreshMode.IMMEDIATE) and program.refusals:
        first = program.refusals[0]
        raise QueryError(
            "NOT_DIFFERENTIABLE",
            f'the query of "{name}" cannot be refreshed differentially: {first.construct}',
            first.reason,
            first.hint or "use refresh_mode AUTO or FULL",
        )


def read_mode(text: str) -> RefreshMode:
    """The refresh mode that a word means."""
    if text.upper() not in RefreshMode.__members__:
        raise SettingError(
            "BAD_REFRESH_MODE",
            f"{text!r} is not a refresh mode",
            f"refresh modes: {', '.join(RefreshMode)}",
        )
    return RefreshMode(text.upper())
