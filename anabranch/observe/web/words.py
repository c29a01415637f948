"""Numbers, times and names as short texts."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote

_STEPS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def count(number: int) -> str:
    """`1234567` as `1 234 567`, with spaces that do not break."""
    return f"{number:,}".replace(",", "\u202f")


def counted(number: int, noun: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def span(seconds: float) -> str:
    """A span of time in its largest unit: `340 ms`, `12 s`, `5 min`."""
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    for size, unit in _STEPS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def ago(at: str, now: str) -> str:
    """How long before now an instant was; the page's script writes the same and keeps it true."""
    seconds = (datetime.fromisoformat(now) - datetime.fromisoformat(at)).total_seconds()
    if seconds < 1:
        return "just now"
    for size, unit in _STEPS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return f"{int(seconds)} s ago"


def moment(at: str) -> str:
    """An instant as `2026-05-01 10:00:00`, in UTC."""
    return datetime.fromisoformat(at).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def clipped(text: str, length: int) -> str:
    """At most so many characters, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"


def fitted(text: str, width: float, size: float) -> str:
    """As much of a line as fits into so many pixels, at a font size, in a font as wide as any in use."""
    line = " ".join(text.split())
    room = width / size
    for place, character in enumerate(line):
        room -= _width(character)
        if room < 0:
            return line[: max(place - 2, 0)].rstrip() + "…"
    return line


def _width(character: str) -> float:
    if character in "mwMW@%" or ord(character) > 0x2E80:
        return 1.05
    if character in "+\u2212=<>":
        return 0.85
    if character.isupper():
        return 0.7
    return 0.35 if character in " .,:;'|il" else 0.64


def code_of(reason: str) -> str:
    """The stable word at the start of a reason."""
    return reason.partition(":")[0].strip()


def change(inserted: int, deleted: int) -> str:
    """Rows that came and went, or `no change`."""
    if not inserted and not deleted:
        return "no change"
    return f"+{count(inserted)} \u2212{count(deleted)}"


def table_path(id: str, name: str) -> str:
    """The address of a table's page: by name where a path can hold it, else by id."""
    return f"/tables/{id if '/' in name or name in ('.', '..') else quote(name, safe='')}"
