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
    changes = [each.change for each in requests]
    guards = [each.guard for each in requests if each.guard is not None]
    cutter = Cutter((*changes, *guards), tables, runner.new_label())
    while wave := cutter.next_wave(runner.reduced):
        cutter.found_empty(_run(runner, wave))
    left = iter(cutter.roots[len(changes) :])
    return [
        replace(
            each,
            change=change,
            stored=_stored_rows(runner, each, change, cutter),
            guard=None if each.guard is None else next(left),
        )
        for each, change in zip(requests, cutter.roots, strict=False)
    ]


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
