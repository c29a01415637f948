"""Requests as a program sends them: every header is the test's own."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


def ask(url: str, method: str = "GET", headers: Mapping[str, str] | None = None, body: str | None = None) -> Answer:
    """Send one request; a POST carries JSON unless the headers say otherwise."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    given = {name.lower(): value for name, value in (headers or {}).items()}
    if method == "POST":
        given = {"content-type": "application/json"} | given
    try:
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(method, path or "/", body or ("{}" if method == "POST" else None), given)
        response = connection.getresponse()
        text = response.read().decode()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, text)
    finally:
        connection.close()
