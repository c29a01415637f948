"""The pages as text: whatever names and queries contain, it is shown and never markup; every link leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest

from anabranch.observe.web.words import ago, change, clipped, count, span, table_path
from tests.web.http import ask
from tests.web.synthetic import NASTY, SyntheticBackend, identity, serving, shop

VOID = {"meta", "link", "img", "input", "br"}


class Parsed(HTMLParser):
    """Checks that tags are balanced, and collects what matters."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.links: set[str] = set()
        self.attributes: list[str] = []
        self.ids: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.attributes += given
        if tag == "script":
            self.scripts.append(given.get("src") or "inline")
        self.links.update(value for name in ("href", "src", "data-load") if (value := given.get(name)))
        if identity := given.get("id"):
            self.ids.append(identity)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(SyntheticBackend(shop())) as address:
        yield address


def crawl(url: str) -> dict[str, str]:
    """Every page that links lead to, from the graph on."""
    found: dict[str, str] = {}
    left = ["/"]
    while left:
        path = left.pop()
        if path in found:
            continue
        answer = ask(url + path)
        assert answer.status == 200, path
        found[path] = answer.text
        if answer.headers["content-type"].startswith("text/html"):
            links = Parsed(answer.text).links
            left += [each.partition("#")[0] or "/" for each in links if not each.startswith("#")]
    return found


def test_every_link_leads_somewhere_and_no_page_has_markup_that_is_not_ours(url: str) -> None:
    found = crawl(url)
    pages = {path: text for path, text in found.items() if text.startswith("<!doctype html>")}
    assert {"/", "/ticks", "/pending", "/errors", "/api", "/tables/exec_summary/explain"} <= pages.keys()
    assert f"/tables/{identity(NASTY)}" in pages
    for path, text in pages.items():
        parsed = Parsed(text)
        assert NASTY not in text, path
        assert "alert(" in re.sub(r"&[^;]+;", "", text), path
        assert set(parsed.scripts) <= {"/static/page.js", "/static/graph.js"}, path
        assert not {each for each in parsed.attributes if each.startswith("on") or each == "style"}, path
        assert len(parsed.ids) == len(set(parsed.ids)), path


def test_a_page_that_is_not_there_says_what_is(url: str) -> None:
    answer = ask(f"{url}/tables/nothing")
    assert answer.status == 404
    assert "existing tables: sales, rates" in answer.text
    assert ask(f"{url}/nowhere").status == 404
    assert ask(f"{url}/static/../app.py").status == 404
    assert ask(f"{url}/tables/%3Cscript%3E").text.count("<script") == 1


def test_what_cannot_be_explained_says_why(url: str) -> None:
    answer = ask(f"{url}/tables/held/explain")
    assert (answer.status, "[SOURCE_DROPPED] what it reads" in answer.text) == (200, True)
    assert ask(f"{url}/api/tables/held/explain").status == 409


def test_a_table_is_found_by_name_in_any_case_and_by_id(url: str) -> None:
    for key in ("exec_summary", "EXEC_Summary", identity("exec_summary")):
        assert "<h1>exec_summary" in ask(f"{url}/tables/{key}").text


def test_words() -> None:
    assert count(1234567) == "1\u202f234\u202f567"
    assert [span(each) for each in (0.0, 0.34, 2.5, 75, 7200)] == ["0 ms", "340 ms", "2.5 s", "1 min", "2 h"]
    assert ago("2026-05-01T10:00:00+00:00", "2026-05-01T10:00:00.4+00:00") == "just now"
    assert ago("2026-05-01T10:00:00+00:00", "2026-05-01T11:59:00+00:00") == "1 h ago"
    assert change(0, 0) == "no change"
    assert change(3, 1) == "+3 \u22121"
    assert clipped("a\n  b" * 9, 8) == "a ba ba…"
    assert table_path("id", "a b<") == "/tables/a%20b%3C"
    assert table_path("id", "a/b") == "/tables/id"
