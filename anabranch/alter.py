"""Altering a stream table: one commit, after which readers see the new rows, and what reads it has the difference.

Until that commit everybody sees the old rows: the new definition is filled into stored tables of its own, beside them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from anabranch.clock import zone_documents, zone_requirements
from anabranch.define import defined_by, view_of
from anabranch.definitions import CONDITION, NODE, RefreshMode, StreamTable
from anabranch.engine import Engine
from anabranch.errors import StateError
from anabranch.immediate import check_definition, list_of, unchanged_sources
from anabranch.manage import announcements, check_mode, read_mode
from anabranch.observe.report import Report
from anabranch.pinned import Pinned
from anabranch.refresh import Tick, planned_again
from anabranch.schedule.decide import decide
from anabranch.schedule.plan import plan_alter
from anabranch.schedule.schedules import parse_schedule
from anabranch.settings import check
from anabranch.situation import graph_state, node_state, pin_of
from anabranch.store.protocol import MAIN, Commit, DocumentIs, DropTable, DropView, Requirement, TableName
from anabranch.store.types import check_columns

UNCHANGED: Final = object()
"""Stands for "leave it as it is" where None means something."""


@dataclass(frozen=True)
class Alteration:
    """What a user asks to change; what is None, or UNCHANGED, stays."""

    query: str | None = None
    schedule: Any = UNCHANGED
    refresh_mode: str | None = None
    diamond_consistency: str | None = None
    diamond_schedule_policy: str | None = None

    def check(self) -> None:
        if self.schedule is not UNCHANGED:
            parse_schedule(self.schedule)
        if self.refresh_mode is not None:
            read_mode(self.refresh_mode)
        for setting in ("diamond_consistency", "diamond_schedule_policy"):
            if getattr(self, setting) is not None:
                check(setting, getattr(self, setting))

    def of(self, node: StreamTable) -> StreamTable:
        """The definition with everything but the query changed."""
        mode = node.refresh_mode if self.refresh_mode is None else read_mode(self.refresh_mode)
        schedule = node.schedule if self.schedule is UNCHANGED else self.schedule
        return replace(
            node,
            schedule=None if mode is RefreshMode.IMMEDIATE and self.schedule is UNCHANGED else schedule,
            refresh_mode=mode,
            diamond_consistency=self.diamond_consistency or node.diamond_consistency,
            diamond_schedule_policy=self.diamond_schedule_policy or node.diamond_schedule_policy,
        )


def alter(engine: Engine, name: str, alteration: Alteration) -> Report:
    """Change a stream table; a new query is filled in, and descendants get the difference, in one commit."""
    alteration.check()
    return planned_again(engine, lambda now: _alter(engine, name, alteration, now))


def _alter(engine: Engine, name: str, alteration: Alteration, now: datetime) -> Report:
    pinned = engine.pin()
    old = pinned.node(name)
    new = alteration.of(old)
    if alteration.query is not None:
        return _redefine(engine, pinned, old, new, alteration.query, now)
    check_mode(new.name, new.refresh_mode, engine.program(old, pinned))
    check_definition(pinned.with_definition(new), new)
    if new.refresh_mode is RefreshMode.IMMEDIATE and old.refresh_mode is not RefreshMode.IMMEDIATE:
        return _become_immediate(engine, pinned, new, now)
    documents = {NODE + old.id: new.to_json(), **list_of(pinned.with_definition(new).nodes.values())}
    relied_on = (DocumentIs(NODE + old.id, pinned.documents[NODE + old.id]),)
    version = engine.store.commit(Commit((), relied_on, documents, message=f"alter {old.name}"))
    return Report(version.number, 0.0, 0)


def _redefine(engine: Engine, pinned: Pinned, old: StreamTable, new: StreamTable, query: str, now: datetime) -> Report:
    """Fill the new definition beside the old rows, and hand the difference to all that read it."""
    pin = pin_of(engine, pinned, now)
    program = engine.compile(query, pinned, clock=pin.clock)
    check_mode(old.name, new.refresh_mode, program)
    check_columns(program.columns)
    new = defined_by(engine, pinned, replace(new, query=query, generation=old.generation + 1), program)
    planned = pinned.with_definition(new)
    altered = node_state(engine, planned, new)
    decided = plan_alter(graph_state(engine, pinned), altered, pin, now)
    check_definition(planned, new)
    return Tick(
        engine,
        planned,
        graph_state(engine, pinned).with_nodes(altered),
        decided,
        now,
        defined=(new,),
        replaced={old.id: old},
        actions=(
            DropView(TableName(MAIN, old.name)),
            view_of(new),
            *(DropTable(pinned.part(part.table).id) for part in old.parts),
        ),
        documents={**list_of(planned.nodes.values()), **zone_documents(pinned, new)},
        requirements=(*_requirements(pinned, planned, new), *zone_requirements(pinned, new)),
        existing=dict(pinned.documents),
        notices=(*program.notes, *announcements(planned, new)),
    ).perform()


def _become_immediate(engine: Engine, pinned: Pinned, new: StreamTable, now: datetime) -> Report:
    """From this commit on every write takes the node along, so it is brought up to date in it."""
    if pinned.conditions[new.id].paused:
        raise StateError(
            "IMMEDIATE_CANNOT_PAUSE",
            f'stream table "{new.name}" is paused and cannot become IMMEDIATE',
            "an IMMEDIATE stream table is refreshed in the commit of each write",
            "resume it first",
        )
    planned = pinned.with_definition(new)
    state = graph_state(engine, planned)
    decided = decide(state, pin_of(engine, pinned, now), now, frozenset({new.id}))
    return Tick(
        engine,
        planned,
        state,
        decided,
        now,
        defined=(new,),
        documents=list_of(planned.nodes.values()),
        requirements=_requirements(pinned, planned, new),
        existing=dict(pinned.documents),
    ).perform()


def _requirements(pinned: Pinned, planned: Pinned, new: StreamTable) -> tuple[Requirement, ...]:
    """Nobody has altered or paused it meanwhile, nor written past a node that becomes IMMEDIATE."""
    held = DocumentIs(CONDITION + new.id, pinned.documents.get(CONDITION + new.id))
    is_immediate = new.refresh_mode is RefreshMode.IMMEDIATE
    return (held, *(unchanged_sources(planned, [new]) if is_immediate else ()))
