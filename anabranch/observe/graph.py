"""The graph of a lake as values that print well: diamond groups and dependency trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

from anabranch.engine import Engine
from anabranch.graph.dag import Dependency, tree_lines
from anabranch.graph.frontier import CLOCK
from anabranch.observe import html
from anabranch.pinned import Pinned
from anabranch.schedule.state import Group
from anabranch.situation import graph_state


@dataclass(frozen=True)
class Diamond:
    """Nodes between which paths from shared sources part and meet again in the convergence.

    `last_moved` is the snapshot in which a node of the group was last refreshed with new rows or a new frontier.
    """

    convergence: str
    members: tuple[str, ...]
    shared_sources: tuple[str, ...]
    consistency: str
    schedule_policy: str
    last_moved: int | None

    def __str__(self) -> str:
        moved = "never moved" if self.last_moved is None else f"last moved in snapshot {self.last_moved}"
        return (
            f"{self.convergence} <- {', '.join(self.members) or 'no node between'}\n"
            f"  shared sources {', '.join(self.shared_sources)}; {self.consistency}, {self.schedule_policy}; {moved}"
        )


@dataclass(frozen=True)
class Diamonds(Sequence[Diamond]):
    """All diamond groups of a lake, in the order of their convergences."""

    groups: tuple[Diamond, ...]

    @overload
    def __getitem__(self, index: int) -> Diamond: ...
    @overload
    def __getitem__(self, index: slice) -> Diamonds: ...
    def __getitem__(self, index: int | slice) -> Diamond | Diamonds:
        return Diamonds(self.groups[index]) if isinstance(index, slice) else self.groups[index]

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[Diamond]:
        return iter(self.groups)

    def __repr__(self) -> str:
        return "\n".join(str(each) for each in self.groups) or "no diamonds: no two paths from a source meet again"

    def _repr_html_(self) -> str:
        names = ("convergence", "members", "shared sources", "consistency", "schedule policy", "last moved in snapshot")
        rows = [[each.convergence, ", ".join(each.members), ", ".join(each.shared_sources)] for each in self.groups]
        for row, each in zip(rows, self.groups, strict=True):
            row += [each.consistency, each.schedule_policy, str(each.last_moved or "never")]
        return html.table(names, rows) if self.groups else html.paragraph(repr(self))


@dataclass(frozen=True)
class DependencyTree:
    """What a table is computed from, down to the sources; prints as an indented list."""

    dependency: Dependency = field(repr=False)
    names: Mapping[str, str] = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        return self.names.get(self.dependency.table, self.dependency.table)

    @property
    def inputs(self) -> tuple[DependencyTree, ...]:
        """The tables that it reads, each with what that one is computed from."""
        return tuple(DependencyTree(each, self.names) for each in self.dependency.inputs)

    def __repr__(self) -> str:
        return "\n".join(tree_lines(self.dependency, self.names))

    def _repr_html_(self) -> str:
        return html.preformatted(repr(self))


def diamond_groups(engine: Engine) -> Diamonds:
    """The diamond groups of the lake as it is now."""
    return diamonds_at(engine, engine.pin())


def diamonds_at(engine: Engine, pinned: Pinned) -> Diamonds:
    """The diamond groups at a snapshot."""
    return Diamonds(tuple(_diamond(pinned, group) for group in graph_state(engine, pinned).shape.groups))


def dependency_tree(engine: Engine, name: str) -> DependencyTree:
    """The tree below a source or stream table."""
    pinned = engine.pin()
    return DependencyTree(pinned.graph.tree(pinned.id_of(name)), pinned.graph.names)


def _diamond(pinned: Pinned, group: Group) -> Diamond:
    convergence = group.diamond.convergence
    moved = [pinned.conditions[node].moved_in for node in group.nodes]
    return Diamond(
        pinned.name_of(convergence),
        tuple(pinned.name_of(node) for node in group.nodes if node != convergence),
        tuple("the clock" if each == CLOCK else pinned.name_of(each) for each in group.diamond.shared_sources),
        "atomic" if group.atomic else "none",
        "slowest" if group.slowest else "fastest",
        max((each for each in moved if each is not None), default=None),
    )
