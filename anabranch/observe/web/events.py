"""Live: a stream of server-sent events that tells a page what to show otherwise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from anabranch.observe.web.cards import card_of
from anabranch.observe.web.model import LakeView
from anabranch.observe.web.watch import Watcher

LOOK_EVERY_SECONDS = 0.25
KEEP_ALIVE_SECONDS = 15.0
MOST_STREAMS = 64


class Streams:
    """Counts the open streams: each holds a connection."""

    def __init__(self) -> None:
        self.open = 0

    @property
    def is_full(self) -> bool:
        return self.open >= MOST_STREAMS


def changes(old: LakeView | None, new: LakeView) -> dict[str, Any]:
    """What a page that shows `old` must show otherwise: the cards that differ, and whether the drawing does."""
    known = {} if old is None else {each.name: each for each in old.tables}
    differing = [each for each in new.tables if known.get(each.name) != each]
    return {
        "revision": new.revision,
        "snapshot": new.snapshot,
        "redraw": old is None or old.shape != new.shape,
        "scheduler": new.scheduler.state,
        "errors": new.error_count,
        "cards": [asdict(card_of(each)) for each in differing],
    }


async def stream(watcher: Watcher, streams: Streams, seen: int) -> AsyncIterator[str]:
    """Events from the revision that the page shows on; a comment now and then, so that a lost reader is noticed."""
    streams.open += 1
    try:
        shown = watcher.seen(seen)
        quiet = 0.0
        yield ": here\n\n"
        while not watcher.is_stopping:
            view = watcher.view
            if shown is None or view.revision != shown.revision:
                yield f"id: {view.revision}\nevent: change\ndata: {json.dumps(changes(shown, view))}\n\n"
                shown, quiet = view, 0.0
            elif quiet >= KEEP_ALIVE_SECONDS:
                yield ": still here\n\n"
                quiet = 0.0
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            quiet += LOOK_EVERY_SECONDS
    finally:
        streams.open -= 1
