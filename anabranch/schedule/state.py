"""What a decision is made from: the nodes with their frontiers, schedules and holds, and the pinned sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property, lru_cache

from anabranch.graph.dag import Graph
from anabranch.graph.diamonds import DiamondGroup, groups_of
from anabranch.graph.frontier import CLOCK, Frontier
from anabranch.schedule.schedules import MANUAL, Schedule
from anabranch.store.protocol import Version

IMMEDIATE = "IMMEDIATE"


class HoldKind(StrEnum):
    """Why a node does not move."""

    PAUSED = "PAUSED"
    SUSPENDED = "SUSPENDED"
    BACKING_OFF = "BACKING_OFF"
    GATED = "GATED"


@dataclass(frozen=True)
class Hold:
    """A node is held: by whom or why, and for a back-off until when."""

    kind: HoldKind
    text: str = ""
    until: datetime | None = None

    def active(self, now: datetime) -> bool:
        return self.until is None or now < self.until


class ClockUse(StrEnum):
    """What a node's own query reads of the time."""

    DATE = "DATE"
    INSTANT = "INSTANT"


class Consistency(StrEnum):
    """`diamond_consistency` of a convergence."""

    ATOMIC = "atomic"
    NONE = "none"


class GroupSchedule(StrEnum):
    """`diamond_schedule_policy` of a convergence."""

    FASTEST = "fastest"
    SLOWEST = "slowest"


@dataclass(frozen=True)
class NodeState:
    """One stream table as the scheduler sees it.

    `refreshed_at`: the start of the last tick in which it moved or had nothing to do. `must_refresh`: a reason code
    that makes it move although no source changed, such as ROW_NOT_THERE.
    """

    id: str
    name: str
    inputs: tuple[str, ...]
    schedule: Schedule = MANUAL
    mode: str = "AUTO"
    generation: int = 1
    frontier: Frontier | None = None
    refreshed_at: datetime | None = None
    hold: Hold | None = None
    consecutive_errors: int = 0
    consistency: Consistency = Consistency.ATOMIC
    group_schedule: GroupSchedule = GroupSchedule.FASTEST
    clock: ClockUse | None = None
    must_refresh: str | None = None

    @property
    def immediate(self) -> bool:
        return self.mode == IMMEDIATE


@dataclass(frozen=True)
class Pin:
    """One snapshot for the whole tick: per table its version then, and the instant that queries see as now.

    `versions` names every source; for nodes it may name the last snapshot that changed their rows. `clock` is an ISO
    instant in the lake's time zone; its first ten characters are the date.
    """

    snapshot: Version
    versions: Mapping[str, Version]
    clock: str = "1970-01-01T00:00:00"

    def clock_for(self, use: ClockUse) -> str:
        return self.clock[:10] if use is ClockUse.DATE else self.clock


@dataclass(frozen=True)
class Group:
    """A diamond group with the policy of its convergence. IMMEDIATE nodes count as sources and are left out."""

    diamond: DiamondGroup
    nodes: tuple[str, ...]
    atomic: bool
    slowest: bool


@dataclass(frozen=True)
class Shape:
    """All that stays as long as no definition changes: the graph, its groups, and which node is in which."""

    graph: Graph
    groups: tuple[Group, ...]
    atomic_groups_of: Mapping[str, tuple[int, ...]]
    group_at: Mapping[str, Group]


@dataclass(frozen=True)
class GraphState:
    """All nodes of a lake. `source_names` serve texts only."""

    nodes: Mapping[str, NodeState]
    source_names: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(nodes: Iterable[NodeState], source_names: Mapping[str, str] | None = None) -> GraphState:
        return GraphState({node.id: node for node in nodes}, source_names or {})

    @cached_property
    def shape(self) -> Shape:
        return _shape_of(tuple(_described(node) for node in self.nodes.values()))

    @cached_property
    def names(self) -> dict[str, str]:
        return {**self.source_names, **{node.id: node.name for node in self.nodes.values()}}

    def with_nodes(self, *nodes: NodeState) -> GraphState:
        """The state with nodes added or replaced; a cycle is refused."""
        changed = replace(self, nodes={**self.nodes, **{node.id: node for node in nodes}})
        graph_inputs = {each.id: each.inputs for each in changed.nodes.values()}
        Graph(graph_inputs, changed.names)
        return changed


_Described = tuple[str, tuple[str, ...], bool, bool, bool]


def _described(node: NodeState) -> _Described:
    """What the shape depends on: id, inputs, whether it is IMMEDIATE, atomic, slowest."""
    inputs = (*node.inputs, CLOCK) if node.clock else node.inputs
    atomic = node.consistency is Consistency.ATOMIC
    return node.id, inputs, node.immediate, atomic, node.group_schedule is GroupSchedule.SLOWEST


@lru_cache(maxsize=32)
def _shape_of(described: tuple[_Described, ...]) -> Shape:
    graph = Graph({node: inputs for node, inputs, *_ in described})
    immediate = {node for node, _, is_immediate, *_ in described if is_immediate}
    policies = {node: (atomic, slowest) for node, _, _, atomic, slowest in described}
    groups = []
    for diamond in groups_of(graph):
        nodes = tuple(node for node in diamond.nodes if node not in immediate)
        if diamond.convergence not in immediate and len(nodes) > 1:
            groups.append(Group(diamond, nodes, *policies[diamond.convergence]))
    atomic_groups_of: dict[str, list[int]] = {}
    for index, group in enumerate(groups):
        for node in group.nodes if group.atomic else ():
            atomic_groups_of.setdefault(node, []).append(index)
    return Shape(
        graph,
        tuple(groups),
        {node: tuple(indexes) for node, indexes in atomic_groups_of.items()},
        {group.diamond.convergence: group for group in groups},
    )
