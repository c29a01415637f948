"""Which nodes of a tick are worked out together: the largest eligible subgraph, by one scan in topological order.

eligible(n)  <=>  n is differential in this tick, its change is small enough to collect,
                  and every moving node that it reads is eligible
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """A node that moves. `change_rows` is an upper bound on the changed rows of its direct inputs."""

    node: str
    inputs: tuple[str, ...]
    is_differential: bool
    change_rows: int


def exclusions(candidates: Iterable[Candidate], limit: int) -> dict[str, str | None]:
    """Per node, in the given topological order: why it is not worked out together with others; None if it is."""
    reasons: dict[str, str | None] = {}
    for each in candidates:
        upstream = next((table for table in each.inputs if reasons.get(table) is not None), None)
        if not each.is_differential:
            reasons[each.node] = "FULL"
        elif each.change_rows > limit:
            reasons[each.node] = "CHANGE_TOO_LARGE"
        elif upstream is not None:
            reasons[each.node] = "UPSTREAM_NOT_FUSED"
        else:
            reasons[each.node] = None
    return reasons
