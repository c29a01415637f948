"""What all of a lake's work shares: the store, the Spark session of our own, the settings, compiled programs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from anabranch.algebra.relation import Column
from anabranch.compile import Clock, Program, compile_query
from anabranch.definitions import SETTING, StreamTable
from anabranch.errors import QueryError, StateError
from anabranch.observe.ticks import TickLog
from anabranch.pinned import Pinned, pin
from anabranch.settings import Settings
from anabranch.spark.analyze import SparkAnalyzer
from anabranch.spark.lazy import OwnSession
from anabranch.spark.prepared import PreparedQueries
from anabranch.spark.run import Runner
from anabranch.spark.session import configure
from anabranch.spark.types import type_sql
from anabranch.sql.analyzer import TableBinding, ViewBinding
from anabranch.sql.clock import instant_in
from anabranch.sql.statement_nodes import SelectStatement, quoted
from anabranch.sql.statements import parse_statement
from anabranch.store.ducklake import DuckLakeStore
from anabranch.store.open import open_lake
from anabranch.store.protocol import Version

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from anabranch.store.transaction import Transaction

GIVEN_UP = "GIVEN_UP"
SESSION_TIME_ZONE = "spark.sql.session.timeZone"
DEFINED_UNDER = (
    SESSION_TIME_ZONE,
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.storeAssignmentPolicy",
)
"""Settings of Spark that change what a query means: kept with each definition, and in force at each refresh."""

KEPT_PROGRAMS = 1_000
_MadeFor = tuple[str | None, tuple[tuple[Column, ...], ...]]
"""What a program depends on besides its definition: the clock it reads, and the columns of its inputs."""


@dataclass
class Engine:
    """One open lake. `looked_at`: when a node was last found to have nothing to do, which is not worth a commit."""

    path: str
    store: DuckLakeStore
    own_session: OwnSession
    settings: Settings
    looked_at: dict[str, float] = field(default_factory=dict)
    small_tables: dict[tuple[str, Version], pa.Table] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    writing: threading.RLock = field(default_factory=threading.RLock)
    _programs: dict[tuple[str, int], tuple[_MadeFor, Program]] = field(default_factory=dict)
    _compiled: dict[tuple[str, tuple[str, ...]], _Compiled] = field(default_factory=dict)
    ticks: TickLog = field(default_factory=TickLog)
    prepared: PreparedQueries = field(default_factory=PreparedQueries)
    _as_it_was: dict[str, str] | None = None
    _restoring: int = 0
    _local: threading.local = field(default_factory=threading.local)

    def pin(self) -> Pinned:
        """The lake as it is now."""
        return pin(self.store)

    @property
    def session(self) -> SparkSession:
        """The Spark session of our own; a local one is started when it is first asked for."""
        return self.own_session.get()

    def runner(self) -> Runner:
        """A fresh place to bind rows and run plans."""
        return Runner(self.session, prepared=self.prepared)

    @property
    def time_zone(self) -> str:
        """The time zone that queries see."""
        return self.own_session.setting(SESSION_TIME_ZONE)

    @property
    def definition_settings(self) -> dict[str, str]:
        """What a query defined now is to mean, always."""
        if self._as_it_was is not None:
            return dict(self._as_it_was)
        return {key: self.own_session.setting(key) for key in DEFINED_UNDER}

    def under(self, definition_settings: Mapping[str, str]) -> None:
        """Let the session mean what a definition meant; inside `restoring`, which brings back what it meant before."""
        if self._as_it_was is None:
            self._as_it_was = self.definition_settings
        configure(self.session, definition_settings)

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Afterwards the session means again what the user lets it mean; may be nested, the holder of `lock` alone."""
        self._restoring += 1
        try:
            yield
        finally:
            self._restoring -= 1
            if self._as_it_was is not None and not self._restoring:
                configure(self.session, self._as_it_was)
                self._as_it_was = None

    def compile(
        self, query: str, pinned: Pinned, views: Mapping[str, str] | None = None, clock: str | None = None
    ) -> Program:
        """Compile a query over the lake's tables, and its views as they are or as they were.

        `clock` is what it sees as now. A day that begins elsewhere than the lake's days do is not one of them.
        """
        names = _Names(pinned, pinned.view_texts if views is None else views)
        key = (query, tuple(self.own_session.setting(each) for each in DEFINED_UNDER))
        known = self._compiled.get(key)
        if known is not None and known.is_still_right(names):
            return known.program
        zone = self.time_zone
        at = Clock(clock or instant_in(zone, datetime.now(UTC)), zone) if pinned.time_zone in (None, zone) else None
        program = compile_query(query, names, _LakeAnalyzer(self.session, names), at)
        if len(self._compiled) >= KEPT_PROGRAMS:
            self._compiled.clear()
        self._compiled[key] = _Compiled(program, dict(names.found))
        return program

    def program(self, node: StreamTable, pinned: Pinned, clock: str | None = None) -> Program:
        """A stream table's program, compiled once per definition and process, while its inputs keep their columns.

        One that reads the date is compiled once a day. Compiling needs the session, and waits for a tick that has it.
        """
        reached = pinned.frontiers[node.id].clock if node.id in pinned.frontiers else None
        at = (clock or node.clock_at(reached)) if node.clock == "DATE" else None
        key = (node.id, node.generation)
        made_for = at, tuple(pinned.columns(table) for table in node.inputs)
        known = self._programs.get(key)
        if known is None or known[0] != made_for:
            with self.lock, self.restoring():
                self.under(node.session)
                known = self._programs[key] = (made_for, self.compile(node.query, pinned, node.views, at))
        return known[1]

    @property
    def transaction(self) -> Transaction | None:
        """The transaction open on this thread."""
        return getattr(self._local, "transaction", None)

    @transaction.setter
    def transaction(self, value: Transaction | None) -> None:
        self._local.transaction = value

    def check_outside_transaction(self, what: str) -> None:
        """Refuse what is a commit of its own while a transaction is open on this thread."""
        if self.transaction is not None:
            raise StateError(
                "TRANSACTION_OPEN",
                f"{what} cannot be part of a transaction",
                "a transaction on this thread is open, and this is a commit of its own",
                "do it before or after the transaction",
            )

    @contextmanager
    def giving_up_when(self, told: Callable[[], bool]) -> Iterator[None]:
        """Inside, on this thread, a tick that has not begun to commit gives up once it is told to."""
        self._local.told_to_give_up = told
        try:
            yield
        finally:
            del self._local.told_to_give_up

    def check_not_given_up(self) -> None:
        """Raise GIVEN_UP if the tick on this thread is not to go on."""
        told: Callable[[], bool] | None = getattr(self._local, "told_to_give_up", None)
        if told is not None and told():
            raise StateError(GIVEN_UP, "the tick was given up: the scheduler was told to stop")

    def close(self) -> None:
        self.store.close()
        self.prepared.close()
        self.own_session.close()


