"""Anchors as text, for the document that keeps them."""

from __future__ import annotations

import json
from functools import lru_cache

from anabranch.store.snapshots import Anchors


@lru_cache(maxsize=8)
def anchors_from(document: str | None) -> Anchors:
    """The anchors that a document holds."""
    if document is None:
        return {}
    stored = json.loads(document)
    return {int(at): {int(table): version for table, version in tables.items()} for at, tables in stored.items()}


def anchors_text(anchors: Anchors) -> str:
    """The document that holds the anchors."""
    return json.dumps({str(at): {str(key): value for key, value in tables.items()} for at, tables in anchors.items()})
