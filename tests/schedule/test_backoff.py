"""Back-off doubles, ends in suspension, and never undoes a pause."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from anabranch.schedule.backoff import after_error, after_success, backoff_seconds, resumed
from anabranch.schedule.state import Hold, HoldKind, NodeState

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
NODE = NodeState("n", "n", ("s",))


def test_the_wait_doubles_up_to_a_limit() -> None:
    assert [backoff_seconds(errors) for errors in range(1, 6)] == [1, 2, 4, 8, 16]
    assert backoff_seconds(10_000) == 300


def test_after_the_last_allowed_error_the_node_is_suspended() -> None:
    once = after_error(NODE, NOON, "boom")
    assert once.hold is not None
    assert (once.hold.kind, once.hold.until) == (HoldKind.BACKING_OFF, NOON + timedelta(seconds=1))
    assert once.hold.text == "error 1 of 3 in a row, tried again after 1 s: boom"
    assert once.hold.active(NOON)
    assert not once.hold.active(NOON + timedelta(seconds=1))
    thrice = after_error(after_error(once, NOON, "boom"), NOON, "boom")
    assert thrice.hold == Hold(HoldKind.SUSPENDED, "3 errors in a row, the last: boom")
    assert resumed(thrice) == NODE


def test_success_clears_errors_and_a_pause_stays() -> None:
    paused = replace(NODE, hold=Hold(HoldKind.PAUSED), consecutive_errors=1)
    assert after_error(paused, NOON, "boom").hold == paused.hold
    assert after_success(paused) == replace(NODE, hold=paused.hold)
    assert after_success(after_error(NODE, NOON, "boom")) == NODE
