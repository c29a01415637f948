"""A lake of stream tables beside a plain model of its sources, and the oracle that compares the two after each tick.

The oracle is Spark itself, in a session of its own: the sources are inline tables made from the model, never read
through the lake, and every stream table's settled query runs on them, all in one job.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from anabranch import Lake
from anabranch.errors import AnabranchError
from anabranch.observe.report import Report
from anabranch.spark.quote import quoted
from tests.exactness.model import Model, TableChange
from tests.sql.surface import surface_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AS_JSON = (
    "to_json(struct(*), map('ignoreNullFields', 'false', 'timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", "
    "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\"))"
)
TOLERANCE = 1e-9
Bag = Counter[str]


@dataclass
class Graph:
    """A lake, its sources' model, and the settled text of each stream table."""

    lake: Lake
    model: Model
    oracle: SparkSession
    settled: dict[str, str] = field(default_factory=dict)
    refusals: dict[str, AnabranchError] = field(default_factory=dict)

    def create_sources(self) -> None:
        for name, schema in self.model.schemas.items():
            self.lake.sql(schema.definition)
            if self.model.rows[name]:
                self.lake.append(name, self._frame(name, list(self.model.rows[name].elements())))
        self._show_sources()

    def create(self, name: str, query: str, refresh_mode: str = "DIFFERENTIAL") -> bool:
        """Whether the stream table was made; a refusal is remembered."""
        try:
            self.lake.create_stream_table(name, query, refresh_mode=refresh_mode)
        except AnabranchError as error:
            self.refusals[name] = error
            return False
        engine = self.lake._engine
        pinned = engine.pin()
        program = engine.program(pinned.node(name), pinned)
        text = surface_sql(program.relation) if program.relation is not None and program.is_settled else query
        columns = ", ".join(quoted(each.name) for each in program.columns)
        self.settled[name] = text
        self.oracle.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} ({columns}) AS {text}")
        self._alias(name)
        return True

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
        self._show_sources()

    def wrong(self) -> dict[str, tuple[list[str], list[str]]]:
        """By name of the stream table: rows that are missing, and rows that should not be there."""
        names = list(self.settled)
        wanted, stored = self._collect(self.oracle.sql, names), self._collect(self.lake.sql, names)
        found = {}
        for name in names:
            missing, unexpected = unlike(wanted[name], stored[name])
            if missing or unexpected:
                found[name] = missing, unexpected
        return found

    def _collect(self, run: Any, names: list[str]) -> dict[str, Bag]:
        bags: dict[str, Bag] = {name: Counter() for name in names}
        parts = (f"SELECT '{name}' AS node, {AS_JSON} AS row FROM {name}" for name in names)
        for node, row in run(" UNION ALL ".join(parts)).collect():
            bags[node][row] += 1
        return bags

    def _frame(self, name: str, rows: list[Any]) -> Any:
        return self.lake._engine.session.sql(self.model.schemas[name].select(rows))

    def _show_sources(self) -> None:
        for name in self.model.schemas:
            self.oracle.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {self.model.select(name)}")
            self._alias(name)

    def _alias(self, name: str) -> None:
        """Settled texts name tables by their identity in the lake."""
        identity = self.lake._engine.pin().id_of(name)
        self.oracle.sql(f"CREATE OR REPLACE TEMPORARY VIEW {quoted(identity)} AS SELECT * FROM {name}")


def unlike(wanted: Bag, stored: Bag) -> tuple[list[str], list[str]]:
    """What is missing and what is too much; floating-point numbers may differ in the last digits."""
    missing, unexpected = list((wanted - stored).elements()), list((stored - wanted).elements())
    for row in list(missing):
        twin = next((each for each in unexpected if alike(json.loads(row), json.loads(each))), None)
        if twin is not None:
            missing.remove(row)
            unexpected.remove(twin)
    return missing, unexpected


def alike(one: Any, other: Any) -> bool:
    match one, other:
        case float(), float() | int():
            return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        case dict(), dict():
            return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
        case list(), list():
            return len(one) == len(other) and all(alike(a, b) for a, b in zip(one, other, strict=True))
    return type(one) is type(other) and bool(one == other)
