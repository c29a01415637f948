"""A lake of stream tables beside a plain model of its sources, and the oracle that compares the two after each tick.

The oracle is Spark itself, in a session of its own: the sources are inline tables made from the model, never read
through the lake, and every stream table's settled query runs on them, all in one job. What the lake holds is read by
DuckDB, as any client of it would.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException

from anabranch import Lake
from anabranch.observe.report import Report
from anabranch.project.apply import apply_project
from anabranch.project.desired import Desired, Place, WantedTable
from anabranch.spark.quiet import quietly
from anabranch.spark.quote import quoted
from anabranch.store.protocol import MAIN, TableName
from tests.exactness.compare import AS_JSON, Bag, stored_bag, unlike, wanted_bag
from tests.exactness.model import Model, TableChange
from tests.sql.surface import surface_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_ROWS = 100_000


@dataclass
class Graph:
    """A lake, its sources' model, and of each stream table the settled text and the sources below it."""

    lake: Lake
    model: Model
    oracle: SparkSession
    settled: dict[str, str] = field(default_factory=dict)
    sources: dict[str, frozenset[str]] = field(default_factory=dict)
    _wanted: dict[str, Bag] = field(default_factory=dict)

    def create_sources(self) -> None:
        for name, schema in self.model.schemas.items():
            self.lake.sql(schema.definition)
            if self.model.rows[name]:
                self.lake.append(name, self._frame(name, list(self.model.rows[name].elements())))
        self._show(self.model.schemas)
        pinned = self.lake._engine.pin()
        for name in self.model.schemas:
            # Settled texts name tables by their identity in the lake.
            self.oracle.sql(f"CREATE TEMPORARY VIEW {quoted(pinned.id_of(name))} AS SELECT * FROM {name}")

    def create(self, queries: Mapping[str, str]) -> None:
        """Make the stream tables, all in one commit; one that is refused is named by the error's place."""
        wanted = {
            name: WantedTable(name, query, Place(name), refresh_mode="DIFFERENTIAL") for name, query in queries.items()
        }
        engine = self.lake._engine
        apply_project(engine, Desired("random", wanted))
        pinned = engine.pin()
        for name, query in queries.items():
            program = engine.program(pinned.node(name), pinned)
            text = surface_sql(program.relation) if program.relation is not None and program.is_settled else query
            columns = ", ".join(quoted(each.name) for each in program.columns)
            self.settled[name] = text
            self.sources[name] = frozenset(pinned.name_of(table) for table in program.tables)
            self.oracle.sql(f"CREATE TEMPORARY VIEW {name} ({columns}) AS {text}")

    def tick(self, rng: Random) -> tuple[dict[str, TableChange], Report]:
        """One random change of several sources, in one transaction, and one refresh."""
        change = self.model.random_change(rng)
        self.write(change)
        return change, self.lake.refresh()

    def write(self, change: dict[str, TableChange]) -> None:
        with self.lake.transaction():
            for name, each in change.items():
                inserted = self._frame(name, each.inserted) if each.inserted else None
                deleted = self._frame(name, each.deleted) if each.deleted else None
                self.lake.apply(name, insert=inserted, delete=deleted)
        self._show(change)

    def wrong(self) -> dict[str, tuple[list[str], list[str]]]:
        """By name of the stream table: rows that are missing, and rows that should not be there."""
        engine = self.lake._engine
        head = engine.store.head()
        stored = {name: engine.store.first_rows(TableName(MAIN, name), head, MOST_ROWS) for name in self.settled}
        self._ask({name: rows.schema for name, rows in stored.items() if name not in self._wanted})
        found = {name: unlike(self._wanted[name], stored_bag(rows)) for name, rows in stored.items()}
        return {name: (missing, unexpected) for name, (missing, unexpected) in found.items() if missing or unexpected}

    def raises(self, query: str) -> bool:
        """Whether a stream table's query, by name or in parentheses, cannot be run on the model as it is now."""
        try:
            with quietly():
                self.oracle.sql(f"SELECT {AS_JSON} FROM {query}").collect()
        except PySparkException:
            return True
        return False

    def set_aside(self, name: str) -> None:
        """Do without the stream table from now on."""
        self.lake.drop_stream_table(name)
        for known in (self.settled, self.sources, self._wanted):
            known.pop(name, None)

    def _ask(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Run these stream tables' settled queries on the model, all in one job."""
        rows: dict[str, list[str]] = {name: [] for name in schemas}
        if rows:
            parts = (f"SELECT '{name}' AS node, {AS_JSON} AS row FROM {name}" for name in rows)
            for node, row in self.oracle.sql(" UNION ALL ".join(parts)).coalesce(1).collect():
                rows[node].append(row)
        self._wanted |= {name: wanted_bag(rows[name], schema) for name, schema in schemas.items()}

    def _frame(self, name: str, rows: list[Any]) -> Any:
        return self.lake._engine.session.sql(self.model.schemas[name].select(rows))

    def _show(self, names: Iterable[str]) -> None:
        """Let the oracle see sources as they are now. What reads none of them is still what it was."""
        for name in names:
            self.oracle.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {self.model.select(name)}")
        touched = {name for name, sources in self.sources.items() if sources & set(names)}
        self._wanted = {name: bag for name, bag in self._wanted.items() if name not in touched}
