"""A tick's work: every moving node's change, as much together as the graph allows.

A part (one stored table of a node) is ready when what it reads in this tick is done. The parts of eligible nodes go
through waves of Spark jobs together: one that is ready joins in between two waves, and so does one that can take a
change as a plan instead of rows. The others run on their own. Where jobs of many fail, they are run again one by one,
so that only the node whose fault it is fails.

A delta plan that raises is run again in full, because a join term may pair rows that never coexisted; only an error in
the query itself fails the node.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import pyarrow as pa

from anabranch.algebra.relation import Change, Empty, Relation
from anabranch.algebra.walk import transform
from anabranch.auto import Auto, Estimate, first_fill, learned, together
from anabranch.choose import Choice, check_columns, choose
from anabranch.compile import Program
from anabranch.definitions import RefreshMode, StreamTable
from anabranch.delta.simplify import simplify
from anabranch.delta.state import Guarded, Part, delta, full_and_diff, initial
from anabranch.delta.versions import tables_of
from anabranch.engine import Engine
from anabranch.errors import AnabranchError
from anabranch.fuse.ahead import NOTHING, comes_out_the_same, is_moderate
from anabranch.fuse.at_hand import can_tell_apart, consolidated
from anabranch.fuse.eligible import Candidate, exclusions
from anabranch.inputs import TickInputs
from anabranch.node_work import Item, NodeWork, actions_of, check_parts, failure_of, plans_of
from anabranch.observe.report import Action
from anabranch.reads import run_over
from anabranch.spark.failure import PySparkException, TooLargeError
from anabranch.spark.many_changes import GUARD_TRIPPED, Request, located_together
from anabranch.spark.moved import Moved
from anabranch.spark.rows import Rows
from anabranch.spark.run import Runner
from anabranch.spark.session import FOR_SMALL_CHANGES, tuned
from anabranch.spark.waves import Flow, run_waves
from anabranch.store.protocol import WEIGHT
from anabranch.tick_tables import TickTables

log = logging.getLogger(__name__)

DELTA_RAISED = "DELTA_RAISED"


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
        self._tables: TickTables

    def run(self) -> dict[str, NodeWork]:
        """Every node that could be worked out, or failed; those that read a failed one are left out."""
        with self._timed("compile"):
            self._works = {node: self._prepared(each) for node, each in self._nodes.items()}
            self._inputs.columns_read = self._columns_read()
            self._choose_together()
            self._mark_fused()
        limit = self._engine.settings.integer("fused_refresh_max_delta_rows")
        with Runner(self._engine.session, limit=limit, prepared=self._engine.prepared) as runner:
            self._tables = TickTables(runner, self._inputs)
            with self._timed("read"):
                self._read_ahead(limit)
            with self._timed("compute"):
                while unfinished := list(self._unfinished()):
                    self._engine.check_not_given_up()
                    self._round(runner, unfinished)
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

    def _columns_read(self) -> dict[str, frozenset[str]]:
        """The columns of each source that any of the nodes reads."""
        read: dict[str, frozenset[str]] = {}
        for work in self._works.values():
            for table, columns in work.program.columns_needed.items():
                if table in self._inputs.pinned.sources:
                    read[table] = read.get(table, frozenset()) | columns
        return read

    def _prepared(self, node: StreamTable) -> NodeWork:
        self._engine.under(node.session)
        try:
            check_columns(self._inputs, node)
            program = self._engine.program(node, self._inputs.pinned, self._inputs.clock(node))
            check_parts(node, program)
            choice = choose(self._engine, self._inputs, node, program)
            if choice.action is Action.DIFFERENTIAL and node.refresh_mode is RefreshMode.AUTO:
                choice = _cheaper(self._auto.estimate(node))
        except Exception as raised:
            error = failure_of(node, raised)
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

    def _unfinished(self) -> Iterator[Item]:
        """Every part still to be worked out, those after which it comes first."""
        blocked = self._blocked()
        for node, work in self._works.items():
            if not work.is_done and node not in blocked:
                yield from (Item(work, part, stored, self._waits_for(work, part)) for part, stored in work.left)

    def _waits_for(self, work: NodeWork, part: Part) -> frozenset[str]:
        """The stored tables that have to be worked out before the part, or together with it."""
        moving = (self._works[table] for table in work.node.inputs if table in self._works)
        above = {stored.table for each in moving for _, stored in each.left}
        own = {other.table: stored.table for other, stored in work.left}
        return frozenset(above | {own[table] for table in tables_of(part.relation) if table in own})

    def _round(self, runner: Runner, unfinished: list[Item]) -> None:
        """All that can be done now: the fused parts together, the rest one after the other."""
        fused = [each for each in unfinished if each.work.not_fused is None]
        if len({tuple(sorted(each.work.node.session.items())) for each in fused}) > 1:
            fused = []
        alone = [each for each in unfinished if not each.after and each not in fused]
        if any(not each.after for each in fused) and not self._together(runner, fused[0].work.node.session):
            alone = [each for each in self._unfinished() if not each.after]
        for item in alone:
            self._alone(runner, item)

    def _together(self, runner: Runner, session: Mapping[str, str]) -> bool:
        """Work fused parts out, as far as they lead; False if that failed and each has to be run on its own."""
        started = time.perf_counter()
        self._engine.under(session)
        try:
            with tuned(self._engine.session, FOR_SMALL_CHANGES):
                finished = [item.work for item in self._flow(runner)]
        except Exception as error:
            log.info("a fused job failed and is run one by one: %s", error)
            return False
        for work in finished:
            work.seconds += (time.perf_counter() - started) / len(finished)
        return True

    def _flow(self, runner: Runner) -> Iterator[Item]:
        """The fused parts as they are finished; a part joins the others as soon as what it waits for is done."""
        flow = Flow(runner, self._tables)
        under_way: dict[str, Item] = {}
        found: dict[str, Moved | AnabranchError | None] = {}
        void: set[str] = set()  # they took a change as a plan that came to nothing
        while True:
            ready = [each for each in self._unfinished() if each.work.not_fused is None]
            fresh = [each for each in ready if each.stored.table not in under_way]
            for item, request in self._requests(runner, fresh).items():
                under_way[item.stored.table] = item
                if request is None:
                    found[item.stored.table] = None
                else:
                    flow.add(item.stored.table, request)
            if not under_way:
                return
            if len(found) < len(under_way):
                found |= self._located(runner, flow.advance())
            for table, item in [each for each in under_way.items() if each[0] in found]:
                if item.after & under_way.keys():
                    continue  # what it has taken as a plan is not known to hold
                moved = found.pop(table)
                del under_way[table]
                is_void = table in void or item.work.error is not None
                void.discard(table)
                if is_void or isinstance(moved, AnabranchError):
                    void |= {other for other, each in under_way.items() if table in each.after}
                if is_void:
                    continue
                if isinstance(moved, AnabranchError) and moved.code == GUARD_TRIPPED:
                    under_way[table] = item
                    flow.add(table, self._request_in_full(runner, item))
                else:
                    self._finish(item, moved)
                    yield item

    def _located(self, runner: Runner, requests: Mapping[str, Request]) -> dict[str, Moved | AnabranchError | None]:
        if not requests:
            return {}
        moved = located_together(runner, list(requests.values()))
        if moved is None:
            raise TooLargeError
        return dict(zip(requests, moved, strict=True))

    def _request_in_full(self, runner: Runner, item: Item) -> Request:
        """The change without a guard, whatever it has to read."""
        work, part = item.work, item.part
        plan = delta(part, self._inputs.changed_tables(work.node, work.program)) or full_and_diff(part)
        return Request(self._bound(runner, work, plan), self._inputs.stored(item.stored), item.stored.table)

    def _requests(self, runner: Runner, items: list[Item]) -> dict[Item, Request | None]:
        """What to ask for: of the items that are ready, and of those that can take what these change as plans."""
        requests: dict[Item, Request | None] = {}
        ahead: dict[str, Relation] = {}
        for item in items:
            if not self._can_follow(item, ahead, {each.stored.table for each in requests}):
                continue
            request = self._request(runner, item, ahead)
            if item.after and request is not None and not is_moderate(request.change, request.guard):
                continue
            requests[item] = request
            change = Empty(item.stored.columns) if request is None else request.change
            if is_moderate(change) and comes_out_the_same(change):
                ahead[item.stored.table] = change
        return requests

    def _can_follow(self, item: Item, ahead: Mapping[str, Relation], asked: set[str]) -> bool:
        """Whether all that the part waits for is worked out in the same job, and what it reads of it is a plan."""
        if not item.after <= asked:
            return False
        node = item.work.node
        read = tables_of(item.part.relation)
        shown = {table: self._inputs.shown_part(node, table) for table in read}
        waited_for = {table: part for table, part in shown.items() if part is not None and part.table in item.after}
        return all(
            part.table in ahead and self._inputs.has_seen_all(node, table) and self._inputs.is_here(part)
            for table, part in waited_for.items()
        )

    def _alone(self, runner: Runner, item: Item) -> None:
        """Work one part out by jobs of its own, in full if its delta raises."""
        work = item.work
        if work.error is not None:
            return
        started = time.perf_counter()
        self._engine.under(work.node.session)
        try:
            try:
                moved = self._moved(runner, item)
            except PySparkException as error:
                if work.choice.action is not Action.DIFFERENTIAL:
                    raise
                log.info("the delta query of %s raised, it is run in full: %s", work.node.name, error)
                work.choice = Choice(Action.FULL, DELTA_RAISED)
                moved = self._moved(runner, item)
            self._finish(item, moved)
        except Exception as error:
            work.error = failure_of(work.node, error)
        work.seconds += time.perf_counter() - started

    def _moved(self, runner: Runner, item: Item) -> Moved | None:
        limit = self._engine.settings.integer("fused_refresh_max_delta_rows")
        work, part, stored = item.work, item.part, item.stored
        if self._inputs.is_new(work.node):
            plan = self._bound(runner, work, initial(part))
            return runner.filled(plan, stored.columns, limit, self._engine.store)
        request = self._request(runner, item)
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
                (request,) = self._waves(runner, [self._request_in_full(runner, item)])
        return runner.located(request.change, request.stored, limit, self._engine.store, stored.table)

    def _waves(self, runner: Runner, requests: Sequence[Request]) -> list[Request]:
        return run_waves(runner, requests, self._tables)

    def _request(self, runner: Runner, item: Item, ahead: Mapping[str, Relation] = NOTHING) -> Request | None:
        work, stored = item.work, item.stored
        plans = plans_of(item.part, work.choice, self._inputs.changed_tables(work.node, work.program, ahead))
        if plans is None:
            return None
        rows = self._inputs.stored(stored)
        if isinstance(plans, Guarded):
            change = self._bound(runner, work, plans.change, ahead)
            return Request(change, rows, stored.table, self._bound(runner, work, plans.guard, ahead))
        return Request(self._bound(runner, work, plans, ahead), rows, stored.table)

    def _bound(
        self, runner: Runner, work: NodeWork, plan: Relation, ahead: Mapping[str, Relation] = NOTHING
    ) -> Relation:
        """The plan with every leaf bound to the rows it stands for in this tick."""
        rows_after = partial(self._inputs.rows_after, work.node)
        clock = self._inputs.clock(work.node)
        text = partial(run_over, self._engine, self._inputs.pinned, work.node, rows_after, clock)
        named, frames = self._inputs.name_leaves(plan, work.node, text, ahead)
        for leaf, rows in frames.items():
            if not runner.is_bound(leaf):
                _bind(runner, leaf, rows())
        unchanged: dict[Relation, Relation] = {leaf: Empty(leaf.columns) for leaf in frames if runner.is_empty(leaf)}
        if not ahead and not unchanged:
            return named
        return simplify(transform(named, lambda each: unchanged.get(each, each)))

    def _finish(self, item: Item, moved: Moved | AnabranchError | None) -> None:
        work, stored = item.work, item.stored
        work.left.remove((item.part, stored))
        if isinstance(moved, AnabranchError):
            work.error = moved
        elif moved is not None:
            is_new = self._inputs.is_new(work.node)
            self._inputs.moved[stored.table] = moved
            work.actions.extend(actions_of(stored, moved, self._inputs, is_new))
            if stored is work.node.shown:
                work.rows_inserted, work.rows_deleted = moved.shown_counts(stored)


def _cheaper(estimate: Estimate) -> Choice:
    return Choice(estimate.action, estimate.reason, estimate)


def _bind(runner: Runner, leaf: Relation, rows: Rows) -> None:
    """A change is summed up over the columns that are read: updates of others leave nothing of it."""
    if isinstance(rows, pa.Table):
        weight = [WEIGHT] if isinstance(leaf, Change) else []
        own = rows.select([*leaf.names, *weight])
        runner.bind_table(leaf, consolidated(own) if weight and can_tell_apart(leaf.columns) else own)
    else:
        runner.bind(leaf, rows)
