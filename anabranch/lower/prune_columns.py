"""Keep only the columns that somebody reads.

    scan (a, b, c)  read for a and c  =  project (scan (a, b, c), a, c)

First every operator learns which of its columns its readers need, all readers together, so that a shared sub-plan stays
shared; then the plan is rebuilt. An operator may keep more than is needed where dropping would cost an operator; where
columns count (unions by position, DISTINCT by all of them) the input is cut to exactly what is needed.

Plans of changes are pruned as well. What turns weights into a column, or asks whether a row occurs at all, gets all
columns of its input: {(k, 1): +1, (k, 2): -1} touches k, although the weights of k alone cancel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation import (
    After,
    Aggregate,
    Aggregation,
    Before,
    Change,
    Distinct,
    Expand,
    Filter,
    Fixpoint,
    Generate,
    Join,
    Negate,
    Output,
    Project,
    Relation,
    Scan,
    TopK,
    UnionAll,
    Window,
    iterate,
)
from anabranch.algebra.walk import with_children
from anabranch.lower.build import pick
from anabranch.lower.names import FreshNames

Needed = dict[Relation, set[str]]


def prune_columns(root: Relation, names: FreshNames | None = None) -> Relation:
    """The same plan over narrower inputs, with the same columns as before."""
    plans = list(iterate(root))
    needed: Needed = defaultdict(set)
    needed[root].update(root.names)
    for relation in reversed(plans):
        for child, columns in _asked_of_inputs(relation, needed[relation]):
            needed[child].update(columns)
    done: dict[Relation, Relation] = {}
    for relation in plans:
        done[relation] = _narrowed(relation, needed, done)
    return pick(done[root], root.columns)


def _read_by(expressions: Iterable[Expression]) -> set[str]:
    return {name for each in expressions for name in each.columns}


def _asked_of_inputs(relation: Relation, wanted: set[str]) -> list[tuple[Relation, set[str]]]:
    """What the operator reads of each input, given what is wanted of it."""
    match relation:
        case Project(child=child):
            return [(child, _read_by(each.value for each in _kept_outputs(relation, wanted)))]
        case Filter(child=child, predicates=predicates):
            return [(child, wanted | _read_by(predicates))]
        case Negate(child=child):
            return [(child, wanted)]
        case Join(left=left, right=right, on=on):
            read = wanted | _read_by(on)
            return [(left, read & set(left.names)), (right, read & set(right.names))]
        case UnionAll(inputs=inputs):
            places = _kept_places(relation, wanted)
            return [(each, {each.names[place] for place in places}) for each in inputs]
        case Aggregate(child=child, keys=keys):
            return [(child, _read_by(each.call for each in _kept_calls(relation, wanted)) | set(keys))]
        case Window(child=child, partition=partition, calls=calls):
            read = _read_by(each.value for each in calls if each.name in wanted)
            return [(child, (wanted & set(child.names)) | read | set(partition))]
        case TopK(child=child, order=order, partition=partition):
            return [(child, wanted | {each.name for each in order} | set(partition))]
        case Generate(child=child, generator=generator):
            return [(child, (wanted & set(child.names)) | generator.columns)]
        case Expand(child=child, projections=projections):
            places = _kept_places(relation, wanted)
            return [(child, _read_by(row[place] for row in projections for place in places))]
    return [(child, set(child.names)) for child in relation.children]


def _kept_outputs(project: Project, wanted: set[str]) -> tuple[Output, ...]:
    """The outputs that are wanted; one at least, for the rows count even where no column does."""
    return tuple(each for each in project.outputs if each.name in wanted) or project.outputs[:1]


def _kept_calls(aggregate: Aggregate, wanted: set[str]) -> tuple[Aggregation, ...]:
    kept = tuple(each for each in aggregate.aggregations if each.name in wanted)
    return kept or (() if aggregate.keys else aggregate.aggregations[:1])


def _kept_places(relation: Relation, wanted: set[str]) -> list[int]:
    return [place for place, name in enumerate(relation.names) if name in wanted] or [0]


def _narrowed(relation: Relation, needed: Needed, done: dict[Relation, Relation]) -> Relation:
    wanted = needed[relation]
    match relation:
        case Scan() | Before() | After() | Change() if wanted < set(relation.names):
            return pick(relation, [each for each in relation.columns if each.name in wanted] or relation.columns[:1])
        case Project(child=child):
            return Project(done[child], _kept_outputs(relation, wanted))
        case UnionAll(inputs=inputs):
            places = _kept_places(relation, wanted)
            return UnionAll(tuple(pick(done[each], [each.columns[place] for place in places]) for each in inputs))
        case Aggregate(child=child):
            return replace(relation, child=done[child], aggregations=_kept_calls(relation, wanted))
        case Window(child=child):
            return _narrowed_window(relation, _exact(child, needed, done), wanted)
        case TopK(child=child):
            return replace(relation, child=_exact(child, needed, done))
        case Distinct(child=child):
            return Distinct(pick(done[child], child.columns))
        case Fixpoint(anchor=anchor, step=step):
            return replace(relation, anchor=pick(done[anchor], anchor.columns), step=pick(done[step], step.columns))
        case Expand(child=child, projections=projections, columns=columns):
            places = _kept_places(relation, wanted)
            rows = tuple(tuple(row[place] for place in places) for row in projections)
            return Expand(done[child], rows, tuple(columns[place] for place in places))
    return with_children(relation, {child: done[child] for child in relation.children})


def _exact(child: Relation, needed: Needed, done: dict[Relation, Relation]) -> Relation:
    """The input without the columns nobody reads: operators that keep state store every column they are given."""
    kept = [each for each in child.columns if each.name in needed[child]]
    return pick(done[child], kept) if len(kept) < len(done[child].columns) else done[child]


def _narrowed_window(window: Window, child: Relation, wanted: set[str]) -> Relation:
    calls = tuple(each for each in window.calls if each.name in wanted)
    return replace(window, child=child, calls=calls) if calls else child
