"""Who is turned away: other names, other sites, strangers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.datastructures import Headers

from anabranch.errors import SettingError, StateError
from anabranch.observe.web.security import COOKIE, Access, is_loopback, refusal
from anabranch.observe.web.server import Options, _listen, access_of
from tests.web.http import ask
from tests.web.synthetic import SyntheticBackend, serving, shop

TOKEN = "a token for this test"
HERE = {"host": "127.0.0.1:8765"}
JSON = {"content-type": "application/json"}


def code(method: str, path: str, headers: dict[str, str], access: Access | None = None) -> str | None:
    refused = refusal(access or Access(), method, path, Headers(headers))
    return refused[1] if refused else None


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8765", "localhost:1", "[::1]:8765", "192.168.1.7:8765", "Lake.Example:80"]
)
def test_addresses_and_allowed_names_are_answered(host: str) -> None:
    assert code("GET", "/", {"host": host}, Access(names=frozenset({"lake.example"}))) is None


@pytest.mark.parametrize(
    "host",
    ["evil.test", "evil.test:8765", "127.0.0.1.evil.test", "localhost.evil.test", "", "[", "127.0.0.1@evil.test"],
)
def test_a_name_that_points_here_is_not_enough(host: str) -> None:
    """DNS rebinding: the request reaches us, but under the name of the hostile site."""
    for method, path in (("GET", "/"), ("GET", "/api/lake"), ("POST", "/api/refresh")):
        assert code(method, path, {"host": host, **JSON}) == "UNKNOWN_HOST"


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.test"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "http://127.0.0.1:8765.evil.test"},
        {"origin": "file://127.0.0.1:8765"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
    ],
)
def test_another_site_cannot_act(headers: dict[str, str]) -> None:
    for path in ("/api/refresh", "/login", "/whatever"):
        assert code("POST", path, {**HERE, **JSON, **headers}) == "FROM_ANOTHER_SITE"


def test_our_own_page_and_programs_can() -> None:
    own = {"origin": "http://127.0.0.1:8765", "sec-fetch-site": "same-origin"}
    assert code("POST", "/api/refresh", {**HERE, **JSON, **own}) is None
    assert code("POST", "/api/refresh", {**HERE, **JSON}) is None
    behind_a_proxy = {"host": "lake.example", "origin": "https://lake.example"}
    assert code("POST", "/api/refresh", {**JSON, **behind_a_proxy}, Access(names=frozenset({"lake.example"}))) is None


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_a_foreign_form_could_send_is_refused(kind: str) -> None:
    """Even from a browser so old that it names no origin."""
    assert code("POST", "/api/refresh", {**HERE, "content-type": kind}) == "JSON_NEEDED"


def test_other_sites_may_link_and_not_load() -> None:
    foreign = {**HERE, "sec-fetch-site": "cross-site"}
    assert code("GET", "/", {**foreign, "sec-fetch-mode": "navigate"}) is None
    assert code("GET", "/api/lake", {**foreign, "sec-fetch-mode": "no-cors"}) == "FROM_ANOTHER_SITE"


def test_acting_needs_the_token_where_there_is_one() -> None:
    access = Access(TOKEN)
    post = {**HERE, **JSON}
    assert code("GET", "/", HERE, access) is None
    assert code("POST", "/api/refresh", post, access) == "TOKEN_NEEDED"
    assert code("POST", "/api/refresh", {**post, "authorization": "Bearer wrong"}, access) == "TOKEN_NEEDED"
    assert code("POST", "/api/refresh", {**post, "authorization": f"Bearer {TOKEN}"}, access) is None
    assert code("POST", "/api/refresh", {**post, "cookie": f"{COOKIE}={TOKEN}"}, access) == "TOKEN_NEEDED"
    assert code("POST", "/api/refresh", {**post, "cookie": f"{COOKIE}={access.session}"}, access) is None
    assert code("POST", "/api/refresh", {**post, "cookie": f"{COOKIE}={Access(TOKEN).session}"}, access) is not None


def test_reading_can_be_protected_too() -> None:
    access = Access(TOKEN, protect_reading=True)
    assert code("GET", "/api/lake", HERE, access) == "TOKEN_NEEDED"
    assert code("GET", "/metrics", HERE, access) == "TOKEN_NEEDED"
    assert code("GET", "/api/lake", {**HERE, "authorization": f"Bearer {TOKEN}"}, access) is None
    assert [code("GET", path, HERE, access) for path in ("/health", "/login", "/static/page.css")] == [None] * 3


def test_a_token_is_made_up_where_others_reach_the_server() -> None:
    assert access_of(Options()).token is None
    assert access_of(Options(host="::1")).token is None
    for options in (Options(host="0.0.0.0"), Options(host="lake.example"), Options(protect_reading=True)):
        assert len(access_of(options).token or "") >= 32
    assert access_of(Options(host="0.0.0.0", token=TOKEN)).token == TOKEN
    with pytest.raises(SettingError, match="TOKEN_TOO_SHORT"):
        access_of(Options(token="short"))
    assert not is_loopback("127.0.0.1.evil.test")


def test_a_port_that_is_taken_is_an_error_with_a_hint() -> None:
    with _listen(Options(port=0)) as taken, pytest.raises(StateError, match="--port 0"):
        _listen(Options(port=taken.getsockname()[1]))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(SyntheticBackend(shop()), Access(TOKEN)) as address:
        yield address


def test_every_answer_carries_the_headers(url: str) -> None:
    for path in ("/", "/api/lake", "/static/page.js", "/nowhere", "/api/tables/nothing"):
        headers = ask(url + path).headers
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
    refused = ask(url, headers={"host": "evil.test"})
    assert (refused.status, refused.json["code"]) == (421, "UNKNOWN_HOST")
    assert "frame-ancestors 'none'" in refused.headers["content-security-policy"]


def test_a_preflight_of_another_site_is_not_granted(url: str) -> None:
    asked = {"origin": "http://evil.test", "access-control-request-method": "POST", "sec-fetch-site": "cross-site"}
    answer = ask(f"{url}/api/refresh", "OPTIONS", asked)
    assert answer.status >= 400
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_the_login_gives_a_cookie_that_no_script_sees(url: str) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    wrong = ask(f"{url}/login", "POST", form, "token=wrong")
    assert (wrong.status, "set-cookie" in wrong.headers) == (403, False)
    right = ask(f"{url}/login", "POST", form, f"token={TOKEN.replace(' ', '+')}")
    assert (right.status, right.headers["location"]) == (303, "/")
    given = right.headers["set-cookie"]
    assert "HttpOnly" in given
    assert "SameSite=strict" in given
    assert TOKEN not in given
    cookie = given.partition(";")[0]
    assert ask(f"{url}/api/refresh", "POST", {"cookie": cookie}).status == 200
    assert ask(f"{url}/api/refresh", "POST").status == 401
    assert ask(f"{url}/login", "POST", form, "token=" + "x" * 9000).status == 413
