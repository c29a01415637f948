"""One node on its way through a tick: what is left to do, what came out, what went wrong."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from anabranch.algebra.relation import Relation
from anabranch.choose import Choice
from anabranch.compile import Program
from anabranch.definitions import StoredPart, StreamTable
from anabranch.delta.state import Guarded, Part, delta, full_and_diff, guarded_delta
from anabranch.errors import AnabranchError, RefreshError
from anabranch.inputs import TickInputs
from anabranch.observe.report import Action
from anabranch.spark.failure import PySparkException
from anabranch.spark.moved import Moved
from anabranch.store.protocol import STATE, CreateTable, TableName, Write
from anabranch.store.protocol import Action as StoreAction

log = logging.getLogger(__name__)

REMEMBERED = 4096
"""So many changes of parts are worked out once: the same tables change tick after tick."""


@dataclass
class NodeWork:
    """A node on its way through a tick; `left` are the parts still to be worked out."""

    node: StreamTable
    program: Program
    choice: Choice
    left: list[tuple[Part, StoredPart]]
    not_fused: str | None = None
    actions: list[StoreAction] = field(default_factory=list)
    rows_inserted: int = 0
    rows_deleted: int = 0
    seconds: float = 0.0
    error: AnabranchError | None = None
    costs: Mapping[str, Any] | None = None

    @property
    def is_done(self) -> bool:
        return self.error is not None or not self.left


@dataclass(frozen=True, eq=False)
class Item:
    """A part of a node to be worked out; `after` are the stored tables whose changes its plan takes as plans."""

    work: NodeWork
    part: Part
    stored: StoredPart
    after: frozenset[str] = frozenset()


def plans_of(part: Part, choice: Choice, changed: frozenset[str]) -> Relation | Guarded | None:
    """How to work a part's change out; None if nothing that it reads changed."""
    return _change_of(part, changed) if choice.action is Action.DIFFERENTIAL else full_and_diff(part)


@lru_cache(REMEMBERED)
def _change_of(part: Part, changed: frozenset[str]) -> Relation | Guarded | None:
    return guarded_delta(part, changed) or delta(part, changed)


def actions_of(stored: StoredPart, moved: Moved, inputs: TickInputs, is_new: bool) -> list[StoreAction]:
    """What a part's change does to the lake."""
    if not is_new:
        table = inputs.pinned.part(stored.table).id
        return [Write(table, moved.deleted, moved.inserts, inputs.pinned.version)]
    name = TableName(STATE, stored.table)
    return [CreateTable(name, stored.columns), Write(name, None, moved.inserts)]


def check_parts(node: StreamTable, program: Program) -> None:
    """A newer release may lay a query out otherwise; then what is stored does not fit and has to be rebuilt."""
    laid_out = [(part.name, part.columns) for part in program.parts]
    if laid_out != [(part.name, part.columns) for part in node.parts]:
        raise RefreshError(
            "LAYOUT_CHANGED",
            f'stream table "{node.name}" was stored in another layout',
            "this release of Anabranch, or a changed source, lays the query out differently",
            f"rebuild it: lake.alter_stream_table({node.name!r}, query=<its query>)",
        )


def failure_of(node: StreamTable, error: Exception) -> AnabranchError:
    """What went wrong with one node, in our words; whatever it is, it is this node's failure and no other's."""
    if isinstance(error, AnabranchError):
        return error
    if not isinstance(error, PySparkException):
        log.error("the refresh of %s failed in an unexpected way", node.name, exc_info=error)
        return RefreshError(
            "INTERNAL_ERROR",
            f'the refresh of stream table "{node.name}" failed: {type(error).__name__}: {error}',
            "this is a fault of Anabranch; the table stays as it was",
            "please report it with the query and the log",
        )
    return RefreshError(
        error.getCondition() or "QUERY_FAILED",
        f'the query of stream table "{node.name}" failed: {str(error).splitlines()[0]}',
        "the table stays as it was",
        "correct the rows or the query; the next refresh tries again",
    )
