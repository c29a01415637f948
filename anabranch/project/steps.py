"""A plan as data: steps that print for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from anabranch.observe import html
from anabranch.project.desired import Place


class Verb(StrEnum):
    """What happens to a thing."""

    CREATE = "create"
    ALTER = "alter"
    RENAME = "rename"
    DROP = "drop"
    ADOPT = "adopt"


class Kind(StrEnum):
    """What the thing is."""

    SOURCE = "source"
    SETTING = "setting"
    VIEW = "view"
    TABLE = "stream table"


SIGNS = {Verb.CREATE: "+", Verb.ALTER: "~", Verb.RENAME: ">", Verb.DROP: "-", Verb.ADOPT: "="}


@dataclass(frozen=True)
class Step:
    """One change. `rebuild`: its rows are made again. `loses_data`: rows of a source go, which nothing brings back."""

    verb: Verb
    kind: Kind
    name: str
    details: tuple[str, ...] = ()
    rebuild: bool = False
    loses_data: bool = False
    place: Place | None = None
    earlier: str | None = None

    def __str__(self) -> str:
        notes = [*self.details]
        if self.kind is Kind.TABLE and self.verb in (Verb.ALTER, Verb.RENAME):
            notes.append("rebuild" if self.rebuild else "no rebuild")
        if self.loses_data:
            notes.append("LOSES DATA")
        said = f": {', '.join(notes)}" if notes else ""
        return f"{SIGNS[self.verb]} {self.verb} {self.kind} {self.name}{said}"

    def to_dict(self) -> dict[str, Any]:
        """The step for programs."""
        return {
            "verb": self.verb.value,
            "kind": self.kind.value,
            "name": self.name,
            "details": list(self.details),
            "rebuild": self.rebuild,
            "loses_data": self.loses_data,
            "place": None if self.place is None else str(self.place),
            "earlier": self.earlier,
        }


@dataclass(frozen=True)
class Plan:
    """All steps, in the order in which they are told. An empty plan is false."""

    project: str
    steps: tuple[Step, ...]
    notices: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.steps)

    @property
    def loses_data(self) -> bool:
        return any(step.loses_data for step in self.steps)

    def __repr__(self) -> str:
        lines = [str(step) for step in self.steps] or ["nothing to do: the lake is as the project says"]
        return "\n".join([*lines, *self.notices])

    def _repr_html_(self) -> str:
        return html.preformatted(repr(self))

    def to_dict(self) -> dict[str, Any]:
        """The plan for programs."""
        return {
            "project": self.project,
            "steps": [step.to_dict() for step in self.steps],
            "notices": list(self.notices),
        }
