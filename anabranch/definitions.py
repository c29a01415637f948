"""What a lake knows of its stream tables, as values: definitions and conditions, kept as documents of the lake."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

from anabranch.algebra.relation import Column

NODE = "node/"
FRONTIER = "frontier/"
CONDITION = "condition/"
SETTING = "setting/"
VIEW = "view/"


class RefreshMode(StrEnum):
    """How a stream table is kept fresh."""

    AUTO = "AUTO"
    DIFFERENTIAL = "DIFFERENTIAL"
    FULL = "FULL"
    IMMEDIATE = "IMMEDIATE"


@dataclass(frozen=True, slots=True)
class StoredPart:
    """One stored table of a stream table; the last part is what readers see."""

    name: str
    table: str
    columns: tuple[Column, ...]
    visible: tuple[str, ...]
    flag: str | None


@dataclass(frozen=True, slots=True)
class StreamTable:
    """A definition.

    `generation` grows with every change of the query. `inputs` are the ids of the tables it reads, `fields_read` the
    columns of sources by name and field id: a column that only has the same name is another column. `session` are
    Spark's settings that the query means, `clock` what it reads of the time, `views` the texts of views as they were.
    """

    id: str
    name: str
    query: str
    schedule: str | None
    refresh_mode: RefreshMode
    generation: int
    inputs: tuple[str, ...]
    columns: tuple[Column, ...]
    parts: tuple[StoredPart, ...]
    created_at: str
    session: Mapping[str, str] = field(default_factory=dict)
    input_names: Mapping[str, str] = field(default_factory=dict)
    fields_read: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    clock: str | None = None
    views: Mapping[str, str] = field(default_factory=dict)
    diamond_consistency: str | None = None
    diamond_schedule_policy: str | None = None

    @property
    def shown(self) -> StoredPart:
        """The part that readers see."""
        return self.parts[-1]

    def clock_at(self, reached: str | None) -> str | None:
        """What the query itself sees as now, where its rows and those it reads reflect this clock."""
        if self.clock is None or reached is None:
            return None
        return reached[: len("2026-05-01")] if self.clock == "DATE" else reached

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    @lru_cache(maxsize=10_000)
    def from_json(text: str) -> StreamTable:
        """The definition in a document; the same text is read once, as a tick reads all of them."""
        raw = json.loads(text)
        return StreamTable(
            **{
                **raw,
                "refresh_mode": RefreshMode(raw["refresh_mode"]),
                "inputs": tuple(raw["inputs"]),
                "columns": _columns(raw["columns"]),
                "parts": tuple(
                    StoredPart(
                        each["name"],
                        each["table"],
                        _columns(each["columns"]),
                        tuple(each["visible"]),
                        each["flag"],
                    )
                    for each in raw["parts"]
                ),
            }
        )


@dataclass(frozen=True, slots=True)
class Condition:
    """How a stream table is doing: whether it is held, and what its last refreshes were like.

    `moved_in` is the snapshot of its last refresh, `costs` what refreshes were measured to cost.
    """

    paused: bool = False
    suspended: bool = False
    consecutive_errors: int = 0
    last_error: Mapping[str, str] | None = None
    retry_at: float | None = None
    refreshed_at: float | None = None
    needs_full: str | None = None
    moved_in: int | None = None
    costs: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    @lru_cache(maxsize=10_000)
    def from_json(text: str | None) -> Condition:
        """The condition in a document; a field of a newer release is left out."""
        if text is None:
            return Condition()
        known = {each.name for each in fields(Condition)}
        return Condition(**{name: value for name, value in json.loads(text).items() if name in known})

    def failed(self, error: Mapping[str, str], retry_at: float, suspended: bool) -> Condition:
        return replace(
            self,
            consecutive_errors=self.consecutive_errors + 1,
            last_error=error,
            retry_at=retry_at,
            suspended=suspended,
        )

    def succeeded(self, at: float) -> Condition:
        return replace(
            self,
            consecutive_errors=0,
            last_error=None,
            retry_at=None,
            suspended=False,
            needs_full=None,
            refreshed_at=at,
        )


def why_redefined(old: StreamTable, new: StreamTable) -> str:
    """The reason code of a definition that takes another one's place."""
    if old.query == new.query and old.inputs != new.inputs:
        return "SOURCE_REPLACED"
    if old.query == new.query and (old.fields_read != new.fields_read or old.columns != new.columns):
        return "SOURCE_SCHEMA_CHANGED"
    return "QUERY_CHANGED"


def _columns(raw: list[dict[str, str]]) -> tuple[Column, ...]:
    return tuple(Column(each["name"], each["type"]) for each in raw)
