"""Every setting: its default, its meaning, and where its value came from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from anabranch.errors import SettingError

ENVIRONMENT_PREFIX = "ANABRANCH_"
Value = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Setting:
    """What a setting is. `choices` lists the words it takes; `minimum` bounds a number."""

    name: str
    default: Value
    meaning: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None


SETTINGS = {
    each.name: each
    for each in (
        Setting("enable_fused_refresh", True, "work out all eligible nodes of a tick together"),
        Setting("fused_refresh_max_delta_rows", 500_000, "a larger change goes through executors' files", minimum=1),
        Setting(
            "diamond_consistency",
            "atomic",
            "atomic: all nodes of a diamond move together; none: each on its own schedule",
            ("atomic", "none"),
        ),
        Setting(
            "diamond_schedule_policy",
            "fastest",
            "an atomic diamond moves when any (fastest) or all (slowest) of its nodes are due",
            ("fastest", "slowest"),
        ),
        Setting("max_consecutive_errors", 3, "a node is suspended after so many failures in a row", minimum=1),
        Setting("history_retention", "7d", "how long the changes a held or manual node still needs are kept"),
        Setting("compact_after_files", 64, "the scheduler compacts a table that has more files than this", minimum=2),
        Setting(
            "key_index_max_bytes",
            4_000_000_000,
            "so much disk may be used for indexes that find rows of large files by their keys; 0: none",
            minimum=0,
        ),
        Setting(
            "differential_max_change_ratio",
            0.5,
            "AUTO refreshes in full when more than this share of the inputs changed and no history says otherwise",
            minimum=0.0,
        ),
        Setting(
            "auto_switch_margin",
            1.25,
            "AUTO changes its mind about changes of a size only when the other way is so many times cheaper",
            minimum=1.0,
        ),
        Setting("auto_explore_every", 50, "AUTO tries the other way once in so many refreshes", minimum=1),
        Setting(
            "commit_timeout",
            60.0,
            "seconds a commit waits for its turn, and tries again while others keep the catalog busy",
            minimum=0.0,
        ),
    )
}

_DURATION = re.compile(r"(\d+)(ms|s|m|h|d|w)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def seconds(text: str) -> float:
    """A duration such as `2s`, `1h30m` or `7d` in seconds."""
    pieces = _DURATION.findall(text)
    if not pieces or "".join(number + unit for number, unit in pieces) != text.replace(" ", ""):
        raise SettingError(
            "BAD_DURATION",
            f"{text!r} is not a duration",
            "a duration is one or more numbers with a unit of ms, s, m, h, d or w",
            "write for example 2s, 5m, 1h30m or 7d",
        )
    return sum(int(number) * _SECONDS[unit] for number, unit in pieces)


class Settings(Mapping[str, Value]):
    """Values by name: what `connect` was given wins over the environment, that over the lake, that over the default."""

    def __init__(self, given: Mapping[str, object], stored: Mapping[str, str]) -> None:
        self._values: dict[str, Value] = {}
        self._origins: dict[str, str] = {}
        for name in {*given, *stored}:
            _known(name)
        for setting in SETTINGS.values():
            self._values[setting.name], self._origins[setting.name] = _choose(setting, given, stored)

    def __getitem__(self, name: str) -> Value:
        return self._values[_known(name).name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def integer(self, name: str) -> int:
        return int(self[name])

    def number(self, name: str) -> float:
        return float(self[name])

    def text(self, name: str) -> str:
        return str(self[name])

    def boolean(self, name: str) -> bool:
        return bool(self[name])

    def describe(self) -> list[dict[str, Value]]:
        """One row a setting: name, value, default, where the value is from, meaning."""
        return [
            {
                "name": each.name,
                "value": self._values[each.name],
                "default": each.default,
                "origin": self._origins[each.name],
                "meaning": each.meaning,
            }
            for each in SETTINGS.values()
        ]

    def __repr__(self) -> str:
        return "\n".join(
            f"{row['name']} = {row['value']!r}  ({row['origin']}; {row['meaning']})" for row in self.describe()
        )


def check(name: str, value: object) -> Value:
    """The value a setting takes, read from text where it must be; SettingError where it cannot be."""
    setting = _known(name)
    try:
        read = _read(setting, value)
    except ValueError:
        raise _bad_value(setting, value) from None
    if setting.choices and read not in setting.choices:
        raise _bad_value(setting, value)
    if setting.minimum is not None and float(read) < setting.minimum:
        raise _bad_value(setting, value)
    if setting.name == "history_retention":
        seconds(str(read))
    return read


def _read(setting: Setting, value: object) -> Value:
    match setting.default:
        case bool():
            words = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}
            if str(value).lower() not in words:
                raise ValueError(value)
            return words[str(value).lower()]
        case int():
            return int(str(value))
        case float():
            return float(str(value))
        case _:
            return str(value)


def _choose(setting: Setting, given: Mapping[str, object], stored: Mapping[str, str]) -> tuple[Value, str]:
    variable = ENVIRONMENT_PREFIX + setting.name.upper()
    if setting.name in given:
        return check(setting.name, given[setting.name]), "connect"
    if variable in os.environ:
        return check(setting.name, os.environ[variable]), "environment"
    if setting.name in stored:
        return check(setting.name, stored[setting.name]), "lake"
    return setting.default, "default"


def _known(name: str) -> Setting:
    if name not in SETTINGS:
        raise SettingError(
            "UNKNOWN_SETTING",
            f"there is no setting {name!r}",
            f"existing settings: {', '.join(sorted(SETTINGS))}",
            "lake.settings shows each with its meaning",
        )
    return SETTINGS[name]


def _bad_value(setting: Setting, value: object) -> SettingError:
    expected = " or ".join(setting.choices) if setting.choices else type(setting.default).__name__
    bound = f", at least {setting.minimum:g}" if setting.minimum is not None else ""
    return SettingError(
        "BAD_SETTING",
        f"{setting.name} cannot be {value!r}",
        f"it takes {expected}{bound}; the default is {setting.default!r}",
        f"{setting.name}: {setting.meaning}",
    )
