"""The public object. Thin: every method hands over to the stage that does the work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from anabranch import manage, reads, refresh, retention, writes
from anabranch.alter import UNCHANGED, Alteration, alter
from anabranch.check import CheckResult, check_node
from anabranch.engine import Engine, open_engine
from anabranch.graph.frontier import Frontier
from anabranch.observe import graph as observed_graph
from anabranch.observe import html
from anabranch.observe import tables as observed
from anabranch.observe.explain import Explanation, explain
from anabranch.observe.forms import in_form
from anabranch.observe.graph import DependencyTree, Diamonds
from anabranch.observe.report import Report
from anabranch.scheduler import Scheduler
from anabranch.settings import Settings
from anabranch.snapshot import Snapshot, snapshot_at
from anabranch.statements import run_statement
from anabranch.store.protocol import Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from anabranch.observe.web.server import Options, Serving

Rows = Any
"""Rows to write: a list of tuples or dicts, an Arrow table, a pandas or a Spark DataFrame."""


def connect(
    path: str,
    *,
    spark: SparkSession | None = None,
    catalog: str | None = None,
    create: bool = True,
    **settings: Any,
) -> Lake:
    """Open the lake in a folder; make it there if there is none, unless `create` is False.

    `catalog="postgres:dbname=... host=..."` keeps the catalog in PostgreSQL, for many writers. `spark` is the session
    to run in; without one a local session is started. Other named arguments are settings (`lake.settings` lists them).
    """
    return Lake(open_engine(path, spark, catalog, settings, create))


class Lake:
    """A lake: sources, stream tables, and their history. Use it as a context manager, or call `close`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._scheduler = Scheduler(engine)

    # ---- reading and writing

    def sql(self, text: str) -> DataFrame:
        """Run one statement: any Spark SQL query, DDL and DML on sources, and the STREAM TABLE statements."""
        return run_statement(self._engine, text)

    def table(self, name: str, snapshot: int | None = None) -> DataFrame:
        """A table's rows at the newest snapshot, or at an older one."""
        return reads.table(self._engine, name, None if snapshot is None else Version(snapshot))

    def snapshot(self, number: int) -> Snapshot:
        """A handle on which everything reads that snapshot."""
        return snapshot_at(self._engine, number)

    def append(self, name: str, rows: Rows) -> int:
        """Add rows to a source in bulk; returns the snapshot."""
        return writes.append(self._engine, name, rows).number

    def apply(self, name: str, insert: Rows | None = None, delete: Rows | None = None) -> int:
        """Apply a change to a source: `delete` takes one copy of each given row. Returns the snapshot."""
        return writes.apply(self._engine, name, insert, delete).number

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make several writes one snapshot. An exception inside leaves the lake as it was."""
        with writes.transaction(self._engine):
            yield

    # ---- stream tables

    def create_stream_table(
        self,
        name: str,
        query: str,
        schedule: str | None = None,
        refresh_mode: str = "AUTO",
        *,
        diamond_consistency: str | None = None,
        diamond_schedule_policy: str | None = None,
    ) -> Report:
        """Store a query's result as a table and keep it fresh.

        `schedule` is a duration (`2s`), a cron line, `calculated`, or None for refreshes by hand. `refresh_mode` is
        AUTO, DIFFERENTIAL (refused where the query cannot be), FULL or IMMEDIATE.
        """
        request = manage.Request(name, query, schedule, refresh_mode, diamond_consistency, diamond_schedule_policy)
        return manage.create(self._engine, request)

    def alter_stream_table(
        self,
        name: str,
        *,
        query: str | None = None,
        schedule: Any = UNCHANGED,
        refresh_mode: str | None = None,
        diamond_consistency: str | None = None,
        diamond_schedule_policy: str | None = None,
    ) -> Report:
        """Change a stream table. A new query is filled in, and those that read the table get the difference."""
        alteration = Alteration(query, schedule, refresh_mode, diamond_consistency, diamond_schedule_policy)
        return alter(self._engine, name, alteration)

    def drop_stream_table(self, name: str, cascade: bool = False) -> None:
        """Drop a stream table; with `cascade` those that read it too."""
        manage.drop(self._engine, name, cascade)

    def refresh(self, *names: str) -> Report:
        """One tick over everything pending, or over the named stream tables and what must move with them."""
        return refresh.refresh(self._engine, names)

    def pause(self, *names: str) -> None:
        """Hold stream tables, or without names the scheduler as a whole."""
        manage.hold(self._engine, names, paused=True)

    def resume(self, *names: str) -> None:
        """Let held or suspended stream tables go on, or without names the scheduler."""
        manage.hold(self._engine, names, paused=False)
        self._scheduler.resume()

    # ---- the scheduler

    def run(self) -> None:
        """Refresh what is due, until `stop` is called from another thread, or SIGTERM comes.

        Of all processes that run a lake's scheduler one works; the others stand by and take over when it ends.
        """
        self._scheduler.run()

    def serve(self, options: Options | None = None, ready: Callable[[Serving], None] = lambda serving: None) -> None:
        """Run the scheduler and the web page until SIGINT, SIGTERM or `Serving.stop`; `ready` gets the address."""
        from anabranch.observe.web import server

        server.serve(self._engine, self._scheduler, options or server.Options(), ready)

    def stop(self) -> None:
        """End `run`: what is being committed is committed, what is not never happened."""
        self._scheduler.stop()

    def drain(self, seconds: float | None = None) -> bool:
        """Finish what runs and start nothing new, until `resume()`; False if a tick still runs after `seconds`."""
        if not self._scheduler.drain(seconds):
            return False
        manage.hold(self._engine, (), paused=True)
        return True

    # ---- what is there and what happened

    def diamond_groups(self) -> Diamonds:
        """Where paths from a source part and meet again: convergence, members, sources, policy, last move."""
        return observed_graph.diamond_groups(self._engine)

    def dependency_tree(self, name: str) -> DependencyTree:
        """What a table is computed from, down to the sources."""
        return observed_graph.dependency_tree(self._engine, name)

    def explain(self, name: str | None = None, *, query: str | None = None, quick: bool = False) -> Explanation:
        """Why and how a stream table is refreshed; with `query`, how it would be. `quick` starts no Spark."""
        return explain(self._engine, name, query, quick)

    def frontier(self, name: str) -> Frontier:
        """Which versions of its sources a stream table reflects."""
        pinned = self._engine.pin()
        return pinned.frontiers[pinned.node(name).id]

    def status(self, form: str = "arrow") -> Any:
        """One row a stream table: mode, schedule, freshness, last action, error.

        `form` is "arrow" (an Arrow table), "pandas" or "spark" (DataFrames), here and below.
        """
        return in_form(self._engine, observed.status(self._engine), form)

    def history(self, limit: int | None = None, form: str = "arrow") -> Any:
        """What every refresh did and why, newest first."""
        return in_form(self._engine, self._engine.store.history(limit), form)

    def pending_changes(self, form: str = "arrow") -> Any:
        """Per stream table and source: how many changed rows wait for the next refresh, at most."""
        return in_form(self._engine, observed.pending_changes(self._engine), form)

    def check(self, name: str) -> CheckResult:
        """Compare a stream table with its query run from scratch on the same inputs."""
        return check_node(self._engine, name)

    @property
    def settings(self) -> Settings:
        """Every setting with its value, default and meaning."""
        return self._engine.settings

    @property
    def spark(self) -> SparkSession:
        """The Spark session that this lake runs in."""
        return self._engine.session

    # ---- upkeep

    def compact(self) -> None:
        """Merge small files. No row and no history changes."""
        self._engine.check_outside_transaction("compaction")
        self._engine.store.compact()

    def expire(self, older_than: str = "7d") -> int:
        """Drop snapshots older than this that no stream table still needs; returns how many went."""
        return retention.expire(self._engine, older_than)

    def close(self) -> None:
        """Stop the scheduler, let go of the catalog, and of Spark if this lake started it."""
        self._scheduler.close()
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        pinned = self._engine.pin()
        return (
            f"Lake({self._engine.path!r}: {len(pinned.sources)} sources, {len(pinned.nodes)} stream tables, "
            f"snapshot {pinned.version})"
        )

    def _repr_html_(self) -> str:
        shown = ("name", "state", "refresh_mode", "schedule", "rows", "refreshed_at", "pending_changes", "error")
        rows = observed.status(self._engine).select(list(shown)).to_pylist()
        return html.paragraph(repr(self)) + html.table(shown, (list(row.values()) for row in rows))
