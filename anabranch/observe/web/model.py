"""What the web page and its API speak of, as plain values: pages and JSON are pure functions of these.

Instants are ISO 8601 texts in UTC, as they stand in the API.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from anabranch.observe.ticks import Totals


@dataclass(frozen=True)
class ColumnView:
    """A column and its Spark type."""

    name: str
    type: str


@dataclass(frozen=True)
class ErrorView:
    """Why a stream table could not be refreshed, and what to do about it."""

    code: str
    message: str
    detail: str = ""
    hint: str = ""


@dataclass(frozen=True)
class LastRefresh:
    """What the newest refresh of a stream table did."""

    at: str
    action: str
    reason: str
    rows_inserted: int
    rows_deleted: int
    seconds: float
    fused: bool
    snapshot: int


@dataclass(frozen=True)
class NodeView:
    """A stream table. `state` is one word: FRESH, BEHIND, WAITING, PAUSED, SUSPENDED or FAILED.

    `behind_since` is when the first change was committed that it does not show yet. `inputs` are names.
    `convergence_of` are the members of the diamond that ends here, `member_of` the ends of those it lies in.
    """

    id: str
    name: str
    state: str
    mode: str
    schedule: str | None
    rows: int
    inputs: tuple[str, ...]
    refreshed_at: str | None = None
    behind_since: str | None = None
    pending_rows: int = 0
    last: LastRefresh | None = None
    waiting_for: str | None = None
    error: ErrorView | None = None
    consecutive_errors: int = 0
    retry_at: str | None = None
    convergence_of: tuple[str, ...] = ()
    member_of: tuple[str, ...] = ()
    query: str = ""
    columns: tuple[ColumnView, ...] = ()


@dataclass(frozen=True)
class SourceView:
    """A table that people and programs write to. `version` is the snapshot that last changed it."""

    id: str
    name: str
    rows: int
    version: int
    changed_at: str | None = None
    columns: tuple[ColumnView, ...] = ()


@dataclass(frozen=True)
class DiamondView:
    """Paths from a source that part and meet again."""

    convergence: str
    members: tuple[str, ...]
    shared_sources: tuple[str, ...]
    consistency: str
    schedule_policy: str
    last_moved: int | None


@dataclass(frozen=True)
class SchedulerView:
    """Who refreshes what is due. `state` is RUNNING, STANDING_BY, PAUSED or STOPPED."""

    state: str
    holder: str | None = None
    ticking: bool = False


@dataclass(frozen=True)
class LostTick:
    """A tick of this process that could not be planned or committed at all."""

    at: str
    code: str
    message: str
    hint: str


@dataclass(frozen=True)
class PendingView:
    """Changed rows of one input that wait for a stream table, at most."""

    name: str
    input: str
    since: int
    upto: int
    changed_rows_at_most: int


@dataclass(frozen=True)
class LakeView:
    """A lake at one snapshot. `revision` grows with everything that can be seen, be it no commit."""

    path: str
    snapshot: int
    taken_at: str
    scheduler: SchedulerView
    sources: tuple[SourceView, ...] = ()
    nodes: tuple[NodeView, ...] = ()
    diamonds: tuple[DiamondView, ...] = ()
    pending: tuple[PendingView, ...] = ()
    lost_ticks: tuple[LostTick, ...] = ()
    totals: Totals = field(default_factory=Totals)
    revision: int = 0

    @property
    def tables(self) -> tuple[NodeView | SourceView, ...]:
        """Sources, then stream tables."""
        return (*self.sources, *self.nodes)

    @property
    def error_count(self) -> int:
        """How many entries the page of errors has."""
        return sum(node.error is not None for node in self.nodes) + len(self.lost_ticks)

    @cached_property
    def by_key(self) -> dict[str, NodeView | SourceView]:
        """Tables by id, and by name in lower case."""
        return {each.id: each for each in self.tables} | {each.name.lower(): each for each in self.tables}

    @cached_property
    def readers(self) -> dict[str, tuple[str, ...]]:
        """By name: the stream tables that read it."""
        found: dict[str, list[str]] = {}
        for node in self.nodes:
            for table in node.inputs:
                found.setdefault(table, []).append(node.name)
        return {name: tuple(readers) for name, readers in found.items()}

    @cached_property
    def shape(self) -> tuple[tuple[str, ...], tuple[tuple[str, tuple[str, ...]], ...]]:
        """What the drawing's layout depends on."""
        return tuple(each.name for each in self.sources), tuple((each.name, each.inputs) for each in self.nodes)

    def find(self, key: str) -> NodeView | SourceView | None:
        """A table by id or name."""
        return self.by_key.get(key) or self.by_key.get(key.lower())


@dataclass(frozen=True)
class FrontierLine:
    """One source below a stream table: the version that is reflected, and the newest there is."""

    source: str
    reflected: str
    newest: str
    is_behind: bool


@dataclass(frozen=True)
class HistoryEntry:
    """One refresh of one stream table."""

    tick: str
    name: str
    started_at: str
    snapshot: int
    action: str
    reason: str
    rows_inserted: int
    rows_deleted: int
    seconds: float
    fused: bool
    not_fused: str | None = None
    error: ErrorView | None = None


@dataclass(frozen=True)
class TickView:
    """One tick: what took part, how many Spark jobs it started, the seconds of each stage.

    `seconds` of `commit` are known to the process that ran the tick only.
    """

    id: str
    started_at: str
    snapshot: int
    spark_jobs: int | None
    seconds: Mapping[str, float] = field(default_factory=dict)
    nodes: tuple[HistoryEntry, ...] = ()

    @property
    def fused(self) -> tuple[str, ...]:
        """The nodes that were worked out together."""
        return tuple(each.name for each in self.nodes if each.fused)


@dataclass(frozen=True)
class Section:
    """A titled part of an explanation."""

    title: str
    text: str


@dataclass(frozen=True)
class FirstRows:
    """A few rows of a table as texts; None is NULL."""

    snapshot: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
