"""A lake without rows: what each table would hold is known by what it was computed from.

`Content` is the truth, kept without frontiers: the versions of each source and the definitions of each node that went
into a table. The promises are checked on it by code that shares nothing with the code under test: groups come from
deleting tables one by one, not from a walk with bit sets.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache

from anabranch.errors import StateError
from anabranch.graph.frontier import CLOCK, Frontier
from anabranch.schedule.decide import Action, Decision, after_failures, decide
from anabranch.schedule.plan import plan_alter, plan_creation
from anabranch.schedule.schedules import MANUAL, parse_schedule
from anabranch.schedule.state import (
    ClockUse,
    Consistency,
    GraphState,
    GroupSchedule,
    Hold,
    HoldKind,
    NodeState,
    Pin,
)
from anabranch.store.protocol import Version

START = datetime(2026, 5, 1, tzinfo=UTC)
Inputs = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Content:
    """Everything that went into a table: (source, version), (node, generation), clocks read."""

    facts: frozenset[tuple[str, object]] = frozenset()

    def versions(self, table: str) -> set[object]:
        return {value for name, value in self.facts if name == table}

    @cached_property
    def _texts(self) -> dict[str, str]:
        """The last text per name; the finest reading of the clock."""
        facts = sorted(self.facts, key=lambda fact: len(str(fact[1])))
        return {name.split()[0]: f"{v.number:09d}" if isinstance(v, Version) else str(v) for name, v in facts}

    def version(self, source: str) -> str:
        """The one version of a source, as text that sorts; of the clock, the finest reading; nothing if not read."""
        return self._texts.get(source, "")


def reachable(inputs: dict[str, tuple[str, ...]], end: str, without: str | None = None) -> set[str]:
    """Tables from which `end` is computed by ways that avoid `without`; `end` included."""
    found, open_ = set(), [end]
    while open_:
        table = open_.pop()
        if table not in found and table != without:
            found.add(table)
            open_.extend(inputs.get(table, ()))
    return found


@lru_cache(maxsize=4096)
def shared_parts(described: Inputs) -> tuple[tuple[str, str, frozenset[str]], ...]:
    """(convergence, source, nodes strictly between split and convergence), by the words of the definition."""
    inputs = dict(described)
    parts = []
    for convergence, direct in inputs.items():
        below = reachable(inputs, convergence)
        for source in below - inputs.keys():
            if sum(source in reachable(inputs, table) for table in set(direct)) < 2:
                continue
            passed = [
                t for t in below - {convergence} if source == t or source not in reachable(inputs, convergence, t)
            ]
            split = max(passed, key=lambda table: len(reachable(inputs, table) & set(passed)))
            between = {n for n in below & inputs.keys() if split in reachable(inputs, n)} - {split, convergence}
            parts.append((convergence, source, frozenset(between)))
    return tuple(parts)


@dataclass
class World:
    """Sources, nodes, time; steps change it and check the promises on every commit."""

    chance: random.Random
    sources: dict[str, Version] = field(default_factory=dict)
    nodes: dict[str, NodeState] = field(default_factory=dict)
    contents: dict[str, Content] = field(default_factory=dict)
    snapshot: int = 0
    now: datetime = START
    commits: int = 0
    serial: int = 0

    @property
    def state(self) -> GraphState:
        return GraphState(self.nodes)

    def pin(self) -> Pin:
        return Pin(Version(self.snapshot), dict(self.sources), self.now.replace(tzinfo=None).isoformat())

    def new_id(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    # steps

    def write(self, *sources: str) -> None:
        self.snapshot += 1
        for source in sources:
            self.sources[source] = Version(self.snapshot)

    def tick(self, requested: frozenset[str] | None = None, failing: float = 0.0) -> tuple[Decision, ...]:
        state, pin = self.state, self.pin()
        decisions = decide(state, pin, self.now, requested)
        self.check_decisions(decisions, requested)
        failed = {d.node for d in decisions if d.action is Action.MOVE and self.chance.random() < failing}
        final = after_failures(state, decisions, failed)
        self.commit(final, pin, failed)
        for node_id in failed:
            errors = self.nodes[node_id].consecutive_errors + 1
            hold = Hold(HoldKind.BACKING_OFF, until=self.now + timedelta(seconds=2**errors))
            self.nodes[node_id] = replace(self.nodes[node_id], consecutive_errors=errors, hold=hold)
        return final

    def create(self, node: NodeState) -> bool:
        pin = self.pin()
        try:
            decisions = plan_creation(self.state, node, pin, self.now)
        except StateError as error:
            self.check_refusal(error, node)
            return False
        self.nodes[node.id] = node
        self.commit(decisions, pin, set())
        return True

    def alter(self, node: NodeState) -> bool:
        pin = self.pin()
        try:
            decisions = plan_alter(self.state, node, pin, self.now)
        except StateError as error:
            self.check_refusal(error, node)
            return False
        self.nodes[node.id] = node
        self.commit(decisions, pin, set(), altered=node.id)
        for descendant in self.state.shape.graph.descendants(node.id):
            if not self.held_below((descendant,)):
                assert self.contents[descendant].versions(node.id) == {node.generation}, "a descendant was left behind"
        return True

    def check_refusal(self, error: StateError, node: NodeState) -> None:
        if error.code != "CYCLE":
            assert error.code == "INPUTS_DISAGREE"
            assert self.held_below(node.inputs), "refused without a held table below"

    # what a commit does

    def commit(self, decisions: tuple[Decision, ...], pin: Pin, failed: set[str], altered: str | None = None) -> None:
        before = dict(self.contents)
        moved = {d.node for d in decisions if d.action is Action.MOVE}
        if moved:
            self.snapshot += 1
            self.commits += 1
        for decision in decisions:
            if not decision.advances:
                continue
            node = self.nodes[decision.node]
            content = self.compute(node, pin)
            if decision.action is Action.NO_DATA:
                assert content == self.contents[node.id], "NO_DATA although something changed"
            self.contents[node.id] = content
            self.check_one_cut(node, content, decision.target)
            self.nodes[node.id] = replace(
                node,
                frontier=decision.target.settled_at(Version(self.snapshot)),
                refreshed_at=self.now,
                must_refresh=None,
                consecutive_errors=0,
                hold=None if node.hold and node.hold.kind is HoldKind.BACKING_OFF else node.hold,
            )
        self.check_groups(before, failed, altered)

    def compute(self, node: NodeState, pin: Pin) -> Content:
        """Inputs that moved before in this commit are read as they are after it."""
        facts: set[tuple[str, object]] = set()
        for table in node.inputs:
            if table in self.nodes:
                facts |= self.contents[table].facts | {(table, self.nodes[table].generation)}
            else:
                facts.add((table, pin.versions[table]))
        if node.clock:
            facts.add((f"clock {node.clock}", pin.clock_for(node.clock)))
        return Content(frozenset(facts))

    # the promises

    def check_one_cut(self, node: NodeState, content: Content, target: Frontier | None) -> None:
        """Promises 2(a) and 3: one version of each source, one definition of each node; the frontier is true."""
        assert target is not None
        seen = dict(content.facts)
        assert len(seen) == len(content.facts), f"{node.id} mixes versions: {sorted(content.facts, key=str)}"
        clocks = sorted(str(value) for name, value in seen.items() if name.startswith("clock "))
        assert all(each in (clocks[-1], clocks[-1][:10]) for each in clocks)
        assert target.clock == (clocks[-1] if clocks else None)
        assert {**target.sources, **target.generations} == {
            name: value for name, value in seen.items() if not name.startswith("clock ")
        }
        assert target.inputs.keys() == set(node.inputs)
        assert node.id not in seen, f"{node.id} is computed from an older definition of itself"

    def check_groups(self, before: dict[str, Content], failed: set[str], altered: str | None) -> None:
        """Promise 2(c): where one moved on a shared source, no free one is left behind it.

        Free is a node that is neither held nor computed from a held one. One that is may move as well, as far as the
        held one has come: never past a free one.
        """
        for convergence, source, between in shared_parts(self.described()):
            if self.nodes[convergence].consistency is not Consistency.ATOMIC or self.nodes[convergence].immediate:
                continue
            group = {node for node in (*between, convergence) if not self.nodes[node].immediate}
            moved = {n for n in group if n in before and before[n].version(source) != self.contents[n].version(source)}
            free = {node for node in group if not self.held_below((node,), failed, but=altered)} if moved else set()
            for node in free:
                for other in moved:
                    here, there = self.contents[node].version(source), self.contents[other].version(source)
                    arrived = here == there or (
                        source == CLOCK and here[:10] == there[:10] and 10 in (len(here), len(there))
                    )
                    assert arrived or (other not in free and here > there), (
                        f"{node} left behind on {source} in the group of {convergence}"
                    )

    def described(self) -> Inputs:
        return tuple((n.id, (*n.inputs, CLOCK) if n.clock else n.inputs) for n in self.nodes.values())

    def held_below(self, tables: tuple[str, ...], failed: set[str] = frozenset(), but: str | None = None) -> set[str]:
        """Held or failed nodes among these and everything they are computed from."""
        inputs = {node.id: node.inputs for node in self.nodes.values()}
        below = {table for each in tables for table in reachable(inputs, each)} & self.nodes.keys()
        return {node for node in below - {but} if self.is_held(node) or node in failed}

    def is_held(self, node: str) -> bool:
        hold = self.nodes[node].hold
        return hold is not None and (hold.until is None or self.now < hold.until)

    def check_decisions(self, decisions: tuple[Decision, ...], requested: frozenset[str] | None) -> None:
        """Held nodes stay; a wait has a held node below; what is due and free of those moves; no pull is in vain."""
        by_node = {decision.node: decision for decision in decisions}
        assert list(by_node) == list(self.state.shape.graph.order)
        for decision in decisions:
            node = self.nodes[decision.node]
            held = self.is_held(node.id) and not (
                node.hold.kind is HoldKind.BACKING_OFF and node.id in (requested or ())
            )
            assert (decision.action is Action.HELD) == held
            assert decision.advances == (decision.target is not None)
            if decision.pulled_by is not None:
                assert by_node[decision.pulled_by].advances, "pulled for a node that waits"
            if decision.reason == "WAITING_FOR_FRONTIER":
                assert self.held_below(node.inputs), f"{node.id} waits although nothing below it is held"
            if self.is_due(node, requested) and not self.held_below((node.id,)) and not self.in_slow_group(node.id):
                assert decision.advances, f"{node.id} is due, free, and starved: {decision}"

    def is_due(self, node: NodeState, requested: frozenset[str] | None) -> bool:
        if requested is not None:
            return node.id in requested
        seconds = getattr(node.schedule, "seconds", None)
        return seconds is not None and node.refreshed_at + timedelta(seconds=seconds) <= self.now

    def in_slow_group(self, node: str) -> bool:
        return any(
            self.nodes[convergence].group_schedule is GroupSchedule.SLOWEST and node in (*between, convergence)
            for convergence, _, between in shared_parts(self.described())
        )


SCHEDULES = ("1s", "2s", "3s", "5s", "7s", "calculated", None)


def random_node(world: World, tables: list[str], plain: bool = False) -> NodeState:
    chance = world.chance
    near = tables[-8:] if chance.random() < 0.5 else tables
    inputs = tuple(dict.fromkeys(chance.choices(near, k=chance.choice((1, 1, 2, 2, 3)))))
    if chance.random() < 0.03:
        inputs = ()
    immediate = not plain and chance.random() < 0.08
    if immediate:
        immediates = [t for t in tables if t not in world.nodes or world.nodes[t].immediate]
        inputs = tuple(dict.fromkeys(chance.choices(immediates, k=2)))
    return NodeState(
        id=world.new_id("n"),
        name="",
        inputs=inputs,
        schedule=MANUAL if immediate else parse_schedule(chance.choice(SCHEDULES)),
        mode="IMMEDIATE" if immediate else "AUTO",
        consistency=Consistency.NONE if chance.random() < 0.25 else Consistency.ATOMIC,
        group_schedule=GroupSchedule.SLOWEST if chance.random() < 0.15 else GroupSchedule.FASTEST,
        clock=None if immediate or chance.random() < 0.93 else chance.choice(list(ClockUse)),
    )


def random_world(seed: int, nodes: int, sources: int) -> World:
    chance = random.Random(seed)
    world = World(chance)
    world.sources = {world.new_id("s"): Version(0) for _ in range(sources)}
    for _ in range(nodes):
        assert world.create(random_node(world, [*world.sources, *world.nodes]))
        if chance.random() < 0.3:
            world.write(chance.choice(list(world.sources)))
            world.now += timedelta(seconds=1)
            world.tick()
    return world
