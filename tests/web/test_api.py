"""The API against its own description: every operation answers what the document says, and no other route is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from anabranch.observe.web.api import OPERATIONS
from anabranch.observe.web.events import changes
from anabranch.observe.web.metrics import metrics
from anabranch.observe.web.model import SchedulerView
from anabranch.observe.web.openapi import JSON
from tests.web.http import Answer, ask
from tests.web.synthetic import NASTY, SyntheticBackend, refreshed, serving, shop


@pytest.fixture
def backend() -> SyntheticBackend:
    return SyntheticBackend(shop())


@pytest.fixture
def url(backend: SyntheticBackend) -> Iterator[str]:
    with serving(backend) as address:
        yield address


def check(document: dict[str, Any], path: str, method: str, answer: Answer) -> None:
    """The answer is one that the document describes."""
    responses = document["paths"][path][method]["responses"]
    described = responses.get(str(answer.status), responses["default"])["content"]
    kind = answer.headers["content-type"].partition(";")[0]
    assert kind in described, (path, method, kind)
    if kind == JSON:
        schema = {**described[JSON]["schema"], "components": document["components"]}
        jsonschema.validate(answer.json, schema, cls=jsonschema.Draft202012Validator)


def test_the_document_is_one(url: str) -> None:
    document = ask(f"{url}/openapi.json").json
    assert document["openapi"] == "3.1.0"
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    identities = [each["operationId"] for path in document["paths"].values() for each in path.values()]
    assert len(identities) == len(set(identities)) == len(OPERATIONS)


def test_every_operation_answers_what_is_written(url: str) -> None:
    document = ask(f"{url}/openapi.json").json
    for operation in OPERATIONS:
        if operation.path in ("/api/events", "/openapi.json"):
            continue
        for table in ("exec_summary", "margin", "sales") if "{table}" in operation.path else ("",):
            answer = ask(url + operation.path.replace("{table}", table), operation.method)
            check(document, operation.path, operation.method.lower(), answer)
            assert answer.status == 200 or table == "sales", (operation.path, answer.text)


def test_what_is_wrong_is_said_as_written(url: str) -> None:
    document = ask(f"{url}/openapi.json").json
    for operation in OPERATIONS:
        if "{table}" in operation.path:
            answer = ask(url + operation.path.replace("{table}", "nothing"), operation.method)
            check(document, operation.path, operation.method.lower(), answer)
            assert answer.status == 404
    held = ask(f"{url}/api/tables/held/pause", "POST")
    assert (held.status, held.json["code"], held.json["hint"]) == (409, "IMMEDIATE_CANNOT_PAUSE", "alter it first")
    check(document, "/api/tables/{table}/pause", "post", held)
    for limit in ("0", "-1", "x", "1001"):
        wrong = ask(f"{url}/api/tables/exec_summary/history?limit={limit}")
        assert (wrong.status, wrong.json["code"]) == (400, "BAD_LIMIT")
    assert len(ask(f"{url}/api/tables/exec_summary/history?limit=7").json) == 7
    assert ask(f"{url}/api/refresh").status == 405


def test_a_lost_scheduler_is_unhealthy(backend: SyntheticBackend) -> None:
    backend.show(replace(backend.view, scheduler=SchedulerView("STOPPED")))
    with serving(backend) as url:
        answer = ask(f"{url}/health")
        check(ask(f"{url}/openapi.json").json, "/health", "get", answer)
    assert (answer.status, answer.json["status"], answer.json["scheduler"]) == (503, "failing", "STOPPED")


def test_actions_reach_the_lake_and_answer_with_its_new_state(url: str, backend: SyntheticBackend) -> None:
    assert ask(f"{url}/api/tables/LATE/pause", "POST").json["state"] == "PAUSED"
    assert ask(f"{url}/api/tables/late/resume", "POST").json["state"] == "FRESH"
    assert ask(f"{url}/api/tables/late/refresh", "POST").json["nodes"][0]["name"] == "late"
    assert ask(f"{url}/api/scheduler/pause", "POST").json["state"] == "PAUSED"
    assert ask(f"{url}/api/scheduler/resume", "POST").json["state"] == "RUNNING"
    assert ask(f"{url}/api/refresh", "POST").json["snapshot"] == 8
    assert backend.asked == [
        ("pause", ("late",)),
        ("resume", ("late",)),
        ("refresh", ("late",)),
        ("pause", ()),
        ("resume", ()),
        ("refresh", ()),
    ]


def test_a_change_tells_only_what_differs(backend: SyntheticBackend) -> None:
    old = backend.collect(1)
    backend.change("late", last=refreshed(0))
    new = backend.collect(2)
    told = changes(old, new)
    assert [card["name"] for card in told["cards"]] == ["late"]
    assert (told["redraw"], told["snapshot"], told["errors"]) == (False, 8, 2)
    everything = changes(None, new)
    assert (everything["redraw"], len(everything["cards"])) == (True, 9)


SAMPLE = re.compile(r'anabranch_[a-z_]+(\{([a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+\})? -?[0-9.e+-]+')


def test_metrics_are_what_prometheus_reads() -> None:
    lines = metrics(shop()).splitlines()
    kinds: dict[str, str] = {}
    for line in lines:
        if line.startswith("# TYPE"):
            _, _, name, kind = line.split(" ")
            assert name not in kinds
            kinds[name] = kind
        elif not line.startswith("# HELP"):
            assert SAMPLE.fullmatch(line), line
            assert re.split(r"[{ ]", line)[0] in kinds
    assert all(name.endswith("_total") == (kind == "counter") for name, kind in kinds.items())
    text = "\n".join(lines)
    assert 'anabranch_stream_tables{state="FRESH"} 3' in text
    assert 'anabranch_pending_rows{table="late"} 42' in text
    assert 'anabranch_consecutive_errors{table="margin"} 2' in text
    stale = re.search(r'staleness_seconds\{table="late"\} ([0-9.]+)', text)
    assert stale is not None
    assert 74 < float(stale.group(1)) < 90
    escaped = NASTY.replace("\\", "\\\\").replace('"', '\\"')
    assert f'anabranch_rows{{table="{escaped}",kind="stream_table"}} 1234' in lines
