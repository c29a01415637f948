"""Stream tables whose sources are not the ones they were defined on, defined anew by the same query.

A source that was dropped and created again is another source (SOURCE_REPLACED); a column that was dropped and added
again, or has another type now, is another column, and `*` may mean other columns (SOURCE_SCHEMA_CHANGED). The change
feed of the old one says nothing about the new one. So the query is compiled again, filled beside the old rows, and
whoever reads the stream table gets the difference, as after ALTER.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from anabranch.define import defined_by, view_of
from anabranch.definitions import StreamTable
from anabranch.engine import Engine
from anabranch.errors import AnabranchError
from anabranch.pinned import Pinned
from anabranch.schedule.decide import Action, Decision, decide
from anabranch.schedule.state import GraphState, Pin
from anabranch.situation import graph_state, pin_of
from anabranch.store.protocol import MAIN, DropTable, DropView, TableName
from anabranch.store.protocol import Action as StoreAction

Requested = Callable[[Pinned], "frozenset[str] | None"]


@dataclass(frozen=True)
class TickPlan:
    """What a tick is to do. `pinned` knows the new definitions already; `replaced` are the ones they replace."""

    pinned: Pinned
    state: GraphState
    decided: tuple[Decision, ...]
    replaced: Mapping[str, StreamTable] = field(default_factory=dict)


def node_replaced(pinned: Pinned, old: StreamTable) -> Iterator[StoreAction]:
    """What puts the new stored tables of a node, once they are filled, in the place of its old ones."""
    yield DropView(TableName(MAIN, old.name))
    yield view_of(pinned.nodes[old.id])
    for part in old.parts:
        yield DropTable(pinned.part(part.table).id)


def plan_tick(engine: Engine, pinned: Pinned, requested: Requested, now: datetime) -> TickPlan:
    """Decide, define anew what moves and has lost its sources, and decide again, until nothing is left to define."""
    pin, asked = pin_of(engine, pinned, now), requested(pinned)
    back = {node.id for node in pinned.nodes.values() if _lost(pinned, node) and not _gone(pinned, node)}
    wanted, refused = set(back), set[str]()
    while True:
        plan = _plan(engine, pinned, wanted - refused, asked, pin, now)
        moving = {each.node for each in plan.decided if each.action is Action.MOVE}
        stale = {node for node in moving - wanted if _is_stale(engine, plan.pinned, plan.pinned.nodes[node])}
        idle = plan.replaced.keys() - moving
        if not stale and not idle:
            return plan
        wanted |= stale
        refused |= idle


def _plan(
    engine: Engine, pinned: Pinned, rebuilt: set[str], asked: frozenset[str] | None, pin: Pin, now: datetime
) -> TickPlan:
    planned = pinned
    for node in (each for each in pinned.graph.order if each in rebuilt):
        planned = planned.with_definition(_defined_anew(engine, planned, pinned.nodes[node], pin))
    state = graph_state(engine, planned)
    decided = decide(state, pin, now, asked)
    return TickPlan(planned, state, decided, {node: pinned.nodes[node] for node in rebuilt})


def _defined_anew(engine: Engine, pinned: Pinned, old: StreamTable, pin: Pin) -> StreamTable:
    """The next generation. Where the query cannot be compiled any more, the refresh will fail and say why."""
    new = replace(old, generation=old.generation + 1)
    try:
        engine.under(old.session)
        program = engine.compile(old.query, pinned, old.views, pin.clock)
    except AnabranchError:
        found = {table: pinned.find(old.input_names[table]) or table for table in _lost(pinned, old)}
        return replace(
            new,
            inputs=tuple(sorted(found.get(table, table) for table in old.inputs)),
            input_names={found.get(table, table): name for table, name in old.input_names.items()},
            fields_read={found.get(table, table): fields for table, fields in old.fields_read.items()},
        )
    return replace(defined_by(engine, pinned, new, program), session=old.session)


def _lost(pinned: Pinned, node: StreamTable) -> list[str]:
    """Inputs that are not there any more."""
    return [table for table in node.inputs if table not in pinned.nodes and table not in pinned.sources]


def _gone(pinned: Pinned, node: StreamTable) -> bool:
    """Whether there is nothing under the name of a lost input either."""
    return any(pinned.find(node.input_names.get(table, table)) is None for table in _lost(pinned, node))


def _is_stale(engine: Engine, pinned: Pinned, node: StreamTable) -> bool:
    """Whether the columns it reads are others now, or the query is laid out otherwise over the columns of now."""
    if node.id not in pinned.frontiers:
        return False
    if any(pinned.fields(table, read) != dict(read) for table, read in node.fields_read.items()):
        return True
    try:
        program = engine.program(node, pinned)
    except AnabranchError:
        return False
    return [(part.name, part.columns) for part in program.parts] != [(part.name, part.columns) for part in node.parts]
