"""The stream tables of a plan as definitions: compiled on what the lake will be, inputs before readers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from anabranch.algebra.show import show
from anabranch.compile import Program
from anabranch.define import defined_by
from anabranch.definitions import VIEW, RefreshMode, StreamTable
from anabranch.engine import Engine
from anabranch.manage import Request, announcements, check_mode, check_name, documents_without, new_definition
from anabranch.pinned import Pinned
from anabranch.project.desired import Desired, WantedTable, normal
from anabranch.project.located import at
from anabranch.project.order import in_order
from anabranch.project.steps import Kind, Plan, Step, Verb
from anabranch.schedule.state import Pin
from anabranch.store.types import check_columns

CREATED, QUERY_CHANGED = "CREATED", "QUERY_CHANGED"


@dataclass
class Definitions:
    """What a plan makes of the stream tables of a lake.

    `planned` is the lake with all of it. `reasons` says why a node is filled; `kept` are those whose rows stay while
    the definition changes; `immediate` those that become IMMEDIATE; `programs` what queries were compiled to.
    """

    planned: Pinned
    dropped: list[StreamTable] = field(default_factory=list)
    replaced: dict[str, StreamTable] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    kept: list[StreamTable] = field(default_factory=list)
    immediate: list[StreamTable] = field(default_factory=list)
    programs: dict[str, Program] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)

    def add(self, node: StreamTable, program: Program | None = None) -> None:
        self.planned = self.planned.with_definition(node)
        if program is not None:
            self.programs[node.name] = program
            self.notices += [*program.notes, *announcements(self.planned, node)]

    @property
    def filled(self) -> list[StreamTable]:
        return [self.planned.nodes[node] for node in self.reasons]


def definitions(engine: Engine, pinned: Pinned, desired: Desired, plan: Plan, pin: Pin, now: datetime) -> Definitions:
    """Compile all that is new or changed; errors name file and line."""
    steps = {step.name.lower(): step for step in plan.steps if step.kind is Kind.TABLE}
    dropped = [pinned.node(step.name) for step in steps.values() if step.verb is Verb.DROP]
    made = Definitions(_without(pinned, desired, plan, dropped), dropped)
    for step in steps.values():
        if step.earlier is not None:
            made.add(replace(pinned.node(step.earlier), name=step.name))
    for wanted in in_order(desired):
        planned = steps.get(wanted.name.lower())
        with at(wanted.place, wanted.query):
            if planned is None or planned.verb is Verb.ADOPT:
                _follow(engine, pinned, made, wanted, pin)
            elif planned.verb is Verb.CREATE:
                _create(engine, made, wanted, pin, now)
            else:
                _alter(engine, pinned, made, wanted, planned, pin)
    return made


def _without(pinned: Pinned, desired: Desired, plan: Plan, dropped: list[StreamTable]) -> Pinned:
    """The lake with the project's views as they will be, and without what is dropped."""
    gone = {*documents_without(dropped), *view_documents(pinned, desired, plan)}
    kept = {key: text for key, text in pinned.documents.items() if key not in gone}
    views = {key: text for key, text in view_documents(pinned, desired, plan).items() if text is not None}
    return replace(pinned, documents={**kept, **views})


def view_documents(pinned: Pinned, desired: Desired, plan: Plan) -> dict[str, str | None]:
    """The documents of views that the plan changes; None for those that go."""
    documents: dict[str, str | None] = {}
    for step in plan.steps:
        if step.kind is not Kind.VIEW or step.verb is Verb.ADOPT:
            continue
        name = step.name.lower()
        shown = pinned.views[name][0] if name in pinned.views else step.name
        documents[VIEW + shown] = None if step.verb is Verb.DROP else desired.views[name].query
    return documents


def _create(engine: Engine, made: Definitions, wanted: WantedTable, pin: Pin, now: datetime) -> None:
    request = Request(
        wanted.name,
        wanted.query,
        wanted.schedule,
        wanted.refresh_mode,
        wanted.diamond_consistency,
        wanted.diamond_schedule_policy,
    )
    check_name(made.planned, wanted.name)
    program = _compiled(engine, made, wanted, pin)
    node = new_definition(engine, made.planned, request, program, now)
    made.reasons[node.id] = CREATED
    made.add(node, program)


def _alter(engine: Engine, pinned: Pinned, made: Definitions, wanted: WantedTable, step: Step, pin: Pin) -> None:
    old = pinned.node(step.earlier or wanted.name)
    new = replace(
        old,
        name=wanted.name,
        schedule=wanted.schedule,
        refresh_mode=RefreshMode(wanted.refresh_mode),
        diamond_consistency=wanted.diamond_consistency,
        diamond_schedule_policy=wanted.diamond_schedule_policy,
    )
    program = _compiled(engine, made, wanted, pin)
    new = replace(new, query=wanted.query)
    if _is_same(engine, pinned, old, program, wanted.query):
        names = {table: made.planned.name_of(table) for table in old.inputs}
        new = replace(new, input_names=names, views=dict(program.views))
        made.add(new, program)
        made.kept.append(new)
        if new.refresh_mode is RefreshMode.IMMEDIATE and old.refresh_mode is not RefreshMode.IMMEDIATE:
            made.immediate.append(new)
        return
    _refill(engine, made, old, new, program)


def _follow(engine: Engine, pinned: Pinned, made: Definitions, wanted: WantedTable, pin: Pin) -> None:
    """A table that stays as it is, over others that do not: if their columns are others now, it is filled anew."""
    old = pinned.node(wanted.name)
    if not any(table in made.reasons for table in old.inputs):
        return
    program = _compiled(engine, made, wanted, pin)
    if [each.columns for each in program.parts] != [each.columns for each in old.parts]:
        _refill(engine, made, old, old, program)


def _refill(engine: Engine, made: Definitions, old: StreamTable, new: StreamTable, program: Program) -> None:
    node = defined_by(engine, made.planned, replace(new, generation=old.generation + 1), program)
    made.replaced[node.id] = old
    made.reasons[node.id] = QUERY_CHANGED
    made.add(node, program)


def _compiled(engine: Engine, made: Definitions, wanted: WantedTable, pin: Pin) -> Program:
    engine.under(engine.definition_settings)
    program = engine.compile(wanted.query, made.planned, clock=pin.clock)
    check_mode(wanted.name, RefreshMode(wanted.refresh_mode), program)
    check_columns(program.columns)
    return program


def _is_same(engine: Engine, pinned: Pinned, old: StreamTable, program: Program, query: str) -> bool:
    """Whether the stored rows are those of the new query too: the same plan over the same tables."""
    before = engine.program(old, pinned)
    if (before.columns, before.tables) != (program.columns, program.tables):
        return False
    if before.kernel is None or program.kernel is None:
        same_views = {name: normal(text) for name, text in old.views.items()} == {
            name: normal(text) for name, text in program.views.items()
        }
        return before.kernel is program.kernel and same_views and normal(old.query) == normal(query)
    return show(before.kernel) == show(program.kernel)
