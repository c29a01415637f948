"""Random graphs of real stream tables, and what each must hold: its query, expanded down to the sources.

Every table has the columns k and v, so that any query may read any table.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, settings

import anabranch
from anabranch.errors import StateError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ONE_INPUT = (
    "SELECT k, v FROM {0} WHERE v % 3 <> 0",
    "SELECT k, SUM(v) AS v FROM {0} GROUP BY k",
    "SELECT k % 2 AS k, MAX(v) AS v FROM {0} GROUP BY k % 2",
    "SELECT DISTINCT k, v FROM {0}",
    "SELECT COUNT(*) AS k, COALESCE(SUM(v), 0) AS v FROM {0}",
    "SELECT k, v FROM {0} ORDER BY v DESC, k LIMIT 3",
    "SELECT k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) * 1L AS v FROM {0}",
)
TWO_INPUTS = (
    "SELECT a.k, SUM(a.v + b.v) AS v FROM {0} a JOIN {1} b ON a.k = b.k GROUP BY a.k",
    "SELECT DISTINCT a.k, COALESCE(b.v, -1) AS v FROM {0} a LEFT JOIN {1} b ON a.k = b.k",
    "SELECT k, v FROM {0} a WHERE NOT EXISTS (SELECT 1 FROM {1} b WHERE b.k = a.k)",
    "SELECT k, v FROM {0} UNION SELECT k, v FROM {1}",
    "SELECT k, v FROM {0} EXCEPT ALL SELECT k, v FROM {1}",
    "SELECT (SELECT COUNT(*) FROM {0}) AS k, (SELECT COALESCE(SUM(v), 0) FROM {1}) AS v",
)
FEW = settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
    database=None,
)
"""As many random graphs as every run of the tests has time for."""
MODES = ("DIFFERENTIAL", "DIFFERENTIAL", "AUTO", "FULL")


@dataclass
class RandomGraph:
    """A lake with a few sources and nodes; `templates` remembers every definition by node and generation."""

    lake: anabranch.Lake
    rng: Random
    sources: tuple[str, ...] = ("s0", "s1")
    nodes: list[str] = field(default_factory=list)
    templates: dict[tuple[str, int], tuple[str, tuple[str, ...]]] = field(default_factory=dict)

    def create_sources(self) -> None:
        for source in self.sources:
            self.lake.sql(f"CREATE TABLE {source} (k BIGINT, v BIGINT)")
            self.lake.append(source, self._rows(4))

    def create_node(self) -> None:
        name = f"n{len(self.nodes)}"
        template, inputs = self._definition([*self.sources, *self.nodes])
        consistency = self.rng.choice((None, None, "none"))
        mode = self.rng.choice(MODES)
        query = template.format(*inputs)
        self.lake.create_stream_table(name, query, refresh_mode=mode, diamond_consistency=consistency)
        self.nodes.append(name)
        self.templates[self._id(name), 1] = template, inputs

    def step(self) -> str:
        """One thing that happens to a lake."""
        kind = self.rng.choice(
            ("change", "change", "change", "refresh", "refresh some", "pause", "resume", "alter", "new")
        )
        try:
            getattr(self, "_" + kind.replace(" ", "_"))()
        except StateError as error:
            if error.code != "INPUTS_DISAGREE":
                raise
            return f"{kind}, refused"
        return kind

    def change(self) -> None:
        self._change()

    def wrong_nodes(self) -> list[str]:
        """Nodes whose rows are not those of their query over the sources where the frontier says, by one job."""
        stored = {name: f"SELECT k, v FROM {name}" for name in self.nodes}
        queries = [self._differences(name, text) for name, text in stored.items()]
        rows = self.lake.sql(" UNION ALL ".join(queries)).collect() if queries else []
        return [row[0] for row in rows if row[1]]

    def _differences(self, name: str, stored: str) -> str:
        expected = self._expanded(name)
        return (
            f"SELECT '{name}' AS node, COUNT(*) AS wrong FROM (({stored} EXCEPT ALL ({expected})) "
            f"UNION ALL (({expected}) EXCEPT ALL {stored}))"
        )

    def _expanded(self, name: str) -> str:
        """The node's query down to the sources at the versions, and by the definitions, that its frontier names."""
        frontier = self.lake.frontier(name)
        pinned = self.lake._engine.pin()
        generation = pinned.node(name).generation
        versions = {pinned.name_of(source): at.number for source, at in frontier.sources.items()}
        generations = {pinned.name_of(node): at for node, at in frontier.generations.items()}

        def text_of(table: str, at: int) -> str:
            template, inputs = self.templates[self._id(table), at]
            return template.format(*(source_of(each) for each in inputs))

        def source_of(table: str) -> str:
            if table in self.sources:
                return self._view(table, versions[table])
            return f"({text_of(table, generations[table])})"

        return text_of(name, generation)

    def _view(self, source: str, version: int) -> str:
        name = f"{source}_at_{version}_{id(self)}"
        self.lake.snapshot(version).table(source).createOrReplaceTempView(name)
        return name

    def _change(self) -> None:
        source = self.rng.choice(self.sources)
        kind = self.rng.choice(("insert", "insert", "delete", "update"))
        if kind == "insert":
            self.lake.append(source, self._rows(self.rng.randint(1, 3)))
        elif kind == "delete":
            self.lake.sql(f"DELETE FROM {source} WHERE k = {self.rng.randrange(4)}")
        else:
            self.lake.sql(f"UPDATE {source} SET v = v + {self.rng.randint(1, 4)} WHERE k = {self.rng.randrange(4)}")

    def _refresh(self) -> None:
        self._refreshed()

    def _refresh_some(self) -> None:
        self._refreshed(*self.rng.sample(self.nodes, self.rng.randint(1, len(self.nodes))))

    def _refreshed(self, *names: str) -> None:
        report = self.lake.refresh(*names)
        assert all(each.action != "FAILED" for each in report.values()), report

    def _pause(self) -> None:
        self.lake.pause(self.rng.choice(self.nodes))

    def _resume(self) -> None:
        self.lake.resume(*self.nodes)

    def _alter(self) -> None:
        place = self.rng.randrange(len(self.nodes))
        name = self.nodes[place]
        template, inputs = self._definition([*self.sources, *self.nodes[:place]])
        self.lake.alter_stream_table(name, query=template.format(*inputs))
        node = self.lake._engine.pin().node(name)
        self.templates[node.id, node.generation] = template, inputs

    def _new(self) -> None:
        self.create_node()

    def _definition(self, tables: list[str]) -> tuple[str, tuple[str, ...]]:
        if len(tables) > 1 and self.rng.random() < 0.6:
            return self.rng.choice(TWO_INPUTS), tuple(self.rng.sample(tables, 2))
        return self.rng.choice(ONE_INPUT), (self.rng.choice(tables[-4:]),)

    def _rows(self, count: int) -> list[tuple[int, int]]:
        return [(self.rng.randrange(4), self.rng.randrange(6)) for _ in range(count)]

    def _id(self, name: str) -> str:
        return self.lake._engine.pin().node(name).id


@contextmanager
def temporary_lake(spark: SparkSession, **given: Any) -> Iterator[anabranch.Lake]:
    with tempfile.TemporaryDirectory() as folder, anabranch.connect(folder, spark=spark, **given) as lake:
        yield lake
