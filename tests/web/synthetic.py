"""A lake that exists only as values: pages, API and browser tests run on it without Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import uvicorn

from anabranch.errors import StateError
from anabranch.observe.web.app import create_app
from anabranch.observe.web.backend import Refreshed
from anabranch.observe.web.model import (
    ColumnView,
    DiamondView,
    ErrorView,
    FirstRows,
    FrontierLine,
    HistoryEntry,
    LakeView,
    LastRefresh,
    LostTick,
    NodeView,
    PendingView,
    SchedulerView,
    Section,
    SourceView,
    TickView,
)
from anabranch.observe.web.security import Access
from anabranch.observe.web.server import Options, _listen, _shown
from anabranch.observe.web.watch import Watcher

NASTY = "<script>alert('x')</script>&\"'"
NOW = datetime(2026, 5, 1, 10, 0, tzinfo=UTC)
HINT = "use try_divide(...), or filter the rows with 0"


def identity(name: str) -> str:
    return f"id-{name.encode().hex()}"


def before(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()


def refreshed(seconds_ago: float, action: str = "DIFFERENTIAL", rows: int = 3) -> LastRefresh:
    return LastRefresh(before(seconds_ago), action, "CHANGED", rows, 1, 0.042, action == "DIFFERENTIAL", 7)


def node(name: str, inputs: tuple[str, ...], state: str = "FRESH", **values: object) -> NodeView:
    made = NodeView(
        identity(name),
        name,
        state,
        "AUTO",
        "2s",
        1234,
        inputs,
        refreshed_at=before(5),
        last=refreshed(5),
        query=f"SELECT * FROM {', '.join(inputs)}",
        columns=(ColumnView("region", "string"), ColumnView("revenue", "decimal(22,2)")),
    )
    return replace(made, **values)  # type: ignore[arg-type]


def source(name: str) -> SourceView:
    return SourceView(identity(name), name, 100_000, 6, before(9), (ColumnView("id", "bigint"),))


def shop() -> LakeView:
    """The sales diamond, one failing node, one paused, and a name that would like to be markup."""
    error = ErrorView("DIVIDE_BY_ZERO", 'stream table "margin" could not be refreshed', "Division by zero.", HINT)
    diamond = DiamondView(
        "exec_summary", ("revenue_by_region", "revenue_by_product"), ("sales",), "atomic", "fastest", 7
    )
    nodes = (
        node("revenue_by_region", ("sales",), member_of=("exec_summary",)),
        node("revenue_by_product", ("sales",), member_of=("exec_summary",)),
        node("exec_summary", ("revenue_by_region", "revenue_by_product"), convergence_of=diamond.members, rows=1),
        node("margin", ("sales", "rates"), "FAILED", error=error, consecutive_errors=2, retry_at=before(-8)),
        node("late", ("rates",), "BEHIND", behind_since=before(75), pending_rows=42),
        node("held", ("late",), "PAUSED", schedule=None),
        node(NASTY, ("sales",), "WAITING", waiting_for=NASTY, query=f"SELECT '{NASTY}'"),
    )
    return LakeView(
        f"/lakes/{NASTY}",
        7,
        before(0),
        SchedulerView("RUNNING", "process 7 on here"),
        (source("sales"), source("rates")),
        nodes,
        (diamond,),
        (PendingView("late", "rates", 5, 7, 42),),
        (LostTick(before(300), "CATALOG_BUSY", f"the catalog was busy {NASTY}", "try again"),),
    )


def large(count: int, seed: int = 0) -> LakeView:
    """A graph of so many stream tables in some layers, each reading one to three tables before it."""
    rng = Random(seed)
    sources = tuple(source(f"source_{number}") for number in range(max(1, count // 25)))
    names = [each.name for each in sources]
    nodes = []
    for number in range(count):
        reach = names[-60:] if number % 10 else names
        inputs = tuple(sorted(rng.sample(reach, min(len(reach), rng.choice((1, 1, 2, 3))))))
        state = rng.choice(("FRESH",) * 8 + ("BEHIND", "WAITING"))
        nodes.append(node(f"stream_table_{number}", inputs, state))
        names.append(f"stream_table_{number}")
    return LakeView("/lakes/large", 7, before(0), SchedulerView("RUNNING"), sources, tuple(nodes))


class SyntheticBackend:
    """Answers from values; `view` may be set to another one, as a tick would."""

    def __init__(self, view: LakeView) -> None:
        self.view = view
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self._revision = 0

    def show(self, view: LakeView) -> None:
        """From now on this is the lake."""
        self.view = view
        self._revision += 1

    def change(self, name: str, **values: object) -> None:
        """One node is otherwise from now on."""
        nodes = tuple(replace(each, **values) if each.name == name else each for each in self.view.nodes)  # type: ignore[arg-type]
        self.show(replace(self.view, nodes=nodes, snapshot=self.view.snapshot + 1))

    def collect(self, revision: int) -> LakeView:
        return replace(self.view, revision=revision, taken_at=before(0))

    def state(self) -> tuple[int, ...]:
        return (self._revision,)

    def frontier(self, node: NodeView) -> tuple[FrontierLine, ...]:
        return (FrontierLine("sales", "snapshot 5", "snapshot 7", True), FrontierLine(NASTY, "6", "6", False))

    def history(self, node: NodeView | None, limit: int) -> tuple[HistoryEntry, ...]:
        rng = Random(1)
        entries = []
        for number in range(60):
            full = number % 17 == 16
            action, seconds = ("FULL", 2.4) if full else ("DIFFERENTIAL", rng.uniform(0.02, 0.2))
            rows = rng.randrange(500) if full else rng.randrange(9)
            name = node.name if node else "revenue_by_region"
            entries.append(
                HistoryEntry(
                    f"tick{number}", name, before(5 + 2 * number), 100 - number, action, f"CHANGED {NASTY}", rows, 1,
                    seconds, not full, "FULL" if full else None,
                )
            )  # fmt: skip
        return tuple(entries[:limit])

    def ticks(self, limit: int) -> tuple[TickView, ...]:
        seconds = {"plan": 0.004, "compile": 0.002, "read": 0.05, "compute": 0.21, "commit": 0.06}
        names = ("revenue_by_region", "revenue_by_product", "exec_summary")
        found = []
        for number in range(min(limit, 5)):
            entries = tuple(
                HistoryEntry(
                    f"tick{number}", name, before(5), 100 - number, "DIFFERENTIAL", "CHANGED", 2, 1, 0.07, True
                )
                for name in names
            )
            found.append(TickView(f"tick{number}", before(5 + 2 * number), 100 - number, 3, seconds, entries))
        return tuple(found)

    def explain(self, node: NodeView) -> tuple[Section, ...]:
        if node.name == "held":
            raise StateError("SOURCE_DROPPED", "what it reads is no longer there")
        return (Section("query", node.query), Section("delta plan", "r0 := Change sales\nr1 := Consolidate r0"))

    def first_rows(self, table: NodeView | SourceView, limit: int) -> FirstRows:
        return FirstRows(7, ("region", "revenue"), (("north", "12.50"), (None, NASTY)))

    def pause(self, *names: str) -> None:
        self.asked.append(("pause", names))
        if "held" in names:
            raise StateError("IMMEDIATE_CANNOT_PAUSE", f"{NASTY} cannot be paused", "detail", "alter it first")
        if not names:
            self.show(replace(self.view, scheduler=SchedulerView("PAUSED")))
        for name in names:
            self.change(name, state="PAUSED")

    def resume(self, *names: str) -> None:
        self.asked.append(("resume", names))
        if not names:
            self.show(replace(self.view, scheduler=SchedulerView("RUNNING")))
        for name in names:
            self.change(name, state="FRESH", error=None)

    def refresh(self, *names: str) -> Refreshed:
        self.asked.append(("refresh", names))
        entries = tuple(HistoryEntry("", name, "", 8, "DIFFERENTIAL", "CHANGED", 2, 1, 0.1, False) for name in names)
        return Refreshed(8, 0.2, 3, entries)


@contextmanager
def serving(backend: SyntheticBackend, access: Access | None = None) -> Iterator[str]:
    """A server over the backend; its address."""
    watcher = Watcher(backend)
    app = create_app(backend, watcher, access or Access())
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=2))
    with _listen(Options(port=0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        watcher.start()
        thread.start()
        try:
            yield f"http://{_shown(listening)}"
        finally:
            watcher.stop()
            server.should_exit = True
            thread.join(10)
