"""The changes of many stored tables at once: `Runner.located` for each, in few jobs.

Everything is rendered and bound first, on one thread. Then the changes are worked out in moderate groups side by side,
and in the same way the rowids of rows that go, where they do not come along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.algebra.relation import WEIGHT, Empty, Relation
from anabranch.errors import AnabranchError, RefreshError
from anabranch.fuse.at_hand import can_tell_apart
from anabranch.spark.located import Located, no_rowids
from anabranch.spark.match import rowids_of
from anabranch.spark.moved import Moved
from anabranch.spark.relations import summed_up
from anabranch.spark.rows import Rows
from anabranch.spark.run import Runner
from anabranch.spark.texts import Text

GUARD_TRIPPED = "GUARD_TRIPPED"


@dataclass(frozen=True)
class Request:
    """A change of a stored table to be worked out: as in `Runner.located`; `guard` must turn out to have no rows."""

    change: Relation
    stored: Rows
    part: str = ""
    guard: Relation | None = None

    @property
    def is_known_to_be_empty(self) -> bool:
        return all(each is None or isinstance(each, Empty) for each in (self.change, self.guard))


@dataclass(frozen=True)
class _Prepared:
    """A request as text, or its rows if they are `known`; `is_carried`: the rowids of the rows that go come along."""

    request: Request
    text: Text | None
    known: pa.Table | None
    is_carried: bool
    guard: Text | None


def located_together(runner: Runner, requests: Sequence[Request]) -> list[Moved | AnabranchError] | None:
    """What to commit for each; a guard that has rows, and a row that is not there, are that request's own error.

    None: together they are too large to collect.
    """
    prepared = [_prepared(runner, each) for each in requests if not each.is_known_to_be_empty]
    guarded = [place for place, each in enumerate(prepared) if each.guard is not None]
    guards = [each.guard for each in prepared if each.guard is not None]
    tables = runner.collect_all([*(each.text for each in prepared if each.text is not None), *guards])
    if tables is None:
        return None
    collected = iter(tables)
    changes = [next(collected) if each.known is None else each.known for each in prepared]
    probes = list(collected)
    tripped = {place for place, rows in zip(guarded, probes, strict=True) if rows.num_rows}
    rowids = _looked_up(runner, prepared, changes, tripped)
    if rowids is None:
        return None
    done = iter(
        [
            _tripped() if place in tripped else _result(runner, each.request, changes[place], rowids.get(place))
            for place, each in enumerate(prepared)
        ]
    )
    return [_unmoved(runner, each) if each.is_known_to_be_empty else next(done) for each in requests]


def _prepared(runner: Runner, request: Request) -> _Prepared:
    is_guarded = not isinstance(request.guard, Empty)
    guard = _first_row(runner.text(request.guard)) if request.guard is not None and is_guarded else None
    known = runner.known_change(request.change)
    if known is not None:
        return _Prepared(request, None, known, False, guard)
    carried = runner.carried(request.change, request.stored, request.part) if request.part else None
    text = runner.text(summed_up(request.change)) if carried is None else carried
    return _Prepared(request, text, None, carried is not None, guard)


def _first_row(text: Text) -> Text:
    return replace(text, sql=f"SELECT * FROM ({text.sql}) LIMIT 1")


def _looked_up(
    runner: Runner, prepared: Sequence[_Prepared], changes: Sequence[pa.Table], tripped: set[int]
) -> dict[int, pa.Array] | None:
    """By place, the rowids of the rows that go, where they do not come along; None if they are too many."""
    rowids = {place: no_rowids() for place, each in enumerate(prepared) if not each.is_carried}
    texts: dict[int, Text] = {}
    for place in sorted(rowids.keys() - tripped):
        request = prepared[place].request
        gone = changes[place].filter(pc.less(changes[place].column(WEIGHT), 0))
        if gone.num_rows and isinstance(request.stored, pa.Table) and can_tell_apart(request.change.columns):
            rowids[place] = rowids_of(gone, request.stored, request.change.columns)
        elif gone.num_rows:
            texts[place] = runner.rowids(request.change.columns, gone, request.stored)
    found = runner.collect_all(list(texts.values()))
    if found is None:
        return None
    return rowids | {place: rows.column(0).combine_chunks() for place, rows in zip(texts, found, strict=True)}


def _tripped() -> AnabranchError:
    return RefreshError(GUARD_TRIPPED, "the change needs a larger read")


def _result(runner: Runner, request: Request, change: pa.Table, rowids: pa.Array | None) -> Moved | AnabranchError:
    try:
        found = Located.of(change) if rowids is None else Located.checked(change, rowids)
    except AnabranchError as error:
        return error
    return runner.moved(request.change.columns, found)


def _unmoved(runner: Runner, request: Request) -> Moved:
    """The result of a request whose plan is known to be empty, without a job."""
    columns = request.change.columns
    return runner.moved(columns, Located.checked(runner.no_rows(columns), no_rowids()))
