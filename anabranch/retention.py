"""Which history has to stay: what stream tables still need to work out their next change.

One that refreshes itself needs the snapshots it last read, however old. One that is held or refreshed by hand needs
them for `history_retention`; after that its next refresh is full, with the reason CHANGE_FEED_EXPIRED.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from anabranch.definitions import RefreshMode, StreamTable
from anabranch.engine import Engine
from anabranch.pinned import Pinned
from anabranch.settings import seconds
from anabranch.store.protocol import TableAt, Version


def expire(engine: Engine, older_than: str) -> int:
    """Drop snapshots older than this, except those that are still needed; returns how many went."""
    engine.check_outside_transaction("expiry")
    return engine.store.expire(seconds(older_than), frozenset(needed(engine, engine.pin())))


def needed(engine: Engine, pinned: Pinned) -> Iterator[Version | TableAt]:
    """What has to stay readable. Of a source any snapshot with the same rows will do; of a stream table's definition
    the snapshot itself is looked at."""
    limit = datetime.now(UTC) - timedelta(seconds=seconds(engine.settings.text("history_retention")))
    young = {each.version for each in engine.store.snapshots() if _instant(each.committed_at) >= limit}
    for node in pinned.nodes.values():
        if node.id not in pinned.frontiers:
            continue
        for table, at in pinned.frontiers[node.id].inputs.items():
            if at in young or _refreshes_itself(pinned, node):
                yield at if table in pinned.nodes else TableAt(table, at)


def _refreshes_itself(pinned: Pinned, node: StreamTable) -> bool:
    condition = pinned.conditions[node.id]
    moves = node.schedule is not None or node.refresh_mode is RefreshMode.IMMEDIATE
    return moves and not condition.paused and not condition.suspended


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
