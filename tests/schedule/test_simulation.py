"""Random lakes lived through tick by tick; `World` checks the promises on every commit."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta

import pytest

from anabranch.schedule import settle
from anabranch.schedule.schedules import parse_schedule
from anabranch.schedule.state import GroupSchedule, Hold, HoldKind, NodeState
from anabranch.store.protocol import Version
from tests.schedule.simulation import SCHEDULES, World, random_node, random_world


def pause_or_resume(world: World, chance: random.Random) -> None:
    node = world.nodes[chance.choice(list(world.nodes))]
    if node.immediate:
        return
    kind = chance.choice((HoldKind.PAUSED, HoldKind.SUSPENDED, HoldKind.GATED))
    world.nodes[node.id] = replace(node, hold=None if node.hold else Hold(kind))


def alter(world: World, chance: random.Random) -> None:
    node = world.nodes[chance.choice(list(world.nodes))]
    inputs = node.inputs
    if chance.random() < 0.7 and not node.immediate:
        tables = [t for t in (*world.sources, *world.nodes) if t != node.id]
        inputs = tuple(dict.fromkeys(chance.choices(tables, k=chance.choice((1, 2, 3)))))
    world.alter(replace(node, generation=node.generation + 1, inputs=inputs))


def replace_source(world: World, chance: random.Random) -> None:
    """Drop a source and create it again: the same name, another table."""
    old = chance.choice(list(world.sources))
    new = world.new_id("s")
    world.snapshot += 1
    world.sources = {
        new if s == old else s: Version(world.snapshot) if s == old else v for s, v in world.sources.items()
    }
    for node in list(world.nodes.values()):
        world.nodes[node.id] = replace(node, inputs=tuple(new if table == old else table for table in node.inputs))


def step(world: World, chance: random.Random) -> None:
    happens = chance.random()
    if happens < 0.35:
        world.write(*chance.sample(list(world.sources), k=chance.randint(1, min(2, len(world.sources)))))
    elif happens < 0.43:
        pause_or_resume(world, chance)
    elif happens < 0.46:
        alter(world, chance)
    elif happens < 0.49 and len(world.nodes) < 40:
        world.create(random_node(world, [*world.sources, *world.nodes]))
    elif happens < 0.50:
        replace_source(world, chance)
    elif happens < 0.52:
        node = world.nodes[chance.choice(list(world.nodes))]
        if not node.immediate:
            world.nodes[node.id] = replace(node, schedule=parse_schedule(chance.choice(SCHEDULES)))
    elif happens < 0.57:
        count = chance.randint(1, len(world.nodes))
        world.tick(frozenset(chance.sample(list(world.nodes), k=count)), failing=0.03)
    else:
        world.now += timedelta(seconds=chance.choice((0.5, 1, 1, 2, 3)))
        world.tick(failing=0.03 if chance.random() < 0.3 else 0.0)


def live_through(seed: int, steps: int) -> World:
    chance = random.Random(seed)
    world = random_world(seed, chance.choice((3, 8, 15, 25, 32)), chance.randint(1, 6))
    for _ in range(steps):
        step(world, chance)
    return world


@pytest.mark.parametrize("seed", range(100))
def test_the_promises_hold_in_random_lakes(seed: int) -> None:
    assert live_through(seed, 200).commits > 10


@pytest.mark.parametrize("seed", [1128, 1154, 1240, 1254, 1307])
def test_seeds_that_once_failed(seed: int) -> None:
    """In turn: a definition changed below a held node; clocks of which one begins like the other; a table computed
    from an older definition of itself, by way of a held node; clocks twice more."""
    live_through(seed, 300)


@pytest.mark.parametrize("seed", range(200, 210))
def test_after_recovery_one_tick_catches_up(seed: int) -> None:
    world = live_through(seed, 120)
    for node in list(world.nodes.values()):
        world.nodes[node.id] = replace(node, hold=None)
    world.tick(frozenset(world.nodes))
    for node in world.nodes.values():
        for source in world.state.shape.graph.sources_below(node.id) & world.sources.keys():
            assert world.contents[node.id].versions(source) == {world.sources[source]}


def test_the_checks_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the agreement check the same worlds break promise 2(a)."""
    monkeypatch.setattr(settle, "agree", lambda *_: None)
    with pytest.raises(AssertionError, match="mixes versions"):
        [live_through(seed, 200) for seed in range(20)]


def test_the_checks_of_groups_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Movers that do not take their groups along break promise 2(c)."""

    def add_alone(self: settle._Growth, nodes: list[str], by: str | None) -> None:
        self._result.pulled_by |= {node: by for node in nodes if node in self._movable}

    monkeypatch.setattr(settle._Growth, "add", add_alone)
    with pytest.raises(AssertionError, match="left behind"):
        [live_through(seed, 200) for seed in range(20)]


def test_a_slow_group_is_never_starved() -> None:
    for seed in range(20):
        world = slow_world(seed)
        moved_at = dict.fromkeys(world.nodes, world.now)
        for _ in range(60):
            world.now += timedelta(seconds=1)
            world.write(*world.sources)
            for decision in world.tick():
                if decision.advances:
                    moved_at[decision.node] = world.now
            assert max(world.now - at for at in moved_at.values()) <= timedelta(seconds=8)


def slow_world(seed: int) -> World:
    chance = random.Random(seed)
    world = World(chance, sources={"s": Version(0), "t": Version(0)})
    for _ in range(12):
        node: NodeState = random_node(world, [*world.sources, *world.nodes], plain=True)
        if node.inputs:
            seconds = parse_schedule(chance.choice(("1s", "2s", "5s", "7s")))
            world.create(replace(node, schedule=seconds, group_schedule=GroupSchedule.SLOWEST, clock=None))
    return world
