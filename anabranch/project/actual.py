"""What a lake is, in the same words as what a project says it should be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch.algebra.relation import Column
from anabranch.definitions import SETTING
from anabranch.pinned import Pinned
from anabranch.project.desired import Desired

PROJECT = "project/"


@dataclass(frozen=True)
class ActualTable:
    """A stream table as it is; `views` are the texts of the views that its rows were made with."""

    name: str
    query: str
    schedule: str | None = None
    refresh_mode: str = "AUTO"
    diamond_consistency: str | None = None
    diamond_schedule_policy: str | None = None
    views: Mapping[str, str] = field(default_factory=dict)
    readers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Actual:
    """A lake: everything by its name in lower case. `managed` is what this project made or took over."""

    tables: Mapping[str, ActualTable] = field(default_factory=dict)
    views: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    managed: frozenset[str] = frozenset()


def actual_of(pinned: Pinned, project: str) -> Actual:
    """The lake at a snapshot, as a project of that name sees it."""
    readers = pinned.graph.readers
    stored = {key.removeprefix(SETTING): text for key, text in pinned.documents.items() if key.startswith(SETTING)}
    return Actual(
        {
            node.name.lower(): ActualTable(
                node.name,
                node.query,
                node.schedule,
                node.refresh_mode.value,
                node.diamond_consistency,
                node.diamond_schedule_policy,
                node.views,
                tuple(pinned.nodes[each].name.lower() for each in readers.get(node.id, ())),
            )
            for node in pinned.nodes.values()
        },
        {name: text for name, (_, text) in pinned.views.items()},
        {source.name.lower(): source.columns for source in pinned.sources.values()},
        stored,
        frozenset(json.loads(pinned.documents.get(PROJECT + project, "[]"))),
    )


def managed_by(desired: Desired) -> str:
    """The document that lists what a project takes care of."""
    kinds = {"table": desired.tables, "view": desired.views, "source": desired.sources, "setting": desired.settings}
    return json.dumps(sorted(f"{kind}/{name}" for kind, names in kinds.items() for name in names))
