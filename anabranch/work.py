"""One node's share of a tick: choose how, work out the change of each of its parts, say what to commit.

A delta plan that raises is run again in full, because a join term may pair rows that never coexisted; only an error in
the query itself fails the node.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from functools import partial

from pyspark.errors import PySparkException

from anabranch.algebra.relation import Relation
from anabranch.compile import Program
from anabranch.definitions import RefreshMode, StoredPart, StreamTable
from anabranch.delta.state import PART_PREFIX, Part, delta, full_and_diff, initial
from anabranch.engine import Engine
from anabranch.errors import AnabranchError, RefreshError
from anabranch.inputs import Frames, TickInputs
from anabranch.observe.report import Action
from anabranch.reads import run_over
from anabranch.spark.moved import Moved
from anabranch.store.protocol import STATE, CreateTable, TableName, Write
from anabranch.store.protocol import Action as StoreAction

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choice:
    """How a node is refreshed in this tick, and why."""

    action: Action
    reason: str


@dataclass(frozen=True)
class NodeOutcome:
    """What became of a node: the store's actions to commit, or the error that keeps it as it was."""

    choice: Choice
    seconds: float = 0.0
    actions: tuple[StoreAction, ...] = ()
    rows_inserted: int = 0
    rows_deleted: int = 0
    error: AnabranchError | None = None
    fused: bool = False


def work_out(engine: Engine, inputs: TickInputs, node: StreamTable) -> NodeOutcome:
    """The node's change; never raises for what is the node's own fault."""
    started = time.perf_counter()
    choice = Choice(Action.FULL, "FIRST_REFRESH")
    try:
        program = engine.program(node, inputs.pinned)
        engine.under(node.session)
        choice = choose(engine, inputs, node, program)
        try:
            outcome = _run(engine, inputs, node, program, choice)
        except PySparkException as error:
            if choice.action is not Action.DIFFERENTIAL:
                raise
            log.info("the delta query of %s raised, it is run in full: %s", node.name, error)
            choice = Choice(Action.FULL, "DELTA_RAISED")
            outcome = _run(engine, inputs, node, program, choice)
    except AnabranchError as error:
        outcome = NodeOutcome(choice, error=error)
    except PySparkException as error:
        outcome = NodeOutcome(choice, error=_failure(node, error))
    return replace(outcome, seconds=time.perf_counter() - started)


def choose(engine: Engine, inputs: TickInputs, node: StreamTable, program: Program) -> Choice:
    """Differential where the query and the history of its inputs allow it; else full, with the reason."""
    pinned = inputs.pinned
    frontier = pinned.frontiers.get(node.id)
    if frontier is None:
        return Choice(Action.FULL, "FIRST_REFRESH")
    needs_full = pinned.conditions[node.id].needs_full
    if needs_full:
        return Choice(Action.FULL, needs_full)
    if node.refresh_mode is RefreshMode.FULL:
        return Choice(Action.FULL, "REFRESH_MODE_FULL")
    if not program.is_differential:
        return Choice(Action.FULL, f"NOT_DIFFERENTIABLE: {program.refusals[0].construct}")
    for table, columns in node.fields_read.items():
        info = pinned.sources[table]
        now = dict(zip((each.name for each in info.columns), info.field_ids, strict=True))
        if any(now.get(name) != field for name, field in columns.items()):
            return Choice(Action.FULL, "SOURCE_SCHEMA_CHANGED")
    for table, since in frontier.inputs.items():
        if not engine.store.can_read(inputs.stored_id(table), since):
            return Choice(Action.FULL, "CHANGE_FEED_EXPIRED")
    return Choice(Action.DIFFERENTIAL, "CHANGED")


def _run(engine: Engine, inputs: TickInputs, node: StreamTable, program: Program, choice: Choice) -> NodeOutcome:
    """Work out part after part; a part reads what the ones before it have become."""
    _check_parts(node, program)
    changed = frozenset(table for table in program.tables if inputs.has_changed(node, table))
    actions: list[StoreAction] = []
    inserted = deleted = 0
    for part, stored in zip(program.parts, node.parts, strict=True):
        is_new = inputs.is_new(node)
        plan = _plan(part, choice, is_new, changed)
        if plan is None:
            continue
        moved = _moved(engine, inputs, node, program, stored, plan, is_new)
        inputs.moved[stored.table] = moved
        if not moved.is_empty:
            changed |= {PART_PREFIX + part.name}
        actions.extend(_actions(stored, moved, inputs, is_new))
        if stored is node.shown:
            inserted, deleted = moved.shown_counts(stored)
    return NodeOutcome(choice, actions=tuple(actions), rows_inserted=inserted, rows_deleted=deleted)


def _plan(part: Part, choice: Choice, is_new: bool, changed: frozenset[str]) -> Relation | None:
    if is_new:
        return initial(part)
    return delta(part, changed) if choice.action is Action.DIFFERENTIAL else full_and_diff(part)


def _moved(
    engine: Engine,
    inputs: TickInputs,
    node: StreamTable,
    program: Program,
    stored: StoredPart,
    plan: Relation,
    is_new: bool,
) -> Moved:
    frames: Frames = {}
    rows_after = partial(inputs.rows_after, node)
    named = inputs.name_leaves(plan, node, frames, lambda: run_over(engine, inputs.pinned, node, rows_after))
    limit = engine.settings.integer("fused_refresh_max_delta_rows")
    with engine.runner() as runner:
        for leaf, rows in frames.items():
            runner.bind(leaf, rows())
        if is_new:
            return runner.filled(named, stored.columns, limit, engine.store)
        return runner.located(named, inputs.stored_rows(stored), limit, engine.store, stored.table)


def _actions(stored: StoredPart, moved: Moved, inputs: TickInputs, is_new: bool) -> list[StoreAction]:
    if not is_new:
        table = inputs.pinned.part(stored.table).id
        return [Write(table, moved.deleted, moved.inserts, inputs.pinned.version)]
    name = TableName(STATE, stored.table)
    return [CreateTable(name, stored.columns), Write(name, None, moved.inserts)]


def _check_parts(node: StreamTable, program: Program) -> None:
    """A newer release may lay a query out otherwise; then what is stored does not fit and has to be rebuilt."""
    laid_out = [(part.name, part.columns) for part in program.parts]
    if laid_out != [(part.name, part.columns) for part in node.parts]:
        raise RefreshError(
            "LAYOUT_CHANGED",
            f'stream table "{node.name}" was stored in another layout',
            "this release of Anabranch, or a changed source, lays the query out differently",
            f"rebuild it: lake.alter_stream_table({node.name!r}, query=<its query>)",
        )


def _failure(node: StreamTable, error: PySparkException) -> RefreshError:
    condition = error.getCondition() or "QUERY_FAILED"
    return RefreshError(
        condition,
        f'the query of stream table "{node.name}" failed: {str(error).splitlines()[0]}',
        "the table stays as it was",
        "correct the rows or the query; the next refresh tries again",
    )
