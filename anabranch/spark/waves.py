"""Run plans wave by wave: each wave is one job, its small results are bound for the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anabranch.algebra.relation import Relation
from anabranch.fuse.waves import Step, cut
from anabranch.spark.run import Request, Runner


def run_waves(runner: Runner, requests: Sequence[Request]) -> list[Request]:
    """The same requests over rows that are at hand: tables reduced to what is needed, shared sub-plans computed."""
    changes = [each.change for each in requests]
    guards = [each.guard for each in requests if each.guard is not None]
    plan = cut([*changes, *guards], runner.is_local, runner.new_label())
    for wave in plan.waves:
        _run(runner, wave)
    rewritten: dict[Relation, Relation] = dict(zip([*changes, *guards], plan.roots, strict=True))
    return [
        replace(each, change=rewritten[each.change], guard=None if each.guard is None else rewritten[each.guard])
        for each in requests
    ]


def _run(runner: Runner, wave: Sequence[Step]) -> None:
    """One job for the wave; a result that is too large to be held here stays with the executors."""
    open_steps = [step for step in wave if not runner.is_bound(step.leaf)]
    weighted = [not runner.is_bag(step.relation) for step in open_steps]
    tables = runner.collect_together([step.relation for step in open_steps])
    for place, step in enumerate(open_steps):
        if tables is not None:
            runner.bind_table(step.leaf, tables[place], weighted[place])
        else:
            runner.materialise_as(step.leaf, step.relation, weighted[place])
