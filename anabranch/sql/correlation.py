"""Which columns of the enclosing row a relation reads."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation import Aggregation, Output, Relation, iterate


def outer_columns(relation: Relation) -> set[str]:
    """The names of all `Outer` holes below."""
    found: set[str] = set()
    for each in iterate(relation):
        for field in fields(each):
            _collect(getattr(each, field.name), found)
    return found


def _collect(value: Any, found: set[str]) -> None:
    match value:
        case Expression():
            found |= value.outer_columns
        case Output():
            found |= value.value.outer_columns
        case Aggregation():
            found |= value.call.outer_columns
        case tuple():
            for each in value:
                _collect(each, found)
