"""One browser for all tests; a tab that complains in its console fails the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.web.browser import axe_source, find_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

OpenTab = Callable[..., "Page"]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Ended with this folder's tests: while it runs, the main thread has an event loop."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    from playwright.sync_api import sync_playwright

    chromium = find_chromium()
    if chromium is None:
        pytest.skip("chromium is not at /usr/bin/chromium, and apt-get cannot install it here")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def open_tab(browser: Browser) -> Iterator[OpenTab]:
    """Opens tabs; `viewport` and `color_scheme` are those of Playwright."""
    complaints: list[str] = []
    contexts = []

    def open_one(url: str, **options: Any) -> Page:
        context = browser.new_context(**options)
        context.set_default_timeout(30_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture(scope="session")
def axe() -> str:
    found = axe_source()
    if found is None:
        pytest.skip("axe-core is not in the cache, and npm cannot fetch it here")
    return found
