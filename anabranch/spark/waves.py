"""Run plans wave by wave: each wave is one job, its small results are bound for the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from anabranch.algebra.relation import ROWID, WEIGHT, Relation, Stored
from anabranch.algebra.walk import leaves
from anabranch.fuse.at_hand import can_tell_apart, consolidated
from anabranch.fuse.steps import Piece, Step
from anabranch.fuse.tables import Tables
from anabranch.fuse.waves import Cutter
from anabranch.spark.many_changes import Request
from anabranch.spark.rows import Rows
from anabranch.spark.run import Runner


def run_waves(runner: Runner, requests: Sequence[Request], tables: Tables) -> list[Request]:
    """The same requests over rows that are at hand: tables reduced to what is needed, shared sub-plans computed."""
    flow = Flow(runner, tables)
    for place, each in enumerate(requests):
        flow.add(str(place), each)
    done: dict[str, Request] = {}
    while len(done) < len(requests):
        done |= flow.advance()
    return [done[str(place)] for place in range(len(requests))]


class Flow:
    """Requests on their way through the waves, each under a name; others may join them between two waves."""

    def __init__(self, runner: Runner, tables: Tables) -> None:
        self._runner = runner
        self._cutter = Cutter((), tables, runner.new_label())
        self._requests: dict[str, Request] = {}

    def add(self, name: str, request: Request) -> None:
        """One more."""
        self._requests[name] = request
        self._cutter.add(_roots(request))

    def advance(self) -> dict[str, Request]:
        """Work out one wave; the requests for which there is nothing more to do than to run them, as they are now."""
        wave = self._cutter.next_wave(self._runner.reduced)
        are_done = self._cutter.are_done if wave else (True,) * len(self._cutter.roots)
        if wave:
            self._cutter.found_empty(_run(self._runner, wave))
        done: dict[str, Request] = {}
        left: set[int] = set()
        start = 0
        for name, request in list(self._requests.items()):
            places = range(start, start + len(_roots(request)))
            start = places.stop
            if all(are_done[place] for place in places):
                done[name] = self._ready(self._requests.pop(name), [self._cutter.roots[place] for place in places])
            else:
                left.update(places)
        self._cutter.keep(left)
        return done

    def _ready(self, request: Request, roots: Sequence[Relation]) -> Request:
        stored = _stored_rows(self._runner, request, roots[0], self._cutter)
        return replace(request, change=roots[0], stored=stored, guard=roots[1] if len(roots) > 1 else None)


def _roots(request: Request) -> tuple[Relation, ...]:
    return (request.change,) if request.guard is None else (request.change, request.guard)


def _stored_rows(runner: Runner, request: Request, change: Relation, cutter: Cutter) -> Rows:
    """The stored rows among which are all that the change deletes: those that were read by keys, if that was all."""
    found = cutter.stored_rows.get(request.part)
    still_read = any(isinstance(leaf, Stored) and leaf.part == request.part for leaf in leaves(change))
    if found is None or still_read:
        return request.stored
    tables = [runner.known(leaf) for leaf in found]
    here = [each for each in tables if each is not None]
    return _each_once(here) if len(here) == len(tables) else request.stored


def _each_once(tables: Sequence[pa.Table]) -> pa.Table:
    rows = pa.concat_tables(tables)
    if len(tables) == 1:
        return rows
    first = (
        pa.table({ROWID: rows.column(ROWID), "place": range(rows.num_rows)})
        .group_by(ROWID)
        .aggregate([("place", "min")])
    )
    return rows.take(first.column("place_min"))


def _run(runner: Runner, wave: Sequence[Step]) -> list[Relation]:
    """One job for the wave; a result that is too large to be held here stays with the executors. The empty leaves."""
    weighted = [not runner.is_bag(step.relation) for step in wave]
    found = runner.collect_together([step.relation if step.raw is None else step.raw.relation for step in wave])
    empty: list[Relation] = []
    for step, rows, is_weighted in zip(wave, found, weighted, strict=True):
        if rows is not None and step.raw is not None:
            rows = step.raw.told(rows)
        if rows is None:
            runner.materialise_as(step.pieces, step.relation, is_weighted)
            continue
        for piece in step.pieces:
            own = _piece(rows, piece)
            if own.num_rows == 0:
                empty.append(piece.leaf)
            else:
                runner.bind_table(piece.leaf, own, is_weighted)
    return empty


def _piece(rows: pa.Table, piece: Piece) -> pa.Table:
    """The rows of a leaf; of a Z-set summed up, if it shows less than what there is."""
    for flag in piece.flags:
        rows = rows.filter(rows.column(flag))
    arrays = [rows.column(name) for name in piece.columns]
    if WEIGHT not in rows.column_names:
        return pa.Table.from_arrays(arrays, names=list(piece.leaf.names))
    own = pa.Table.from_arrays([*arrays, rows.column(WEIGHT)], names=[*piece.leaf.names, WEIGHT])
    is_narrower = len(set(piece.columns)) + 1 < rows.num_columns
    return consolidated(own) if is_narrower and can_tell_apart(piece.leaf.columns) else own
