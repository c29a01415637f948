"""The order in which a project's tables are defined: what is read before what reads it."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from anabranch.errors import StateError
from anabranch.project.desired import Desired, WantedTable
from anabranch.project.located import at
from anabranch.sql.statements import table_names


def in_order(desired: Desired) -> list[WantedTable]:
    """The stream tables, inputs before readers; a circle is refused with the files that form it."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for name, wanted in desired.tables.items():
        with at(wanted.place, wanted.query):
            sorter.add(name, *_tables_read(desired, wanted.query, frozenset()))
    try:
        return [desired.tables[name] for name in sorter.static_order()]
    except CycleError as error:
        around = [desired.tables[name] for name in error.args[1]]
        raise StateError(
            "TABLES_READ_EACH_OTHER",
            f"these tables read each other: {' <- '.join(each.name for each in around)}",
            f"they are defined at {', '.join(str(each.place) for each in around[1:])}",
            "break the circle",
        ) from None


def _tables_read(desired: Desired, query: str, through: frozenset[str]) -> Iterator[str]:
    """The project's stream tables that a query reads, through its views too."""
    for parts in table_names(query):
        name = parts[-1].lower()
        if name in desired.tables:
            yield name
        elif name in desired.views and name not in through:
            yield from _tables_read(desired, desired.views[name].query, through | {name})
