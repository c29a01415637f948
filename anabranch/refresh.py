"""One tick, on one screen: pin, decide, work out, commit, record.

A tick is one commit. Requirements checked inside it say what it was worked out from: the frontier and the definition of
every node that moves or is read. If one no longer holds, nothing is committed and the tick is planned again.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TypeVar

from anabranch.definitions import CONDITION, FRONTIER, NODE, Condition, RefreshMode, StreamTable
from anabranch.engine import Engine
from anabranch.errors import AnabranchError, ConflictError, RefreshError
from anabranch.graph.frontier import THIS_COMMIT, Frontier, to_json
from anabranch.immediate import list_of
from anabranch.inputs import TickInputs
from anabranch.node_work import NodeWork
from anabranch.observe.logs import log_tick
from anabranch.observe.record import TickCost, history_row, readable
from anabranch.observe.report import Action, NodeReport, Report
from anabranch.observe.ticks import TickSeen
from anabranch.pinned import Pinned
from anabranch.rebuild import node_replaced, plan_tick
from anabranch.schedule import decide as decisions
from anabranch.schedule.backoff import backoff_seconds
from anabranch.schedule.decide import Decision, after_failures
from anabranch.schedule.state import GraphState
from anabranch.spark.garbage import let_go_of_java
from anabranch.spark.jobs import count_jobs
from anabranch.store.protocol import Action as StoreAction
from anabranch.store.protocol import Commit, Document, DocumentIs, Requirement, Version
from anabranch.work import TickWork

PLANNED_AGAIN = 20
T = TypeVar("T")


def refresh(engine: Engine, names: Sequence[str] = ()) -> Report:
    """One tick over everything pending, or over the named stream tables and what must move with them."""

    def requested(pinned: Pinned) -> frozenset[str]:
        return frozenset(pinned.node(name).id for name in names) if names else frozenset(pinned.nodes)

    return planned_again(engine, lambda now: _one_tick(engine, requested, now))


def tick_of_due_nodes(engine: Engine) -> Report:
    """One tick over what is due by its schedule."""
    return planned_again(engine, lambda now: _one_tick(engine, lambda _: None, now))


def planned_again(engine: Engine, attempt: Callable[[datetime], T]) -> T:
    """Plan and commit; when others committed first what it relied on, plan again on what is there now."""
    engine.check_outside_transaction("work on stream tables")
    with engine.lock:
        for number in range(PLANNED_AGAIN):
            try:
                with engine.restoring():
                    return attempt(datetime.now(UTC))
            except ConflictError:
                if number == PLANNED_AGAIN - 1:
                    raise
                time.sleep(random.uniform(0, 0.05 * (number + 1)))
    raise AssertionError("the last attempt returns or raises")


def _one_tick(engine: Engine, requested: Callable[[Pinned], frozenset[str] | None], now: datetime) -> Report:
    pinned = engine.pin()
    plan = plan_tick(engine, pinned, requested, now)
    tick = Tick(
        engine,
        plan.pinned,
        plan.state,
        plan.decided,
        now,
        replaced=plan.replaced,
        existing=dict(pinned.documents),
        rebuilt=tuple(plan.replaced),
    )
    return tick.perform()


@dataclass
class Tick:
    """A tick on its way: decisions, then an outcome per moving node, then one commit.

    `defined` are the stream tables that this tick defines, `replaced` their definitions until now. `pinned` knows the
    new ones already, while `existing` are the documents as they are in the lake. `actions`, `documents` and
    `requirements` go into the commit as well. `rebuilt` are those of `replaced` that the tick itself defines anew: one
    of them that fails stays as it was.
    """

    engine: Engine
    pinned: Pinned
    state: GraphState
    decided: tuple[Decision, ...]
    now: datetime
    defined: tuple[StreamTable, ...] = ()
    replaced: Mapping[str, StreamTable] = field(default_factory=dict)
    actions: tuple[StoreAction, ...] = ()
    documents: Mapping[str, Document] = field(default_factory=dict)
    requirements: tuple[Requirement, ...] = ()
    existing: dict[str, str] | None = None
    notices: tuple[str, ...] = ()
    rebuilt: tuple[str, ...] = ()
    outcomes: dict[str, NodeWork] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    table_scans: int = 0
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def perform(self) -> Report:
        self.seconds["plan"] = (datetime.now(UTC) - self.now).total_seconds()
        started = time.perf_counter()
        jobs, stages = self._work_out_counted() if self._moving or self.defined else (0, 0)
        worked_out = time.perf_counter()
        version = self._commit(jobs)
        self._remember_those_without_data()
        committed = time.perf_counter()
        laid_out = self.engine.store.lay_out_missed()
        ended = time.perf_counter()
        timings = {**self.seconds, "commit": committed - worked_out, **({"index": laid_out} if laid_out else {})}
        reports = self._node_reports()
        report = Report(version.number, ended - started, jobs, reports, timings, self.notices, stages, self.table_scans)
        if self.outcomes:
            self.engine.ticks.add(TickSeen(self.id, self.now, report))
        log_tick(report)
        let_go_of_java()
        return report

    @property
    def _moving(self) -> list[StreamTable]:
        return [self.pinned.nodes[each.node] for each in self.decided if each.action is decisions.Action.MOVE]

    def _work_out_counted(self) -> tuple[int | None, int | None]:
        """Work out what moves; how many Spark jobs and stages that took. Where nothing moves Spark is not started."""
        with count_jobs(self.engine.session) as count:
            self._work_out()
        return count.jobs, count.stages

    def _work_out(self) -> None:
        """Every moving node's change; what reads a failed one is left out. A definition that fails is not made."""
        clocks = {each.node: each.target.clock for each in self.decided if each.target and each.target.clock}
        inputs = TickInputs(
            self.engine.store, self.pinned, self.replaced, small_tables=self.engine.small_tables, clocks=clocks
        )
        work = TickWork(self.engine, inputs, self._moving)
        self.outcomes = work.run()
        self.seconds |= work.seconds
        self.table_scans = work.table_scans
        for each in self.defined:
            error = self._not_made(each)
            if error is not None:
                raise error

    def _not_made(self, defined: StreamTable) -> AnabranchError | None:
        """Why a definition cannot be made: its own query failed, or that of a table that had to move along."""
        decision = next(each for each in self.decided if each.node == defined.id)
        if defined.id in self.outcomes or decision.action is decisions.Action.NO_DATA:
            return self.outcomes[defined.id].error if defined.id in self.outcomes else None
        failed = next((each.error for each in self.outcomes.values() if each.error is not None), None)
        return RefreshError(
            "INPUTS_FAILED",
            f'stream table "{defined.name}" cannot be filled: what it reads has to move along, and cannot',
            failed.message if failed is not None else decision.text,
            "repair what it reads, then try again",
        )

    @cached_property
    def _advancing(self) -> dict[str, Frontier]:
        """Where each node arrives, those left out that failed or read one that did."""
        failed = {node for node, outcome in self.outcomes.items() if outcome.error}
        left = after_failures(self.state, self.decided, failed)
        return {each.node: each.target for each in left if each.target is not None and not self._is_writers(each)}

    def _is_writers(self, decision: Decision) -> bool:
        """Whether the frontier is left to the writers: of an IMMEDIATE node that has nothing to catch up."""
        return decision.action is decisions.Action.NO_DATA and self._is_immediate(decision.node)

    def _is_immediate(self, node: str) -> bool:
        return self.pinned.nodes[node].refresh_mode is RefreshMode.IMMEDIATE

    def _commit(self, spark_jobs: int | None) -> Version:
        """All that moved, in one commit. A tick in which nothing moved makes no snapshot."""
        if not self.outcomes and not self.defined:
            return self.pinned.version
        self.engine.check_not_given_up()
        documents: dict[str, Document] = {FRONTIER + node: _at_commit(to) for node, to in self._advancing.items()}
        documents |= {CONDITION + node: _condition_at_commit(self._condition(node)) for node in self.outcomes}
        documents |= {NODE + node.id: node.to_json() for node in self.defined}
        documents |= {**self.documents, **self._rebuilt_documents()}
        moved = (node for node in self.outcomes if node in self._advancing)
        in_place = (each for node in self._rebuilt for each in node_replaced(self.pinned, self.replaced[node.id]))
        return self.engine.store.commit(
            Commit(
                (*(action for node in moved for action in self.outcomes[node].actions), *self.actions, *in_place),
                tuple(self._requirements()),
                documents,
                tuple(self._history(node, spark_jobs) for node in self.outcomes),
                f"tick {self.id}",
            )
        )

    @property
    def _rebuilt(self) -> list[StreamTable]:
        """Nodes that were defined anew because their sources are others now, and could be filled."""
        return [self.pinned.nodes[node] for node in self.rebuilt if node in self._advancing and node in self.outcomes]

    def _rebuilt_documents(self) -> dict[str, Document]:
        if not self.rebuilt:
            return {}
        made = {node.id: node for node in self._rebuilt}
        stay = {node: self.replaced[node] for node in self.rebuilt if node not in made}
        definitions: dict[str, Document] = {NODE + node.id: node.to_json() for node in made.values()}
        return definitions | list_of({**self.pinned.nodes, **stay}.values())

    def _requirements(self) -> Iterator[Requirement]:
        """Every node that moves or is read still has the frontier and the definition that the tick started from.

        An IMMEDIATE node that is read may have gone on: what was read is the pinned snapshot.
        """
        yield from self.requirements
        existing = self.pinned.documents if self.existing is None else self.existing
        relied_on = {*self._advancing, *self.outcomes}
        relied_on |= {table for node in self.outcomes for table in self.pinned.nodes[node].inputs}
        for node in sorted(relied_on & self.pinned.nodes.keys()):
            yield DocumentIs(NODE + node, existing.get(NODE + node))
            if node in self._advancing or node in self.outcomes or not self._is_immediate(node):
                yield DocumentIs(FRONTIER + node, existing.get(FRONTIER + node))
        for node in self.outcomes:
            yield DocumentIs(CONDITION + node, existing.get(CONDITION + node))

    def _condition(self, node: str) -> Condition:
        before = self.pinned.conditions[node]
        error = self.outcomes[node].error
        if error is not None and error.code == "ROW_NOT_THERE":
            before = replace(before, needs_full="ROW_NOT_THERE")
        if error is None:
            costs = self.outcomes[node].costs
            moved = replace(before, moved_in=THIS_COMMIT.number, costs=before.costs if costs is None else costs)
            return moved.succeeded(self.now.timestamp()) if node in self._advancing else before
        described = {"code": error.code, "message": error.message, "detail": error.detail, "hint": error.hint}
        errors = before.consecutive_errors + 1
        suspended = errors >= self.engine.settings.integer("max_consecutive_errors")
        return before.failed(described, self.now.timestamp() + backoff_seconds(errors), suspended)

    def _history(self, node: str, spark_jobs: int | None) -> dict[str, object]:
        report = self._node_report(node, self.outcomes[node])
        reached = self._advancing.get(node)
        frontier = None if reached is None else readable(reached, self.pinned.name_of)
        tick = TickCost(self.id, self.now, spark_jobs, self.seconds)
        return history_row(tick, self.pinned.nodes[node], report, frontier)

    def _node_reports(self) -> dict[str, NodeReport]:
        reports = [self._report_of(each) for each in self.decided]
        return {each.name: each for each in reports if each is not None}

    def _report_of(self, decision: Decision) -> NodeReport | None:
        if decision.node in self.outcomes:
            return self._node_report(decision.node, self.outcomes[decision.node])
        name = self.pinned.nodes[decision.node].name
        match decision.action:
            case decisions.Action.NOT_DUE:
                return None
            case decisions.Action.NO_DATA:
                return NodeReport(name, Action.NO_DATA, decision.reason)
            case decisions.Action.MOVE:
                return NodeReport(name, Action.SKIPPED, "UPSTREAM_FAILED")
            case _:
                return NodeReport(name, Action.SKIPPED, f"{decision.reason}: {decision.text}")

    def _node_report(self, node: str, outcome: NodeWork) -> NodeReport:
        name = self.pinned.nodes[node].name
        if outcome.error is not None:
            error = {"code": outcome.error.code, "message": outcome.error.message, "hint": outcome.error.hint}
            return NodeReport(name, Action.FAILED, outcome.error.code, seconds=outcome.seconds, error=error)
        return NodeReport(
            name,
            outcome.choice.action,
            outcome.choice.reason,
            outcome.not_fused is None,
            outcome.rows_inserted,
            outcome.rows_deleted,
            outcome.seconds,
            not_fused=outcome.not_fused,
        )

    def _remember_those_without_data(self) -> None:
        for decision in self.decided:
            if decision.advances:
                self.engine.looked_at[decision.node] = self.now.timestamp()


def _condition_at_commit(condition: Condition) -> Callable[[Version], str]:
    if condition.moved_in != THIS_COMMIT.number:
        return lambda _: condition.to_json()
    return lambda version: replace(condition, moved_in=version.number).to_json()


def _at_commit(target: Frontier) -> Callable[[Version], str]:
    return lambda version: to_json(target.settled_at(version))
