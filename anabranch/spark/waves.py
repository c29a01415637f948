"""Run plans wave by wave: each wave is one job, its small results are bound for the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anabranch.algebra.relation import Relation
from anabranch.fuse.waves import Cutter, Step, Tables
from anabranch.spark.many_changes import Request
from anabranch.spark.run import Runner


def run_waves(runner: Runner, requests: Sequence[Request], tables: Tables) -> list[Request]:
    """The same requests over rows that are at hand: tables reduced to what is needed, shared sub-plans computed."""
    changes = [each.change for each in requests]
    guards = [each.guard for each in requests if each.guard is not None]
    cutter = Cutter((*changes, *guards), tables, runner.new_label())
    while wave := cutter.next_wave():
        cutter.found_empty(_run(runner, wave))
    left = iter(cutter.roots[len(changes) :])
    return [
        replace(each, change=change, guard=None if each.guard is None else next(left))
        for each, change in zip(requests, cutter.roots, strict=False)
    ]


def _run(runner: Runner, wave: Sequence[Step]) -> list[Relation]:
    """One job for the wave; a result that is too large to be held here stays with the executors. The empty leaves."""
    weighted = [not runner.is_bag(step.relation) for step in wave]
    found = runner.collect_together([step.relation for step in wave])
    empty: list[Relation] = []
    for place, step in enumerate(wave):
        if found is None:
            runner.materialise_as(step.leaves, step.relation, weighted[place])
            continue
        for leaf, flag in step.leaves:
            rows = found[place] if flag is None else found[place].filter(found[place].column(flag))
            if rows.num_rows == 0:
                empty.append(leaf)
            else:
                runner.bind_table(leaf, rows, weighted[place])
    return empty
