"""The application: pages, API, static files, behind the guard."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from anabranch.errors import AnabranchError, ConflictError, NotFoundError, QueryError, SettingError, StateError
from anabranch.observe.web import pages
from anabranch.observe.web.api import HISTORY_LIMIT, ROWS_LIMIT, TICKS_LIMIT, Api, node_named, problem, table_named
from anabranch.observe.web.backend import Backend
from anabranch.observe.web.model import Section, SourceView
from anabranch.observe.web.pages import Visitor
from anabranch.observe.web.security import COOKIE, Access, Guard
from anabranch.observe.web.watch import Watcher

log = logging.getLogger(__name__)

STATIC = Path(__file__).parent / "static"
WRONG_TOKEN_SECONDS = 1.0
LONGEST_FORM = 4096
STATUS = ((NotFoundError, 404), ((StateError, ConflictError), 409), ((QueryError, SettingError), 400))


class Pages:
    """The pages over one lake."""

    def __init__(self, backend: Backend, watcher: Watcher, api: Api, access: Access) -> None:
        self._backend = backend
        self._watcher = watcher
        self._api = api
        self._access = access
        self._login = asyncio.Lock()

    def routes(self) -> list[Route]:
        found: dict[str, Callable[[Request], str]] = {
            "/": lambda request: pages.graph_page(self._watcher.view, self._visitor(request)),
            "/ticks": self._ticks,
            "/pending": lambda request: pages.pending_page(self._watcher.view, self._visitor(request)),
            "/errors": lambda request: pages.errors_page(self._watcher.view, self._visitor(request)),
            "/api": lambda request: pages.api_page(self._watcher.view, self._visitor(request), self._api.document),
            "/login": lambda request: pages.login_page(self._watcher.view, self._visitor(request), False),
            "/tables/{table}": self._table,
            "/tables/{table}/explain": self._explain,
            "/tables/{table}/rows": self._rows,
        }
        routes = [Route(path, _page(render), methods=["GET"]) for path, render in found.items()]
        return [*routes, Route("/login", self._enter, methods=["POST"])]

    def _visitor(self, request: Request) -> Visitor:
        return Visitor(self._access.knows(request.headers), self._access.token is not None)

    def _table(self, request: Request) -> str:
        view, visitor = self._watcher.view, self._visitor(request)
        table = table_named(view, request)
        if isinstance(table, SourceView):
            return pages.source_page(view, visitor, table)
        history = self._backend.history(table, HISTORY_LIMIT[0])
        return pages.node_page(view, visitor, table, self._backend.frontier(table), history)

    def _explain(self, request: Request) -> str:
        node = node_named(self._watcher.view, request.path_params["table"])
        try:
            sections = self._backend.explain(node)
        except AnabranchError as error:  # its source was dropped, say: that is the explanation
            sections = (Section("it cannot be explained now", str(error)),)
        return pages.explain_page(self._watcher.view, self._visitor(request), node, sections)

    def _rows(self, request: Request) -> str:
        table = table_named(self._watcher.view, request)
        rows = self._backend.first_rows(table, ROWS_LIMIT[0])
        return pages.rows_page(self._watcher.view, self._visitor(request), table, rows)

    def _ticks(self, request: Request) -> str:
        ticks = self._backend.ticks(TICKS_LIMIT[0])
        return pages.ticks_page(self._watcher.view, self._visitor(request), ticks)

    async def _enter(self, request: Request) -> Response:
        """Take the token and give a cookie. One attempt at a time, and a wrong one takes a while: no guessing."""
        form = await _form(request)
        async with self._login:
            if self._access.is_token(form.get("token", "")):
                answer = RedirectResponse("/", 303)
                secure = request.url.scheme == "https"
                answer.set_cookie(COOKIE, self._access.session, httponly=True, samesite="strict", secure=secure)
                return answer
            await asyncio.sleep(WRONG_TOKEN_SECONDS)
        return HTMLResponse(pages.login_page(self._watcher.view, self._visitor(request), True), 403)


def create_app(backend: Backend, watcher: Watcher, access: Access, schedules: bool = True) -> ASGIApp:
    """The whole application; `schedules` says whether its process is to run the scheduler."""
    api = Api(backend, watcher, schedules)
    routes = [
        *Pages(backend, watcher, api, access).routes(),
        *api.routes(),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    handlers = {AnabranchError: _declined, HTTPException: _http, Exception: _unexpected}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), access)  # type: ignore[arg-type]


async def _form(request: Request) -> dict[str, str]:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > LONGEST_FORM:
            raise HTTPException(413, "the form is too long")
    return {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}


def _page(render: Callable[[Request], str]) -> Callable[[Request], Response]:
    def page(request: Request) -> Response:
        return HTMLResponse(render(request))

    return page


async def _declined(request: Request, error: AnabranchError) -> Response:
    status = next((status for kinds, status in STATUS if isinstance(error, kinds)), 500)
    return _told(request, status, error.code, error.message, error.detail, error.hint)


async def _http(request: Request, error: HTTPException) -> Response:
    return _told(request, error.status_code, f"HTTP_{error.status_code}", error.detail)


async def _unexpected(request: Request, error: Exception) -> Response:
    log.error("a request to %s failed", request.url.path, exc_info=error)
    return _told(request, 500, "INTERNAL_ERROR", "the request failed", hint="the server's log says why")


def _told(request: Request, status: int, code: str, message: str, detail: str = "", hint: str = "") -> Response:
    if request.url.path.startswith(("/api/", "/static/")) or request.method != "GET":
        return problem(status, code, message, detail, hint)
    return HTMLResponse(pages.problem_page(None, Visitor(), code, message, detail, hint), status)
