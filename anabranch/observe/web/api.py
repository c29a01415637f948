"""The JSON API: what each operation answers, and the routes that lead to it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from anabranch.errors import NotFoundError, SettingError
from anabranch.observe.web.actions import Actions
from anabranch.observe.web.backend import Backend, Refreshed
from anabranch.observe.web.events import Streams, stream
from anabranch.observe.web.metrics import CONTENT_TYPE, metrics
from anabranch.observe.web.model import (
    FirstRows,
    FrontierLine,
    HistoryEntry,
    LakeView,
    LostTick,
    NodeView,
    PendingView,
    SchedulerView,
    Section,
    SourceView,
    TickView,
)
from anabranch.observe.web.openapi import Operation, document
from anabranch.observe.web.watch import Watcher

LONGEST_SILENCE_SECONDS = 60.0
HISTORY_LIMIT = (100, 1000)
TICKS_LIMIT = (30, 200)
ROWS_LIMIT = (20, 200)


@dataclass(frozen=True)
class Health:
    """`status` is ok or failing; `looked_seconds_ago` is the age of what the page shows."""

    status: str
    snapshot: int
    scheduler: str
    looked_seconds_ago: float


@dataclass(frozen=True)
class Failing:
    """All that fails: stream tables, and ticks of this process as a whole."""

    tables: tuple[NodeView, ...]
    ticks: tuple[LostTick, ...]


OPERATIONS = (
    Operation("GET", "/health", "Whether the page and the scheduler are alive.", Health, unwell=503),
    Operation("GET", "/metrics", "Numbers for Prometheus.", "text/plain"),
    Operation("GET", "/openapi.json", "This document.", "application/vnd.oai.openapi+json"),
    Operation("GET", "/api/lake", "Everything at a glance: sources, stream tables, diamonds, scheduler.", LakeView),
    Operation("GET", "/api/tables/{table}", "One source or stream table.", NodeView | SourceView),
    Operation("GET", "/api/tables/{table}/frontier", "What it reflects of its sources.", tuple[FrontierLine, ...]),
    Operation(
        "GET", "/api/tables/{table}/history", "Its refreshes, newest first.", tuple[HistoryEntry, ...], HISTORY_LIMIT
    ),
    Operation("GET", "/api/tables/{table}/explain", "How and why it is refreshed.", tuple[Section, ...]),
    Operation("GET", "/api/tables/{table}/rows", "A few of its rows, without a Spark job.", FirstRows, ROWS_LIMIT),
    Operation("GET", "/api/ticks", "The ticks that committed, newest first.", tuple[TickView, ...], TICKS_LIMIT),
    Operation("GET", "/api/pending", "Changed rows that wait.", tuple[PendingView, ...]),
    Operation("GET", "/api/errors", "What fails, with hints.", Failing),
    Operation("GET", "/api/events", "What changes, as server-sent events.", "text/event-stream"),
    Operation("POST", "/api/refresh", "Refresh everything pending, now.", Refreshed),
    Operation("POST", "/api/scheduler/pause", "Let the scheduler start no further tick.", SchedulerView),
    Operation("POST", "/api/scheduler/resume", "Let the scheduler go on.", SchedulerView),
    Operation("POST", "/api/tables/{table}/refresh", "Refresh it and what must move with it, now.", Refreshed),
    Operation("POST", "/api/tables/{table}/pause", "Hold it.", NodeView),
    Operation("POST", "/api/tables/{table}/resume", "Let it go on, after a pause or a suspension.", NodeView),
)


class Api:
    """The operations over one lake."""

    def __init__(self, backend: Backend, watcher: Watcher, schedules: bool = True) -> None:
        self._backend = backend
        self._schedules = schedules
        self._watcher = watcher
        self._streams = Streams()
        self.actions = Actions()
        self.document = document(OPERATIONS, version("anabranch"))

    def routes(self) -> list[Route]:
        """A route for each operation, by its id."""
        answers: dict[str, Callable[[Request], Any]] = {
            "get_health": self._health,
            "get_metrics": lambda _: PlainTextResponse(metrics(self._watcher.view), media_type=CONTENT_TYPE),
            "get_openapi_json": lambda _: JSONResponse(self.document),
            "get_lake": lambda _: as_json(self._watcher.view),
            "get_tables_table": lambda request: as_json(table_named(self._watcher.view, request)),
            "get_tables_table_frontier": lambda request: as_json(self._backend.frontier(self._node(request))),
            "get_tables_table_history": self._history,
            "get_tables_table_explain": lambda request: as_json(self._backend.explain(self._node(request))),
            "get_tables_table_rows": self._rows,
            "get_ticks": lambda request: as_json(self._backend.ticks(limit_of(request, TICKS_LIMIT))),
            "get_pending": lambda _: as_json(self._watcher.view.pending),
            "get_errors": self._errors,
            "get_events": self._events,
            "post_refresh": lambda request: self._act(lambda: as_json(self._backend.refresh())),
            "post_scheduler_pause": lambda request: self._act(self._backend.pause, self._scheduler),
            "post_scheduler_resume": lambda request: self._act(self._backend.resume, self._scheduler),
            "post_tables_table_refresh": self._refresh,
            "post_tables_table_pause": lambda request: self._hold(request, self._backend.pause),
            "post_tables_table_resume": lambda request: self._hold(request, self._backend.resume),
        }
        return [
            Route(each.path, _endpoint(answers[each.id], each.changes), methods=[each.method], name=each.id)
            for each in OPERATIONS
        ]

    def _health(self, request: Request) -> Response:
        view, age = self._watcher.view, self._watcher.age_seconds
        is_there = view.scheduler.state != "STOPPED" or not self._schedules
        healthy = age < LONGEST_SILENCE_SECONDS and is_there
        state = Health("ok" if healthy else "failing", view.snapshot, view.scheduler.state, round(age, 3))
        return as_json(state, 200 if healthy else 503)

    def _history(self, request: Request) -> Response:
        return as_json(self._backend.history(self._node(request), limit_of(request, HISTORY_LIMIT)))

    def _rows(self, request: Request) -> Response:
        table = table_named(self._watcher.view, request)
        return as_json(self._backend.first_rows(table, limit_of(request, ROWS_LIMIT)))

    def _errors(self, request: Request) -> Response:
        view = self._watcher.view
        return as_json(Failing(tuple(node for node in view.nodes if node.error), view.lost_ticks))

    def _events(self, request: Request) -> Response:
        if self._streams.is_full:
            return problem(503, "TOO_MANY_STREAMS", "too many pages listen already", hint="close some of them")
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")
        events = stream(self._watcher, self._streams, int(seen) if seen.isdecimal() else 0)
        return StreamingResponse(events, media_type="text/event-stream")

    def _refresh(self, request: Request) -> Awaitable[Response]:
        name = self._node(request).name
        return self._act(lambda: as_json(self._backend.refresh(name)))

    def _hold(self, request: Request, action: Callable[[str], None]) -> Awaitable[Response]:
        name = self._node(request).name
        return self._act(lambda: action(name), lambda: as_json(node_named(self._watcher.view, name)))

    def _scheduler(self) -> Response:
        return as_json(self._watcher.view.scheduler)

    async def _act(
        self, action: Callable[[], Response | None], answer: Callable[[], Response] | None = None
    ) -> Response:
        """Perform an action and answer when the page shows what it did."""

        def work() -> Response:
            done = action()
            self._watcher.look_now()
            return answer() if answer is not None else done or JSONResponse({})

        return await self.actions.perform(work)

    def _node(self, request: Request) -> NodeView:
        return node_named(self._watcher.view, request.path_params["table"])


def table_named(view: LakeView, request: Request) -> NodeView | SourceView:
    """The table that a request names by id or name."""
    key = request.path_params["table"]
    found = view.find(key)
    if found is None:
        names = ", ".join(each.name for each in view.tables)
        raise NotFoundError("TABLE_NOT_FOUND", f"there is no table {key!r}", f"existing tables: {names or 'none'}")
    return found


def node_named(view: LakeView, key: str) -> NodeView:
    """The stream table of an id or name."""
    found = view.find(key)
    if not isinstance(found, NodeView):
        what = "is a source, not a stream table" if found else "does not exist"
        names = ", ".join(each.name for each in view.nodes)
        raise NotFoundError(
            "STREAM_TABLE_NOT_FOUND", f"stream table {key!r} {what}", f"existing stream tables: {names or 'none'}"
        )
    return found


def limit_of(request: Request, bounds: tuple[int, int]) -> int:
    """The `limit` of a request, or the default."""
    default, most = bounds
    text = request.query_params.get("limit", str(default))
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise SettingError("BAD_LIMIT", f"limit cannot be {text!r}", f"it is a number from 1 to {most}")
    return int(text)


def as_json(value: Any, status: int = 200) -> Response:
    """A value of the model, or a tuple of them, as JSON."""
    plain = [asdict(each) for each in value] if isinstance(value, tuple) else asdict(value)
    return Response(json.dumps(plain, ensure_ascii=False), status, media_type="application/json")


def problem(status: int, code: str, message: str, detail: str = "", hint: str = "") -> Response:
    """What went wrong, as JSON."""
    return JSONResponse({"code": code, "message": message, "detail": detail, "hint": hint}, status)


def _endpoint(answer: Callable[[Request], Any], is_async: bool) -> Callable[[Request], Any]:
    """Reads run on a thread each, actions wait on the loop for the threads of their own."""

    def reads(request: Request) -> Response:
        found: Response = answer(request)
        return found

    async def acts(request: Request) -> Response:
        found: Response = await answer(request)
        return found

    return acts if is_async else reads
