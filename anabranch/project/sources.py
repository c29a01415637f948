"""Sources of a project: made when they are missing, given new columns, and never emptied without being told to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from anabranch.algebra.relation import Column
from anabranch.errors import QueryError
from anabranch.project.actual import Actual
from anabranch.project.desired import Desired, WantedSource
from anabranch.project.steps import Kind, Step, Verb

_ALIASES = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
}


def source_steps(desired: Desired, actual: Actual) -> Iterator[Step]:
    """What is to happen to sources."""
    for name, wanted in desired.sources.items():
        if name not in actual.sources:
            columns = tuple(f"{each.name} {each.type}" for each in wanted.columns)
            yield Step(Verb.CREATE, Kind.SOURCE, wanted.name, columns, place=wanted.place)
            continue
        added, dropped = column_changes(wanted, actual.sources[name])
        details = (*(f"add {each}" for each in added), *(f"drop {each}" for each in dropped))
        if details:
            lost = bool(dropped)
            yield Step(Verb.ALTER, Kind.SOURCE, wanted.name, details, loses_data=lost, place=wanted.place)
        elif f"source/{name}" not in actual.managed:
            yield Step(Verb.ADOPT, Kind.SOURCE, wanted.name, place=wanted.place)
    for name in actual.sources:
        if name not in desired.sources and f"source/{name}" in actual.managed:
            yield Step(Verb.DROP, Kind.SOURCE, name, loses_data=True)


def column_changes(wanted: WantedSource, columns: tuple[Column, ...]) -> tuple[list[str], list[str]]:
    """Names of columns to add and to drop; another type for a column that is there is refused."""
    types = {each.name.lower(): each.type for each in columns}
    names = {each.name.lower() for each in wanted.columns}
    for each in wanted.columns:
        there = types.get(each.name.lower())
        if there is not None and simple(each.type) != simple(there):
            error = QueryError(
                "COLUMN_TYPE_CHANGED",
                f"column {each.name!r} of {wanted.name!r} is to be {each.type}, and is {there} in the lake",
                "a column's type cannot be changed in place",
                "add a column of the new type under another name and fill it, or drop the old one first",
            )
            error.place = str(wanted.place)
            raise error
    added = [each.name for each in wanted.columns if each.name.lower() not in types]
    return added, [each.name for each in columns if each.name.lower() not in names]


def simple(type: str) -> str:
    """A type as Spark writes it, for types that are written in several ways."""
    text = re.sub(r"\s+", "", type.lower())
    text = re.sub(r"[a-z_]+", lambda word: _ALIASES.get(word.group(), word.group()), text)
    return re.sub(r"decimal(?!\()", "decimal(10,0)", text)
