"""Who may do what, decided before any page or API code runs.

- *No other name.* A request must name the server by an address, by localhost or by a name that was allowed. A hostile
  site that lets its own name point to this machine (DNS rebinding) has its name in the request, and gets nothing.
- *No other site.* A request that changes something must come from our own page (Origin, Sec-Fetch-Site) or from a
  program, and the API takes JSON only, which a foreign form cannot send. Others may link here, not embed or read.
- *No stranger.* Where the server is not bound to loopback, what changes something needs the token as well.
- Pages load nothing from elsewhere and run no inline script (Content-Security-Policy): what slipped through the
  escaping would still not run.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "anabranch_session"
READING = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN_TO_ALL = ("/health", "/login", "/static/")
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True)
class Access:
    """The rules of one server. Without a token everybody who reaches it may act: loopback only.

    `names` are the host names it answers to, besides addresses and localhost.
    """

    token: str | None = None
    names: frozenset[str] = frozenset()
    protect_reading: bool = False
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    @property
    def session(self) -> str:
        """What the cookie of one who has entered the token holds."""
        return hmac.new(self._key, (self.token or "").encode(), "sha256").hexdigest()

    def is_token(self, given: str) -> bool:
        return self.token is not None and hmac.compare_digest(given.encode(), self.token.encode())

    def knows(self, headers: Headers) -> bool:
        """Whether the request may act, by bearer token or by the cookie of our login page."""
        if self.token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(given.strip()):
            return True
        return hmac.compare_digest(_cookie(headers).encode(), self.session.encode())

    def answers_to(self, host: str) -> bool:
        """Whether the Host header names this server."""
        name = _host_name(host)
        if name is None:
            return False
        return name == "localhost" or name in self.names or _is_address(name)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server bound to the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refusal(access: Access, method: str, path: str, headers: Headers) -> tuple[int, str, str] | None:
    """Why a request is not answered: status, code, message; None if it is."""
    host = headers.get("host", "")
    if not access.answers_to(host):
        message = f"this server does not answer to the name {host!r}; allow it with --allowed-host"
        return 421, "UNKNOWN_HOST", message
    site = headers.get("sec-fetch-site", "same-origin")
    if method in READING:
        if site == "cross-site" and headers.get("sec-fetch-mode", "navigate") != "navigate":
            return 403, "FROM_ANOTHER_SITE", "other sites may link to this page, not load or embed it"
        if access.protect_reading and not access.knows(headers) and not path.startswith(OPEN_TO_ALL):
            return 401, "TOKEN_NEEDED", "reading this lake needs the token"
        return None
    if site != "same-origin" or not _is_own_origin(headers.get("origin"), host):
        return 403, "FROM_ANOTHER_SITE", "a request from another site cannot act"
    if path.startswith("/api/"):
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return 415, "JSON_NEEDED", "what changes something is sent as application/json"
        if not access.knows(headers):
            return 401, "TOKEN_NEEDED", "this needs the token: Authorization: Bearer ..., or enter it on /login"
    return None


class Guard:
    """The rules as a layer around the application."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        path: str = scope["path"]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    given[name] = value
                given.setdefault("cache-control", "no-store")
            await send(message)

        refused = refusal(self._access, scope["method"], path, headers)
        if refused is None:
            await self._app(scope, receive, send_with_headers)
        else:
            await _answer(refused, path)(scope, receive, send_with_headers)


def _answer(refused: tuple[int, str, str], path: str) -> Response:
    status, code, message = refused
    if status == 401 and not path.startswith(("/api/", "/metrics", "/openapi.json")):
        return RedirectResponse("/login", 303)
    challenge = {"www-authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"code": code, "message": message, "detail": "", "hint": ""}, status, challenge)


def _is_own_origin(origin: str | None, host: str) -> bool:
    """A browser names the page's origin in every request that is not a plain read; a program names none."""
    if origin is None:
        return True
    parts = urlsplit(origin)
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def _host_name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""
