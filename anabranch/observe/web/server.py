"""`anabranch serve`: the scheduler in one thread, the watcher in another, the pages in this one."""

from __future__ import annotations

import logging
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn

from anabranch.engine import Engine
from anabranch.errors import SettingError, StateError
from anabranch.observe.web.app import create_app
from anabranch.observe.web.backend import LakeBackend
from anabranch.observe.web.security import Access, is_loopback
from anabranch.observe.web.watch import Watcher
from anabranch.scheduler import Scheduler

log = logging.getLogger(__name__)

HOST, PORT = "127.0.0.1", 8765
SHORTEST_TOKEN = 16
GRACE_SECONDS = 5


@dataclass(frozen=True)
class Options:
    """Where and for whom. Without a token one is made up where others reach the server; `port` 0 takes a free one."""

    host: str = HOST
    port: int = PORT
    token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    protect_reading: bool = False
    schedule: bool = True


@dataclass(frozen=True)
class Serving:
    """A server that accepts requests. `token` is None where none is needed."""

    url: str
    token: str | None
    stop: Callable[[], None]


def access_of(options: Options) -> Access:
    """The rules for these options."""
    token = options.token
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise SettingError(
            "TOKEN_TOO_SHORT",
            f"the token has {len(token)} characters",
            f"a token has at least {SHORTEST_TOKEN}",
            "leave it out, and a good one is made up",
        )
    if token is None and (not is_loopback(options.host) or options.protect_reading):
        token = secrets.token_urlsafe(24)
    names = {options.host, *options.allowed_hosts}
    return Access(token, frozenset(each.lower() for each in names), options.protect_reading)


def serve(
    engine: Engine,
    scheduler: Scheduler,
    options: Options,
    ready: Callable[[Serving], None] = lambda serving: None,
) -> None:
    """Serve until SIGINT, SIGTERM or `Serving.stop`; `ready` is called when the port is open."""
    access = access_of(options)
    listening = _listen(options)
    backend = LakeBackend(engine, scheduler)
    watcher = Watcher(backend)
    config = uvicorn.Config(
        create_app(backend, watcher, access, options.schedule),
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="off",
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = uvicorn.Server(config)

    def stop() -> None:
        server.should_exit = True

    with listening:
        url = f"http://{_shown(listening)}"
        runner = threading.Thread(target=scheduler.run, name="anabranch-scheduler") if options.schedule else None
        if runner is not None:
            runner.start()
        watcher.start()
        ending = threading.Thread(target=_end_streams, args=(server, watcher), daemon=True)
        ending.start()
        try:
            with _ended_by_signals(stop):
                ready(Serving(url, access.token, stop))
                server.run(sockets=[listening])
        finally:
            server.should_exit = True
            watcher.stop()
            if runner is not None:
                scheduler.stop()
                runner.join()


@contextmanager
def _ended_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """uvicorn ends at SIGINT and SIGTERM and then raises them once more, for whoever was there before: for us they are
    done with, and what comes after the server is still cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, lambda *_: stop()) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_streams(server: uvicorn.Server, watcher: Watcher) -> None:
    """Let open event streams end as soon as the server is told to: it waits for them."""
    while not server.should_exit:
        threading.Event().wait(0.2)
    watcher.stop()


def _listen(options: Options) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((options.host, options.port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise StateError(
            "PORT_NOT_OPENED",
            f"cannot listen on {options.host} port {options.port}",
            str(error),
            "choose another with --port, or --port 0 for a free one",
        ) from error
    return listening


def _shown(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
