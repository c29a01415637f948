"""Values of table cells as text for people."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

LONGEST_CELL = 200


def cell_text(value: Any) -> str | None:
    """The value as one line of text, cut where it is long; None stays None, which pages show as NULL."""
    if value is None:
        return None
    text = _text(value)
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"


def _text(value: Any) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case bytes():
            return "0x" + value[: LONGEST_CELL // 2].hex()
        case datetime():
            return value.isoformat(sep=" ")
        case list() | dict() | tuple():
            return json.dumps(value, default=_text, ensure_ascii=False)
        case Decimal() | date() | _:
            return str(value)
