"""Makes a lake as its project says.

All that concerns stream tables, views and settings is one commit: what is new is filled, what changed is filled anew,
what reads it gets the difference, what is no longer named goes. Sources that are missing are made in a commit before
it, since a table has to be there to be read; columns and sources that go, go after it, when nothing reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from anabranch import definition_statements, writes
from anabranch.clock import zone_documents, zone_requirements
from anabranch.define import view_of
from anabranch.definitions import CONDITION, NODE, SETTING
from anabranch.engine import Engine
from anabranch.errors import StateError
from anabranch.immediate import check_definition, list_of, unchanged_sources
from anabranch.manage import documents_without
from anabranch.observe.report import Report
from anabranch.pinned import Pinned
from anabranch.project.actual import PROJECT, actual_of, managed_by
from anabranch.project.define import Definitions, definitions, view_documents
from anabranch.project.desired import Desired
from anabranch.project.located import at
from anabranch.project.plan import plan
from anabranch.project.preview import Preview, preview
from anabranch.project.sources import column_changes
from anabranch.project.steps import Kind, Plan, Verb
from anabranch.refresh import Tick, planned_again
from anabranch.schedule.plan import plan_definitions
from anabranch.situation import graph_state, pin_of
from anabranch.sql import statement_nodes as statements
from anabranch.store.protocol import MAIN, Commit, Document, DocumentIs, DropTable, DropView, Requirement, TableName
from anabranch.store.protocol import Action as StoreAction


@dataclass(frozen=True)
class Applied:
    """What was planned and what came of it; without a report there was nothing to do."""

    plan: Plan
    report: Report | None = None

    def to_dict(self) -> dict[str, Any]:
        """The result for programs."""
        return self.plan.to_dict() | {"report": None if self.report is None else self.report.to_dict()}


def plan_project(engine: Engine, desired: Desired) -> Plan:
    """What `apply_project` would do; starts no Spark."""
    return plan(desired, actual_of(engine.pin(), desired.name))


def apply_project(engine: Engine, desired: Desired, allow_data_loss: bool = False) -> Applied:
    """Do what the plan says; everything is compiled before anything is changed."""
    wanted = plan_project(engine, desired)
    if not wanted:
        return Applied(wanted)
    if wanted.loses_data and not allow_data_loss:
        raise StateError(
            "DATA_WOULD_BE_LOST",
            "the plan drops rows that nothing can bring back",
            "\n".join(str(step) for step in wanted.steps if step.loses_data),
            "apply with --allow-data-loss (allow_data_loss=True), or keep the columns and files",
        )
    check_project(engine, desired)
    _make_sources(engine, desired, wanted)
    report = planned_again(engine, lambda now: _commit(engine, desired, now))
    _drop_sources(engine, desired, wanted)
    return Applied(wanted, report)


def check_project(engine: Engine, desired: Desired) -> Preview:
    """Compile everything that is new or changed, against the lake as it will be; changes nothing."""
    return planned_again(engine, lambda now: preview(engine, desired, plan_project(engine, desired), now))


def _make_sources(engine: Engine, desired: Desired, wanted: Plan) -> None:
    steps = [step for step in wanted.steps if step.kind is Kind.SOURCE and step.verb in (Verb.CREATE, Verb.ALTER)]
    if not steps:
        return
    existing = actual_of(engine.pin(), desired.name).sources
    with writes.transaction(engine):
        for step in steps:
            source = desired.sources[step.name.lower()]
            with at(source.place):
                if step.verb is Verb.CREATE:
                    definition_statements.run(engine, statements.CreateTable((source.name,), source.columns))
                    continue
                added, _ = column_changes(source, existing[source.name.lower()])
                new = tuple(each for each in source.columns if each.name in added)
                if new:
                    definition_statements.run(engine, statements.AddColumns((source.name,), new))


def _drop_sources(engine: Engine, desired: Desired, wanted: Plan) -> None:
    steps = [step for step in wanted.steps if step.kind is Kind.SOURCE and step.loses_data]
    if not steps:
        return
    existing = actual_of(engine.pin(), desired.name).sources
    with writes.transaction(engine):
        for step in steps:
            if step.verb is Verb.DROP:
                definition_statements.run(engine, statements.DropTable((step.name,)))
                continue
            _, dropped = column_changes(desired.sources[step.name.lower()], existing[step.name.lower()])
            definition_statements.run(engine, statements.DropColumns((step.name,), tuple(dropped)))


def _commit(engine: Engine, desired: Desired, now: datetime) -> Report:
    """All that is not a source, in one commit, worked out anew on the lake of now."""
    pinned = engine.pin()
    wanted = plan(desired, actual_of(pinned, desired.name))
    pin = pin_of(engine, pinned, now)
    made = definitions(engine, pinned, desired, wanted, pin, now)
    for node in (*made.filled, *made.kept):
        check_definition(made.planned, node)
    documents = _documents(pinned, desired, wanted, made)
    requirements = _requirements(pinned, desired, wanted, made)
    if not made.reasons and not made.immediate:
        commit = Commit(_actions(pinned, made), requirements, documents, message=f"apply {desired.name}")
        return Report(engine.store.commit(commit).number, 0.0, 0, notices=tuple(made.notices))
    state = graph_state(engine, made.planned)
    asked = frozenset(node.id for node in made.immediate)
    return Tick(
        engine,
        made.planned,
        state,
        plan_definitions(state, made.reasons, asked, pin, now),
        now,
        defined=(*made.filled, *made.immediate),
        replaced=made.replaced,
        actions=_actions(pinned, made),
        documents=documents,
        requirements=requirements,
        existing=dict(pinned.documents),
        notices=tuple(dict.fromkeys(made.notices)),
    ).perform()


def _actions(pinned: Pinned, made: Definitions) -> tuple[StoreAction, ...]:
    """Views of what is new, replaced or renamed; the stored tables of what goes."""
    renamed = [node for node in made.kept if node.name != pinned.nodes[node.id].name]
    gone = [*made.dropped, *made.replaced.values(), *(pinned.nodes[node.id] for node in renamed)]
    unused = [*made.dropped, *made.replaced.values()]
    return (
        *(DropView(TableName(MAIN, node.name)) for node in gone),
        *(view_of(node) for node in (*made.filled, *renamed)),
        *(DropTable(pinned.part(part.table).id) for node in unused for part in node.parts),
    )


def _documents(pinned: Pinned, desired: Desired, wanted: Plan, made: Definitions) -> dict[str, Document]:
    documents: dict[str, Document] = {**documents_without(made.dropped), **view_documents(pinned, desired, wanted)}
    documents |= {NODE + node.id: node.to_json() for node in made.kept}
    documents |= list_of(made.planned.nodes.values())
    for step in wanted.steps:
        if step.kind is Kind.SETTING and step.verb is not Verb.ADOPT:
            documents[SETTING + step.name] = None if step.verb is Verb.DROP else desired.settings[step.name]
    for node in made.filled:
        documents |= zone_documents(pinned, node)
    documents[PROJECT + desired.name] = managed_by(desired)
    return documents


def _requirements(pinned: Pinned, desired: Desired, wanted: Plan, made: Definitions) -> tuple[Requirement, ...]:
    """Nobody changed meanwhile what is changed here: definitions, holds, views, the project itself."""
    touched = [*made.dropped, *made.replaced.values(), *made.kept]
    keys = [NODE + node.id for node in touched] + [CONDITION + node for node in made.replaced]
    keys += [*view_documents(pinned, desired, wanted), PROJECT + desired.name]
    immediate = [node for node in (*made.filled, *made.immediate) if node.refresh_mode.value == "IMMEDIATE"]
    zones = (each for node in made.filled for each in zone_requirements(pinned, node))
    return (
        *(DocumentIs(key, pinned.documents.get(key)) for key in dict.fromkeys(keys)),
        *(unchanged_sources(made.planned, immediate) if immediate else ()),
        *dict.fromkeys(zones),
    )
