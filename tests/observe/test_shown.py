"""How values show themselves: as text, as HTML that escapes, as records of `logging`."""

from __future__ import annotations

import io
import json
import logging

import pytest

import anabranch
from anabranch.check import CheckResult
from anabranch.observe.graph import Diamond, Diamonds
from anabranch.observe.logs import log_tick, log_to
from anabranch.observe.report import Action, NodeReport, Report

EVIL = "<script>alert('x')</script>"


def report(action: Action) -> Report:
    error = {"code": "E", "message": EVIL, "hint": ""} if action is Action.FAILED else None
    return Report(7, 0.5, 3, {EVIL: NodeReport(EVIL, action, "CHANGED", rows_inserted=2, error=error)}, {}, (EVIL,))


@pytest.mark.parametrize(
    "value",
    [
        report(Action.DIFFERENTIAL),
        Diamonds((Diamond(EVIL, (EVIL,), (EVIL,), "atomic", "fastest", None),)),
        Diamonds(()),
        CheckResult(EVIL, False, 1, ((EVIL,),)),
    ],
)
def test_html_escapes_what_others_wrote(value: object) -> None:
    shown = value._repr_html_()  # type: ignore[attr-defined]
    assert "<script>" not in shown
    assert repr(value)


def test_a_tick_is_one_record_and_one_line_of_json() -> None:
    stream = io.StringIO()
    log_to(logging.StreamHandler(stream), "INFO", as_json=True)
    try:
        for action in (Action.DIFFERENTIAL, Action.NO_DATA, Action.FAILED):
            log_tick(report(action))
    finally:
        log_to(logging.NullHandler(), "WARNING")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["level"], first["logger"], first["snapshot"]) == ("INFO", "anabranch.tick", 7)
    assert first["nodes"][0]["rows_inserted"] == 2
    assert second["level"] == "WARNING"


def test_a_lake_and_what_it_tells_in_every_form(lake: anabranch.Lake) -> None:
    lake.sql("CREATE TABLE numbers (n BIGINT)")
    lake.create_stream_table("doubled", "SELECT n * 2 AS n FROM numbers", refresh_mode="FULL")
    assert "doubled" in lake._repr_html_()
    assert "1 stream tables" in repr(lake)
    assert lake.status("pandas")["name"].tolist() == ["doubled"]
    assert lake.history(form="spark").count() == lake.history().num_rows == 1
    with pytest.raises(anabranch.AnabranchError, match="BAD_FORM"):
        lake.status("csv")
    lake.sql("INSERT INTO numbers VALUES (1)")
    lake.refresh()
    explained = lake.explain("doubled", quick=True)
    assert "alter it to AUTO" in explained["about REFRESH_MODE_FULL"]
    assert "<pre>" in explained._repr_html_()
