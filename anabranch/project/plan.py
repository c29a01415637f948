"""The difference between what a project says and what a lake is: a pure function of both.

    plan(desired, actual)  ->  steps; none when nothing is to be done

What the lake has and the project never made is left alone. What the project made and no longer names is dropped: a
stream table or view at once, since its rows can be computed again; a source only where losing its rows is allowed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from anabranch.errors import StateError
from anabranch.project.actual import Actual, ActualTable
from anabranch.project.desired import Desired, WantedTable, normal
from anabranch.project.located import at
from anabranch.project.sources import source_steps
from anabranch.project.steps import Kind, Plan, Step, Verb
from anabranch.sql.statements import table_names

SETTINGS_OF_A_TABLE = ("schedule", "refresh_mode", "diamond_consistency", "diamond_schedule_policy")


def plan(desired: Desired, actual: Actual) -> Plan:
    """What would make the lake as the project says."""
    _check_kinds(desired, actual)
    renamed = _renames(desired, actual)
    steps = [
        *source_steps(desired, actual),
        *_setting_steps(desired, actual),
        *_view_steps(desired, actual),
        *_table_steps(desired, actual, renamed),
    ]
    _check_readers(desired, actual, steps)
    _check_names_stay(desired, steps)
    return Plan(desired.name, tuple(steps), desired.notices)


def _renames(desired: Desired, actual: Actual) -> dict[str, str]:
    """New name -> old name, where one table of the project went and one with the same query came."""
    gone = [name for name in actual.tables if name not in desired.tables and f"table/{name}" in actual.managed]
    if not gone:
        return {}
    new = {name: normal(each.query) for name, each in desired.tables.items() if name not in actual.tables}
    old = {name: normal(actual.tables[name].query) for name in gone}
    came, went = Counter(new.values()), Counter(old.values())
    by_text = {text: name for name, text in old.items()}
    return {name: by_text[text] for name, text in new.items() if came[text] == 1 and went[text] == 1}


def _table_steps(desired: Desired, actual: Actual, renamed: Mapping[str, str]) -> Iterator[Step]:
    earlier = {new: actual.tables[old].name for new, old in renamed.items()}
    for name, wanted in desired.tables.items():
        old = renamed.get(name, name)
        if old not in actual.tables:
            shown: tuple[str, ...] = (f"schedule {wanted.schedule or 'none'}", f"refresh mode {wanted.refresh_mode}")
            yield Step(Verb.CREATE, Kind.TABLE, wanted.name, shown, rebuild=True, place=wanted.place)
            continue
        details, rebuild = _differences(wanted, actual.tables[old], desired, earlier)
        if old != name:
            shown = (f"from {actual.tables[old].name}", *details)
            yield Step(Verb.RENAME, Kind.TABLE, wanted.name, shown, rebuild, place=wanted.place, earlier=old)
        elif details:
            yield Step(Verb.ALTER, Kind.TABLE, wanted.name, details, rebuild, place=wanted.place)
        elif f"table/{name}" not in actual.managed:
            yield Step(Verb.ADOPT, Kind.TABLE, wanted.name, place=wanted.place)
    for name, table in actual.tables.items():
        dropped = name not in desired.tables and name not in renamed.values()
        if dropped and f"table/{name}" in actual.managed:
            yield Step(Verb.DROP, Kind.TABLE, table.name)


def _differences(
    wanted: WantedTable, table: ActualTable, desired: Desired, earlier: Mapping[str, str]
) -> tuple[tuple[str, ...], bool]:
    """What is to change about a stream table, and whether its rows have to be made again."""
    details: list[str] = []
    rebuild = False
    if wanted.query != table.query:
        rebuild = normal(wanted.query, earlier) != normal(table.query)
        details.append("query changed" if rebuild else "text changed, same query")
    for name, text in table.views.items():
        if name in desired.views and normal(desired.views[name].query) != normal(text):
            details.append(f"view {name} changed")
            rebuild = True
    for setting in SETTINGS_OF_A_TABLE:
        new, old = getattr(wanted, setting), getattr(table, setting)
        if new != old:
            details.append(f"{setting.replace('_', ' ')} {old or 'none'} -> {new or 'none'}")
    return tuple(details), rebuild


def _view_steps(desired: Desired, actual: Actual) -> Iterator[Step]:
    for name, wanted in desired.views.items():
        if name not in actual.views:
            yield Step(Verb.CREATE, Kind.VIEW, wanted.name, place=wanted.place)
        elif actual.views[name] != wanted.query:
            same = normal(actual.views[name]) == normal(wanted.query)
            details = ("text changed, same query" if same else "query changed",)
            yield Step(Verb.ALTER, Kind.VIEW, wanted.name, details, place=wanted.place)
        elif f"view/{name}" not in actual.managed:
            yield Step(Verb.ADOPT, Kind.VIEW, wanted.name, place=wanted.place)
    for name in actual.views:
        if name not in desired.views and f"view/{name}" in actual.managed:
            yield Step(Verb.DROP, Kind.VIEW, name)


def _setting_steps(desired: Desired, actual: Actual) -> Iterator[Step]:
    for name, value in desired.settings.items():
        if name not in actual.settings:
            yield Step(Verb.CREATE, Kind.SETTING, name, (value,))
        elif actual.settings[name] != value:
            yield Step(Verb.ALTER, Kind.SETTING, name, (f"{actual.settings[name]} -> {value}",))
        elif f"setting/{name}" not in actual.managed:
            yield Step(Verb.ADOPT, Kind.SETTING, name)
    for name in actual.settings:
        if name not in desired.settings and f"setting/{name}" in actual.managed:
            yield Step(Verb.DROP, Kind.SETTING, name)


def _check_kinds(desired: Desired, actual: Actual) -> None:
    """A name that is something else in the lake is refused."""
    kinds: dict[str, Mapping[str, Any]] = {
        "stream table": actual.tables,
        "view": actual.views,
        "source": actual.sources,
    }
    wanted: list[tuple[str, Mapping[str, Any]]] = [
        ("stream table", desired.tables),
        ("view", desired.views),
        ("source", desired.sources),
    ]
    for kind, names in wanted:
        for name, each in names.items():
            other = next((it for it, existing in kinds.items() if it != kind and name in existing), None)
            if other is not None:
                error = StateError(
                    "OTHER_KIND",
                    f"{each.name!r} is to be a {kind}, and is a {other} in the lake",
                    hint="rename it, or drop the other one first",
                )
                error.place = str(each.place)
                raise error


def _check_readers(desired: Desired, actual: Actual, steps: list[Step]) -> None:
    """A stream table that somebody outside of the project reads keeps its name."""
    for step in steps:
        name = _name_that_goes(step)
        if name is None or step.kind is not Kind.TABLE:
            continue
        others = [
            reader
            for reader in actual.tables[name].readers
            if reader not in desired.tables and f"table/{reader}" not in actual.managed
        ]
        if others:
            raise StateError(
                "TABLE_IS_READ",
                f"{name!r} is no longer in the project, and cannot go: others read it",
                f"these do, and are not of this project: {', '.join(others)}",
                "drop them first, or keep the file",
            )


def _check_names_stay(desired: Desired, steps: list[Step]) -> None:
    """What the project itself still reads under a name that goes is refused, with the file that reads it."""
    goes = ((_name_that_goes(step), step) for step in steps)
    gone = {name: step for name, step in goes if name is not None and name not in desired.tables}
    for wanted in desired.queries:
        with at(wanted.place, wanted.query):
            for parts in table_names(wanted.query):
                if parts[-1].lower() in gone:
                    raise StateError(
                        "DROPPED_BUT_READ",
                        f"{wanted.name!r} reads {parts[-1]!r}, which is no longer in the project",
                        f"the plan would be: {gone[parts[-1].lower()]}",
                        "keep the file, or change the query",
                    )


def _name_that_goes(step: Step) -> str | None:
    """The name under which there will be nothing any more."""
    if step.verb is Verb.DROP and step.kind is not Kind.SETTING:
        return step.name.lower()
    return step.earlier