def open_engine(
    path: str, spark: SparkSession | None, catalog: str | None, given: Mapping[str, Any], create: bool = True
) -> Engine:
    """Open or create the lake, with a Spark session of our own beside the user's, started when it is needed."""
    Settings(given, {})  # what cannot be is refused before anything is opened or made
    opened = open_lake(path, catalog, create)
    session = OwnSession(spark, DEFINED_UNDER)
    store = DuckLakeStore(opened, session.get)
    stored = {key.removeprefix(SETTING): value for key, value in store.documents(SETTING).items()}
    settings = Settings(given, stored)
    store.wait_for_commits(settings.number("commit_timeout"))
    store.limit_indexes(settings.integer("key_index_max_bytes"))
    return Engine(path, store, session, settings)


@dataclass(frozen=True)
class _Names:
    """What a name in a query means: a user's view, a source or a stream table. `found` are the names asked for."""

    pinned: Pinned
    views: Mapping[str, str]
    found: dict[tuple[str, ...], TableBinding | ViewBinding | None] = field(default_factory=dict)

    def __call__(self, parts: tuple[str, ...]) -> TableBinding | ViewBinding | None:
        if parts not in self.found:
            self.found[parts] = self._find(".".join(parts))
        return self.found[parts]

    def _find(self, name: str) -> TableBinding | ViewBinding | None:
        if name.lower() in self.views:
            return ViewBinding(self.views[name.lower()])
        table = self.pinned.find(name)
        return None if table is None else TableBinding(table, self.pinned.columns(table))

    def typed_text(self, parts: tuple[str, ...]) -> str:
        """A table as Spark's analyzer needs to see it: its columns and types, no rows."""
        match self(parts):
            case ViewBinding(query):
                return f"({_with_types(query, self)})"
            case TableBinding(_, columns):
                values = ", ".join(f"CAST(NULL AS {type_sql(each.type)}) AS {quoted(each.name)}" for each in columns)
                return f"(SELECT {values})"
            case _:
                self.pinned.id_of(".".join(parts))
                raise AssertionError("a name that is not known was found")


@dataclass(frozen=True)
class _Compiled:
    """A program with what the names in its query meant: creating a table asks for it three times over."""

    program: Program
    found: Mapping[tuple[str, ...], TableBinding | ViewBinding | None]

    def is_still_right(self, names: _Names) -> bool:
        """Whether it would be compiled to the same now. One that reads the clock is compiled for one day."""
        return self.program.clock is None and all(names(parts) == binding for parts, binding in self.found.items())


class _LakeAnalyzer(SparkAnalyzer):
    """Spark's analyzer, to which the lake's tables are known."""

    def __init__(self, session: SparkSession, names: _Names) -> None:
        super().__init__(session)
        self._names = names

    def schema(self, sql: str) -> tuple[Column, ...]:
        try:
            return super().schema(_with_types(sql, self._names))
        except QueryError as error:
            if error.code == "PARSE_SYNTAX_ERROR":
                super().schema(sql)  # raises again, with the place in the text as it was written
            raise


def _with_types(query: str, names: _Names) -> str:
    statement = parse_statement(query)
    if not isinstance(statement, SelectStatement):
        raise QueryError("NOT_A_QUERY", "a query is needed, this is another statement", query, "write SELECT ...")
    return statement.query.with_views(names.typed_text)
