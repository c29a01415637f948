"""Who moves, and to where.

    target(n)  =  merge over the inputs i of n of  pin(i)      where i is a source
                                                   target(i)   where i moves in this tick
                                                   frontier(i) where it does not
    n waits   <=>  these do not agree

Starting from the due nodes the movers grow: by whole atomic groups, closed over groups that share a moving node, and by
the members of a convergence whose inputs would disagree. A node that would wait all the same is given up: for this tick
it counts as held, so it is not due, moves nowhere and pulls nothing. Then the attempt is repeated without it, until no
mover waits. Without held nodes there is one round: every node between a split and a mover moves, all from one state of
the split, so inputs agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from anabranch.graph.frontier import CLOCK, THIS_COMMIT, Disagreement, Frontier, agree, merge
from anabranch.schedule.state import GraphState, Group, NodeState, Pin
from anabranch.store.protocol import Version


@dataclass(frozen=True)
class Situation:
    """A tick to be settled: who may move, and who becomes due by itself.

    `forced` nodes move their group although others of it are not due. `always` is the node whose new definition makes
    the tick: nothing is settled without it.
    """

    state: GraphState
    pin: Pin
    unheld: frozenset[str]
    self_moving: frozenset[str]
    forced: frozenset[str] = frozenset()
    always: frozenset[str] = frozenset()


@dataclass
class Settlement:
    """The movers (and who took each along), where each arrives, which have new rows, which wait and for what."""

    pulled_by: dict[str, str | None] = field(default_factory=dict)
    targets: dict[str, Frontier] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    waits: dict[str, Disagreement] = field(default_factory=dict)
    waits_for_group: set[str] = field(default_factory=set)


def settle(situation: Situation, due: Iterable[str]) -> Settlement:
    """The final movers of a tick in which `due` are due."""
    given_up: dict[str, Disagreement] = {}
    wanted = situation.unheld.intersection(due)
    while True:
        attempt = _attempt(situation, wanted - given_up.keys(), given_up.keys())
        if not attempt.waits:
            attempt.waits = given_up
            return attempt
        given_up |= _hopeless(situation, wanted, attempt, given_up)


def _hopeless(
    situation: Situation, wanted: frozenset[str], attempt: Settlement, given_up: dict[str, Disagreement]
) -> dict[str, Disagreement]:
    """Due nodes that wait even if nothing else is due: what they pull may make others wait. If none: all that wait."""
    found: dict[str, Disagreement] = {}
    for node in attempt.waits:
        if node in wanted:
            alone = _attempt(situation, frozenset({node}), given_up.keys())
            if node in alone.waits:
                found[node] = attempt.waits[node]
    return found or attempt.waits


def _attempt(situation: Situation, due: frozenset[str], given_up: Set[str]) -> Settlement:
    result = Settlement()
    growth = _Growth(situation, result, given_up)
    state = situation.state
    starting = {node for node in due if _starts(situation, node, due, given_up)}
    result.waits_for_group |= due - starting
    starting |= situation.always | {node.id for node in state.nodes.values() if node.immediate}
    growth.add(sorted(starting, key=state.shape.graph.position.__getitem__), None)
    asked: set[str] = set()
    while True:
        walk(situation, result)
        before = len(result.pulled_by)
        for node_id in [node for node in result.waits if node not in asked]:
            asked.add(node_id)
            growth.pull_for(node_id, result.waits[node_id])
        if len(result.pulled_by) == before:
            result.waits_for_group -= result.pulled_by.keys()
            return result


def _starts(situation: Situation, node: str, due: frozenset[str], given_up: Set[str]) -> bool:
    """Whether being due is enough: no atomic group, a group that moves with its fastest, or all of a slow one due."""
    shape = situation.state.shape
    indexes = shape.atomic_groups_of.get(node, ())
    return (
        not indexes
        or node in situation.forced
        or any(_is_ready(situation, shape.groups[index], due, given_up) for index in indexes)
    )


def _is_ready(situation: Situation, group: Group, due: frozenset[str], given_up: Set[str]) -> bool:
    if not group.slowest:
        return True
    waited_for = [
        node
        for node in group.nodes
        if node in situation.unheld and node in situation.self_moving and node not in given_up
    ]
    return all(node in due for node in waited_for)


class _Growth:
    """Adds movers, with all that has to move along."""

    def __init__(self, situation: Situation, result: Settlement, given_up: Set[str]) -> None:
        self._movable = situation.unheld - given_up
        self._result = result
        self._nodes = situation.state.nodes
        self._shape = situation.state.shape
        self._closed_groups: set[int] = set()

    def add(self, nodes: Iterable[str], pulled_by: str | None) -> None:
        """Movers, and the unheld nodes of every atomic group that they, or those added with them, are in."""
        moving = self._result.pulled_by
        open_ = [(node, pulled_by) for node in nodes if node in self._movable and node not in moving]
        moving.update(open_)
        while open_:
            node, _ = open_.pop(0)
            for index in self._shape.atomic_groups_of.get(node, ()):
                if index in self._closed_groups:
                    continue
                self._closed_groups.add(index)
                group = self._shape.groups[index].nodes
                along = [(other, node) for other in group if other in self._movable and other not in moving]
                moving.update(along)
                open_.extend(along)

    def pull_for(self, convergence: str, disagreement: Disagreement) -> None:
        """Everything between the splits and a convergence whose inputs disagree, and what reflects old definitions."""
        group = self._shape.group_at.get(convergence)
        self.add(group.nodes if group else (), convergence)
        graph = self._shape.graph
        ancestors = sorted(graph.ancestors(convergence), key=graph.position.__getitem__)
        computed_from = graph.descendants(disagreement.table)
        self.add(
            (
                node
                for node in ancestors
                if (disagreement.kind == "node" and node in computed_from)
                or (node not in computed_from and _reflects(self._nodes[node].frontier, disagreement.table))
            ),
            convergence,
        )


def _reflects(frontier: Frontier | None, table: str) -> bool:
    """Whether the table went into the rows, be it by a definition below that has changed since."""
    if frontier is None:
        return False
    return table in frontier.sources or table in frontier.generations or (table == CLOCK and frontier.clock is not None)


def walk(situation: Situation, result: Settlement) -> None:
    """Work out, inputs before readers, where each mover arrives or why it waits."""
    state, graph = situation.state, situation.state.shape.graph
    result.targets, result.changed, result.waits = {}, set(), {}
    for node_id in sorted(result.pulled_by, key=graph.position.__getitem__):
        node = state.nodes[node_id]
        found = _target(situation, result, node)
        if isinstance(found, Disagreement):
            result.waits[node_id] = found
            continue
        result.targets[node_id] = found
        if _has_new_rows(situation.pin, node, found):
            result.changed.add(node_id)


def _target(situation: Situation, result: Settlement, node: NodeState) -> Frontier | Disagreement:
    """Where the node arrives. An input that still reflects an older definition of the node itself disagrees with it."""
    state, pin = situation.state, situation.pin
    handed_over: dict[str, Frontier] = {}
    for table in node.inputs:
        read_node = state.nodes.get(table)
        if read_node is None and table not in pin.versions:
            return Disagreement("gone", table, ((table, None),))
        if read_node is None:
            handed_over[table] = Frontier({table: pin.versions[table]})
            continue
        reflected = result.targets.get(table, read_node.frontier)
        if reflected is None:
            return Disagreement("missing", table, ((table, None),))
        handed_over[table] = reflected.seen_by_readers(table, read_node.generation)
    if node.clock:
        handed_over[CLOCK] = Frontier(clock=pin.clock_for(node.clock))
    disagreement = agree(handed_over, state.shape.graph.sources_below)
    if disagreement is not None:
        return disagreement
    for table, frontier in handed_over.items():
        if node.id in frontier.generations:
            values = (table, str(frontier.generations[node.id])), (node.id, str(node.generation))
            return Disagreement("node", node.id, values)
    read = {table: THIS_COMMIT if table in result.changed else pin.snapshot for table in node.inputs}
    return merge(handed_over.values(), read)


def _has_new_rows(pin: Pin, node: NodeState, target: Frontier) -> bool:
    """Whether anything below changed: sources, definitions, the clock, or an input that was repaired."""
    if node.must_refresh or node.frontier is None or not node.frontier.reflects_same(target):
        return True
    return any(
        at == THIS_COMMIT or _is_newer(pin.versions.get(table), node.frontier.inputs.get(table))
        for table, at in target.inputs.items()
    )


def _is_newer(changed: Version | None, read: Version | None) -> bool:
    return changed is not None and read is not None and read != THIS_COMMIT and changed > read
