"""A lake as it was at one snapshot: everything that is read here is read there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anabranch import reads
from anabranch.engine import Engine
from anabranch.errors import StateError
from anabranch.graph.frontier import Frontier
from anabranch.pinned import Pinned, pin
from anabranch.sql.statement_nodes import SelectStatement
from anabranch.sql.statements import parse_statement
from anabranch.store.protocol import Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Snapshot:
    """One snapshot, to read from. `number` names it; all tables read through it show the same moment."""

    number: int
    _engine: Engine = field(repr=False, compare=False)

    @property
    def version(self) -> Version:
        return Version(self.number)

    def table(self, name: str) -> DataFrame:
        """A table's rows as they were."""
        return reads.table(self._engine, name, self.version)

    def sql(self, query: str) -> DataFrame:
        """A query over the tables as they were."""
        statement = parse_statement(query)
        if not isinstance(statement, SelectStatement):
            raise StateError(
                "SNAPSHOT_IS_READ_ONLY",
                f"snapshot {self.number} can only be read",
                f"the statement is: {query.strip()}",
                "write through the lake itself: lake.sql(...)",
            )
        return reads.run_select(self._engine, statement.query, self.version)

    def frontier(self, name: str) -> Frontier:
        """Which versions of its sources a stream table reflected."""
        pinned = self._pinned()
        return pinned.frontiers[pinned.node(name).id]

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the sources and stream tables that there were."""
        return tuple(self._pinned().table_names)

    def _pinned(self) -> Pinned:
        return pin(self._engine.store, self.version)


def snapshot_at(engine: Engine, number: int) -> Snapshot:
    """The handle on a snapshot that is still kept."""
    reads.check_snapshot(engine, Version(number))
    return Snapshot(number, engine)
