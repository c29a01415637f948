"""Settings at the head of a SQL file: in its leading comment, or between two lines of three dashes.

-- schedule: 2s                     ---
-- refresh_mode: DIFFERENTIAL       schedule: 2s
SELECT ...                          ---
                                    SELECT ...
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field

from anabranch.errors import SettingError
from anabranch.project.desired import Place
from anabranch.project.located import at

KEYS = ("name", "schedule", "refresh_mode", "diamond_consistency", "diamond_schedule_policy")
_COMMENT = re.compile(r"--\s*([A-Za-z_]+)\s*:\s*(.*?)\s*$")
_PLAIN = re.compile(r"([A-Za-z_]+)\s*:\s*(.*?)\s*$")
_FENCE = "---"


@dataclass(frozen=True)
class Head:
    """The settings of a file, where each was said, and the line after which its statements begin."""

    settings: dict[str, str] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    lines: int = 0


def read_head(file: str, text: str) -> Head:
    """What stands before the first statement."""
    lines = text.splitlines()
    if lines and lines[0].strip() == _FENCE:
        return _fenced(file, lines)
    head = Head()
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("--"):
            break
        found = _COMMENT.match(stripped)
        if found and _is_setting(file, number, found[1].lower()):
            _put(head, Place(file, number), found[1].lower(), found[2])
    return head


def _fenced(file: str, lines: list[str]) -> Head:
    end = next((number for number, line in enumerate(lines[1:], 2) if line.strip() == _FENCE), None)
    if end is None:
        with at(Place(file)):
            raise SettingError("BAD_FRONT_MATTER", "the settings have no end", hint="close them with a line ---")
    head = Head(lines=end)
    for number, line in enumerate(lines[1 : end - 1], 2):
        if not line.strip() or line.strip().startswith("#"):
            continue
        found = _PLAIN.match(line.strip())
        if found is None or found[1].lower() not in KEYS:
            raise _unknown(file, number, line.strip())
        _put(head, Place(file, number), found[1].lower(), found[2])
    return head


def _is_setting(file: str, number: int, key: str) -> bool:
    """Whether a word before a colon is a setting. One that is nearly a setting is a slip of the pen, not prose."""
    if key in KEYS:
        return True
    if difflib.get_close_matches(key, KEYS, 1, 0.8):
        raise _unknown(file, number, key)
    return False


def _put(head: Head, place: Place, key: str, value: str) -> None:
    if key in head.settings:
        with at(place):
            raise SettingError("BAD_FRONT_MATTER", f"{key} is said twice", f"first at {head.places[key]}")
    head.settings[key] = value.strip("'\"")
    head.places[key] = place


def _unknown(file: str, number: int, given: str) -> SettingError:
    error = SettingError("BAD_FRONT_MATTER", f"{given!r} is not a setting", f"settings: {', '.join(KEYS)}")
    error.place = str(Place(file, number))
    return error
