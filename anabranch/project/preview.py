"""What a plan would make of each stream table, found out without changing the lake.

Sources that are still to be made are put beside those that are there, so that every query can be compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from anabranch.algebra.relation import Column
from anabranch.definition_statements import columns_of_definition
from anabranch.engine import Engine
from anabranch.immediate import check_definition
from anabranch.pinned import Pinned
from anabranch.project.define import definitions
from anabranch.project.desired import Desired, WantedSource
from anabranch.project.located import at
from anabranch.project.steps import Plan
from anabranch.situation import pin_of
from anabranch.store.protocol import MAIN, TableInfo


@dataclass(frozen=True)
class Preview:
    """Per stream table how it would be refreshed: DIFFERENTIAL, or FULL with the reason; and what is worth knowing."""

    modes: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


def preview(engine: Engine, desired: Desired, plan: Plan, now: datetime) -> Preview:
    """Compile what the plan makes; errors name file and line."""
    pinned = engine.pin()
    pin = pin_of(engine, pinned, now)
    planned = _with_sources(engine, pinned, desired)
    made = definitions(engine, planned, desired, plan, pin, now)
    for view in desired.views.values():
        with at(view.place, view.query):
            engine.compile(view.query, made.planned)
    for node in (*made.filled, *made.kept):
        with at(desired.tables[node.name.lower()].place):
            check_definition(made.planned, node)
    _check_columns_stay(engine, made.planned, desired)
    modes = {}
    for name, program in made.programs.items():
        reasons = "; ".join(f"{each.construct}: {each.reason}" for each in program.refusals)
        modes[name] = "DIFFERENTIAL" if program.is_differential else f"FULL, NOT_DIFFERENTIABLE: {reasons}"
    return Preview(modes, tuple(dict.fromkeys(made.notices)))


def _with_sources(engine: Engine, pinned: Pinned, desired: Desired) -> Pinned:
    tables = dict(pinned.tables)
    for name, source in desired.sources.items():
        with at(source.place):
            found = pinned.find(name)
            if found is None:
                columns = columns_of_definition(engine, source.columns)
                tables[f"planned/{name}"] = _info(f"planned/{name}", source.name, columns)
            else:
                tables[found] = _with_new_columns(engine, pinned.sources[found], source)
    return replace(pinned, tables=tables)


def _with_new_columns(engine: Engine, info: TableInfo, source: WantedSource) -> TableInfo:
    known = {each.name.lower() for each in info.columns}
    new = tuple(each for each in source.columns if each.name.lower() not in known)
    if not new:
        return info
    added = columns_of_definition(engine, new)
    fields = tuple(range(-len(added), 0))
    return replace(info, columns=(*info.columns, *added), field_ids=(*info.field_ids, *fields))


def _check_columns_stay(engine: Engine, planned: Pinned, desired: Desired) -> None:
    """Every query that reads a source which loses columns is compiled without them."""
    tables = dict(planned.tables)
    for name, source in desired.sources.items():
        info = planned.sources.get(planned.find(name) or "")
        names = {each.name.lower() for each in source.columns}
        if info is not None and any(each.name.lower() not in names for each in info.columns):
            kept = [number for number, each in enumerate(info.columns) if each.name.lower() in names]
            tables[info.id] = replace(
                info,
                columns=tuple(info.columns[number] for number in kept),
                field_ids=tuple(info.field_ids[number] for number in kept),
            )
    if tables == dict(planned.tables):
        return
    without = replace(planned, tables=tables)
    for wanted in desired.queries:
        with at(wanted.place, wanted.query):
            engine.compile(wanted.query, without)


def _info(key: str, name: str, columns: tuple[Column, ...]) -> TableInfo:
    return TableInfo(key, MAIN, name, columns, tuple(range(1, len(columns) + 1)))
