"""What follows a failed refresh.

    wait after the n-th error in a row  =  min(longest, first * 2^(n-1))
    n = max_consecutive_errors          :  suspended, until somebody resumes the node

A refresh that succeeds, or finds nothing to do, sets n back to 0. An `ALTER` does as well: it is a new query.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from anabranch.schedule.state import Hold, HoldKind, NodeState

FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 300.0


def backoff_seconds(
    consecutive_errors: int, first: float = FIRST_WAIT_SECONDS, longest: float = LONGEST_WAIT_SECONDS
) -> float:
    """How long to wait after so many errors in a row."""
    doublings = min(max(consecutive_errors - 1, 0), 60)
    return float(min(longest, first * 2.0**doublings))


def after_error(
    node: NodeState,
    now: datetime,
    error: str,
    max_consecutive_errors: int = 3,
    first: float = FIRST_WAIT_SECONDS,
    longest: float = LONGEST_WAIT_SECONDS,
) -> NodeState:
    """The node after one more failure: backing off, or suspended. A node paused meanwhile stays paused."""
    errors = node.consecutive_errors + 1
    if errors >= max_consecutive_errors:
        hold = Hold(HoldKind.SUSPENDED, f"{errors} errors in a row, the last: {error}")
    else:
        seconds = backoff_seconds(errors, first, longest)
        text = f"error {errors} of {max_consecutive_errors} in a row, tried again after {seconds:g} s: {error}"
        hold = Hold(HoldKind.BACKING_OFF, text, now + timedelta(seconds=seconds))
    if node.hold is not None and node.hold.kind in (HoldKind.PAUSED, HoldKind.GATED):
        hold = node.hold
    return replace(node, consecutive_errors=errors, hold=hold)


def after_success(node: NodeState) -> NodeState:
    """The node after a refresh that went well: no errors, no back-off. A pause made meanwhile stays."""
    kept = node.hold if node.hold and node.hold.kind in (HoldKind.PAUSED, HoldKind.GATED) else None
    return replace(node, consecutive_errors=0, hold=kept)


def resumed(node: NodeState) -> NodeState:
    """The node after `resume`: no hold of any kind, a fresh count of errors."""
    return replace(node, consecutive_errors=0, hold=None)
