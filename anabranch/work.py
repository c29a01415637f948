"""A tick's work: every moving node's change, worked out in rounds, as much together as the graph allows.

A part (one stored table of a node) is ready when what it reads in this tick is done. All ready parts of eligible nodes
are one Spark job; the others run on their own. A job of many that fails is run again one by one, so that only the node
whose fault it is fails.

A delta plan that raises is run again in full, because a join term may pair rows that never coexisted; only an error in
the query itself fails the node.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from anabranch.algebra.relation import After, Before, Change, Relation
from anabranch.auto import Auto, Estimate, first_fill, learned, together
from anabranch.choose import Choice, check_columns, choose
from anabranch.compile import Program
from anabranch.definitions import RefreshMode, StoredPart, StreamTable
from anabranch.delta.state import Guarded, Part, delta, full_and_diff, guarded_delta, initial
from anabranch.delta.versions import tables_of
from anabranch.engine import Engine
from anabranch.errors import AnabranchError, RefreshError
from anabranch.fuse.eligible import Candidate, exclusions
from anabranch.inputs import TickInputs
from anabranch.observe.report import Action
from anabranch.reads import run_over
from anabranch.spark.failure import PySparkException
from anabranch.spark.many_changes import GUARD_TRIPPED, Request, located_together
from anabranch.spark.moved import Moved
from anabranch.spark.run import Runner
from anabranch.spark.waves import run_waves
from anabranch.store.protocol import STATE, WEIGHT, CreateTable, TableName, Write
from anabranch.store.protocol import Action as StoreAction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

DELTA_RAISED = "DELTA_RAISED"


@dataclass(frozen=True)
class TickTables:
    """What the tables of a tick are like, for cutting plans into waves."""

    runner: Runner
    inputs: TickInputs

    def is_local(self, table: Relation) -> bool:
        return self.runner.is_local(table)

    def rows(self, table: Before | After) -> int:
        return self.inputs.rows_of(table)

    def both(self, before: Before, after: After) -> After | None:
        found = self.inputs.both_versions(before, after)
        if found is None:
            return None
        leaf, rows = found
        if not self.runner.is_bound(leaf):
            self.runner.bind(leaf, rows)
        return leaf


@dataclass
class NodeWork:
    """A node on its way through a tick; `left` are the parts still to be worked out."""

    node: StreamTable
    program: Program
    choice: Choice
    left: list[tuple[Part, StoredPart]]
    not_fused: str | None = None
    actions: list[StoreAction] = field(default_factory=list)
    rows_inserted: int = 0
    rows_deleted: int = 0
    seconds: float = 0.0
    error: AnabranchError | None = None
    costs: Mapping[str, Any] | None = None

    @property
    def is_done(self) -> bool:
        return self.error is not None or not self.left


class TickWork:
    """Works out the nodes of a tick, given in topological order."""

    def __init__(self, engine: Engine, inputs: TickInputs, nodes: Sequence[StreamTable]) -> None:
        self._engine = engine
        self._inputs = inputs
        self._nodes = {node.id: node for node in nodes}
        self.done: dict[str, NodeWork] = {}
        self._works: dict[str, NodeWork] = {}
        self._auto = Auto(engine, inputs, self._nodes)
        self.seconds: dict[str, float] = {}
        self.table_scans = 0

    def run(self) -> dict[str, NodeWork]:
        """Every node that could be worked out, or failed; those that read a failed one are left out."""
        with self._timed("compile"):
            self._works = {node: self._prepared(each) for node, each in self._nodes.items()}
            self._choose_together()
            self._mark_fused()
        limit = self._engine.settings.integer("fused_refresh_max_delta_rows")
        with Runner(self._engine.session, limit=limit) as runner:
            with self._timed("read"):
                self._read_ahead(limit)
            with self._timed("compute"):
                while ready := list(self._ready()):
                    self._engine.check_not_given_up()
                    self._round(runner, ready)
        self.table_scans = runner.table_scans
        self._learn()
        blocked = self._blocked()
        return {node: work for node, work in self._works.items() if node not in blocked}

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[stage] = time.perf_counter() - started

    def _read_ahead(self, limit: int) -> None:
        """Once for all; if that fails, each node reads its own, and the one whose fault it is fails."""
        try:
            self._inputs.read_ahead(self._differential(), limit)
        except Exception as error:
            log.info("what all nodes read cannot be read by one job: %s", error)

    def _learn(self) -> None:
        """What each refresh has cost, for the next choice."""
        for node, work in self._works.items():
            is_measured = work.error is None and not work.left and work.choice.reason != DELTA_RAISED
            if not is_measured or work.node.refresh_mode is not RefreshMode.AUTO:
                continue
            if self._inputs.is_new(work.node):
                work.costs = first_fill(self._auto.input_rows(work.node), work.seconds)
            elif work.choice.estimate is not None:
                known = self._inputs.pinned.conditions[node].costs
                work.costs = learned(known, work.choice.estimate, work.choice.action, work.seconds)

    def _prepared(self, node: StreamTable) -> NodeWork:
        self._engine.under(node.session)
        try:
            check_columns(self._inputs, node)
            program = self._engine.program(node, self._inputs.pinned, self._inputs.clock(node))
            _check_parts(node, program)
            choice = choose(self._engine, self._inputs, node, program)
            if choice.action is Action.DIFFERENTIAL and node.refresh_mode is RefreshMode.AUTO:
                choice = _cheaper(self._auto.estimate(node))
        except Exception as raised:
            error = _failure(node, raised)
            nothing = Program(node.query, node.columns, (), frozenset(node.inputs))
            return NodeWork(node, nothing, Choice(Action.FAILED, error.code), [], error=error)
        return NodeWork(node, program, choice, list(zip(program.parts, node.parts, strict=True)))

    def _choose_together(self) -> None:
        """A full refresh, chosen because it is cheaper, must be worth leaving the fused job."""
        if self._engine.settings.boolean("enable_fused_refresh"):
            estimates = {node: work.choice.estimate for node, work in self._works.items() if work.choice.estimate}
            for node, estimate in together(estimates, self._inputs.pinned).items():
                self._works[node].choice = _cheaper(estimate)

    def _mark_fused(self) -> None:
        """Who is worked out together, and for the rest why not."""
        if not self._engine.settings.boolean("enable_fused_refresh"):
            for work in self._works.values():
                work.not_fused = "DISABLED"
            return
        candidates = (
            Candidate(
                node, work.node.inputs, work.choice.action is Action.DIFFERENTIAL, self._inputs.change_rows(work.node)
            )
            for node, work in self._works.items()
        )
        limit = self._engine.settings.integer("fused_refresh_max_delta_rows")
        for node, reason in exclusions(candidates, limit).items():
            self._works[node].not_fused = reason

    def _differential(self) -> list[StreamTable]:
        return [each.node for each in self._works.values() if each.choice.action is Action.DIFFERENTIAL]

    def _blocked(self) -> set[str]:
        """Nodes that read something that was to move in this tick and did not."""
        blocked: set[str] = set()
        for node, work in self._works.items():
            moving = (table for table in work.node.inputs if table in self._works)
            if any(table in blocked or self._works[table].error is not None for table in moving):
                blocked.add(node)
        return blocked

    def _ready(self) -> Iterator[tuple[NodeWork, Part, StoredPart]]:
        blocked = self._blocked()
        for node, work in self._works.items():
            moving = [self._works[table] for table in work.node.inputs if table in self._works]
            if work.is_done or node in blocked or not all(each.is_done for each in moving):
                continue
            unfinished = {part.table for part, _ in work.left}
            for part, stored in work.left:
                if not tables_of(part.relation) & unfinished:
                    yield work, part, stored

    def _round(self, runner: Runner, ready: list[tuple[NodeWork, Part, StoredPart]]) -> None:
        """All that can be done now: the fused parts by one job, the rest one after the other."""
        together = [each for each in ready if each[0].not_fused is None]
        if len({tuple(sorted(work.node.session.items())) for work, _, _ in together}) > 1:
            together = []
        alone = [each for each in ready if each not in together]
        if together and not self._together(runner, together):
            alone = [*together, *alone]
        for item in alone:
            self._alone(runner, *item)

    def _together(self, runner: Runner, items: list[tuple[NodeWork, Part, StoredPart]]) -> bool:
        """Work the parts out by one job; False if that failed and each has to be run on its own."""
        started = time.perf_counter()
        self._engine.under(items[0][0].node.session)
        requests = []
        for work, part, stored in items:
            try:
                requests.append(self._request(runner, work, part, stored))
            except Exception as error:
                log.info("%s is run on its own: %s", work.node.name, error)
                return False
        asked = [each for each in requests if each is not None]
        try:
            results = iter(located_together(runner, self._waves(runner, asked)) or ()) if asked else iter(())
            found = [None if request is None else next(results) for request in requests]
        except Exception as error:
            log.info("a fused job failed and is run one by one: %s", error)
            return False
        each_seconds = (time.perf_counter() - started) / len(items)
        for (work, part, stored), moved in zip(items, found, strict=True):
            work.seconds += each_seconds
            if isinstance(moved, AnabranchError) and moved.code == GUARD_TRIPPED:
                self._alone(runner, work, part, stored)
            else:
                self._finish(work, part, stored, moved)
        return True

    def _alone(self, runner: Runner, work: NodeWork, part: Part, stored: StoredPart) -> None:
        """Work one part out by jobs of its own, in full if its delta raises."""
        if work.error is not None:
            return
        started = time.perf_counter()
        self._engine.under(work.node.session)
        try:
            try:
                moved = self._moved(runner, work, part, stored)
            except PySparkException as error:
                if work.choice.action is not Action.DIFFERENTIAL:
                    raise
                log.info("the delta query of %s raised, it is run in full: %s", work.node.name, error)
                work.choice = Choice(Action.FULL, DELTA_RAISED)
                moved = self._moved(runner, work, part, stored)
            self._finish(work, part, stored, moved)
        except Exception as error:
            work.error = _failure(work.node, error)
        work.seconds += time.perf_counter() - started

    def _moved(self, runner: Runner, work: NodeWork, part: Part, stored: StoredPart) -> Moved | None:
        limit = self._engine.settings.integer("fused_refresh_max_delta_rows")
        if self._inputs.is_new(work.node):
            plan = self._bound(runner, work, initial(part))
            return runner.filled(plan, stored.columns, limit, self._engine.store)
        request = self._request(runner, work, part, stored)
        if request is None:
            return None
        if work.choice.action is Action.DIFFERENTIAL:
            (request,) = self._waves(runner, [request])
            results = located_together(runner, [request])
            if results is not None and isinstance(results[0], Moved):
                return results[0]
            if results is not None and isinstance(results[0], AnabranchError) and results[0].code != GUARD_TRIPPED:
                raise results[0]
            if request.guard is not None:
                changed = self._inputs.changed_tables(work.node, work.program)
                plan = self._bound(runner, work, delta(part, changed) or full_and_diff(part))
                (request,) = self._waves(runner, [replace(request, change=plan, guard=None)])
        return runner.located(request.change, request.stored, limit, self._engine.store, stored.table)

    def _waves(self, runner: Runner, requests: Sequence[Request]) -> list[Request]:
        return run_waves(runner, requests, TickTables(runner, self._inputs))

    def _request(self, runner: Runner, work: NodeWork, part: Part, stored: StoredPart) -> Request | None:
        plans = _plans(part, work.choice, self._inputs.changed_tables(work.node, work.program))
        if plans is None:
            return None
        rows = self._inputs.stored(stored)
        if isinstance(plans, Guarded):
            change, guard = self._bound(runner, work, plans.change), self._bound(runner, work, plans.guard)
            return Request(change, rows, stored.table, guard)
        return Request(self._bound(runner, work, plans), rows, stored.table)

    def _bound(self, runner: Runner, work: NodeWork, plan: Relation) -> Relation:
        """The plan with every leaf bound to the rows it stands for in this tick."""
        rows_after = partial(self._inputs.rows_after, work.node)
        clock = self._inputs.clock(work.node)
        text = partial(run_over, self._engine, self._inputs.pinned, work.node, rows_after, clock)
        named, frames = self._inputs.name_leaves(plan, work.node, text)
        for leaf, rows in frames.items():
            if not runner.is_bound(leaf):
                _bind(runner, leaf, rows())
        return named

    def _finish(self, work: NodeWork, part: Part, stored: StoredPart, moved: Moved | AnabranchError | None) -> None:
        work.left.remove((part, stored))
        if isinstance(moved, AnabranchError):
            work.error = moved
        elif moved is not None:
            is_new = self._inputs.is_new(work.node)
            self._inputs.moved[stored.table] = moved
            work.actions.extend(_actions(stored, moved, self._inputs, is_new))
            if stored is work.node.shown:
                work.rows_inserted, work.rows_deleted = moved.shown_counts(stored)


def _cheaper(estimate: Estimate) -> Choice:
    return Choice(estimate.action, estimate.reason, estimate)


def _bind(runner: Runner, leaf: Relation, rows: DataFrame | pa.Table) -> None:
    if isinstance(rows, pa.Table):
        weight = [WEIGHT] if isinstance(leaf, Change) else []
        runner.bind_table(leaf, rows.select([*leaf.names, *weight]))
    else:
        runner.bind(leaf, rows)


def _plans(part: Part, choice: Choice, changed: frozenset[str]) -> Relation | Guarded | None:
    if choice.action is not Action.DIFFERENTIAL:
        return full_and_diff(part)
    return guarded_delta(part, changed) or delta(part, changed)


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


def _failure(node: StreamTable, error: Exception) -> AnabranchError:
    """What went wrong with one node, in our words; whatever it is, it is this node's failure and no other's."""
    if isinstance(error, AnabranchError):
        return error
    if not isinstance(error, PySparkException):
        log.error("the refresh of %s failed in an unexpected way", node.name, exc_info=error)
        return RefreshError(
            "INTERNAL_ERROR",
            f'the refresh of stream table "{node.name}" failed: {type(error).__name__}: {error}',
            "this is a fault of Anabranch; the table stays as it was",
            "please report it with the query and the log",
        )
    return RefreshError(
        error.getCondition() or "QUERY_FAILED",
        f'the query of stream table "{node.name}" failed: {str(error).splitlines()[0]}',
        "the table stays as it was",
        "correct the rows or the query; the next refresh tries again",
    )
