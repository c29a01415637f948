"""Prune and cancel: the same Z-set from a smaller plan. Rules state equations; everything that shortens is here.

    op(0) = 0      X - X = 0      -(-X) = X      (X + Y) + Z = X + Y + Z      chains of Filter or Project are one

Only expressions that are deterministic are merged, and none is ever written out twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from anabranch.algebra.relation import (
    Aggregate,
    Consolidate,
    Distinct,
    Empty,
    Expand,
    Filter,
    Generate,
    Join,
    JoinKind,
    Negate,
    Output,
    Project,
    Relation,
    Support,
    TopK,
    UnionAll,
    Weigh,
    Window,
)
from anabranch.algebra.walk import transform
from anabranch.delta.build import null_of, renamed

EMPTY_ON_EMPTY = (Filter, Project, Negate, Expand, Generate, Distinct, Window, TopK, Consolidate, Support, Weigh)


def simplify(root: Relation) -> Relation:
    """The plan without what is empty or cancels."""
    return transform(root, simplify_one)


def simplify_one(relation: Relation) -> Relation:
    """One operator over simplified inputs."""
    if isinstance(relation, EMPTY_ON_EMPTY) and isinstance(relation.children[0], Empty):
        return Empty(relation.columns)
    shorten = _SHORTEN.get(type(relation))
    return relation if shorten is None else shorten(relation)


def _shorten_aggregate(aggregate: Aggregate) -> Relation:
    dead = isinstance(aggregate.child, Empty) and aggregate.keys
    return Empty(aggregate.columns) if dead else aggregate


def _shorten_join(join: Join) -> Relation:
    left_empty, right_empty = isinstance(join.left, Empty), isinstance(join.right, Empty)
    match join.kind:
        case JoinKind.INNER | JoinKind.SEMI if left_empty or right_empty:
            return Empty(join.columns)
        case JoinKind.LEFT | JoinKind.ANTI if left_empty:
            return Empty(join.columns)
        case JoinKind.ANTI if right_empty:
            return join.left
        case JoinKind.LEFT | JoinKind.FULL if right_empty:
            lefts = tuple(Output(each.name, each.value) for each in join.left.columns)
            return simplify_one(Project(join.left, (*lefts, *(null_of(each) for each in join.right.columns))))
        case JoinKind.FULL if left_empty:
            rights = tuple(Output(each.name, each.value) for each in join.right.columns)
            return simplify_one(Project(join.right, (*(null_of(each) for each in join.left.columns), *rights)))
    return join


def _shorten_negate(negate: Negate) -> Relation:
    return negate.child.child if isinstance(negate.child, Negate) else negate


def _shorten_union(union: UnionAll) -> Relation:
    terms = [term for each in union.inputs for term in _terms(each)]
    kept = _cancelled(terms)
    if not kept:
        return Empty(union.columns)
    first = simplify_one(renamed(kept[0], union.names)) if kept[0].names != union.names else kept[0]
    return first if len(kept) == 1 else UnionAll((first, *kept[1:]))


def _terms(relation: Relation) -> list[Relation]:
    """The terms of a sum: unions within unions opened, minus signs moved to the terms, empty ones left out."""
    match relation:
        case Empty():
            return []
        case UnionAll(inputs=inputs):
            return [term for each in inputs for term in _terms(each)]
        case Negate(child=UnionAll(inputs=inputs)):
            return [_negative(term) for each in inputs for term in _terms(each)]
    return [relation]


def _negative(relation: Relation) -> Relation:
    return _shorten_negate(Negate(relation))


def _cancelled(terms: list[Relation]) -> list[Relation]:
    """The terms without pairs X, -X."""
    counts = Counter(terms)
    surplus = Counter({term: max(count - counts[_negative(term)], 0) for term, count in counts.items()})
    kept: list[Relation] = []
    for term in terms:
        if surplus[term] > 0:
            surplus[term] -= 1
            kept.append(term)
    return kept


def _shorten_filter(outer: Filter) -> Relation:
    inner = outer.child
    if isinstance(inner, Filter) and all(each.deterministic for each in (*inner.predicates, *outer.predicates)):
        return Filter(inner.child, inner.predicates + outer.predicates)
    return outer


def _shorten_project(outer: Project) -> Relation:
    if _is_identity(outer):
        return outer.child
    inner = outer.child
    if isinstance(inner, Project) and _may_merge(outer, inner):
        values = {each.name: each.value for each in inner.outputs}
        merged = tuple(replace(each, value=each.value.substitute(values)) for each in outer.outputs)
        return simplify_one(Project(inner.child, merged))
    return outer


def _is_identity(project: Project) -> bool:
    return project.names == project.child.names and all(
        each.value.is_column and each.value.columns == {each.name} for each in project.outputs
    )


def _may_merge(outer: Project, inner: Project) -> bool:
    """Merging writes an inner expression wherever it is read: no loss where that is once, or it is a bare column."""
    reads = Counter(name for each in outer.outputs for name in _reads(each))
    return all(
        each.value.is_column or (each.value.deterministic and reads[each.name] <= 1) for each in inner.outputs
    ) and all(each.value.deterministic for each in outer.outputs)


def _reads(output: Output) -> list[str]:
    return [part.name for part in output.value.parts if not isinstance(part, str)]


def _shorten_consolidate(consolidate: Consolidate) -> Relation:
    return consolidate.child if isinstance(consolidate.child, Consolidate) else consolidate


def _shorten_support(support: Support) -> Relation:
    return support.child if isinstance(support.child, Support) else support


def _shorten_distinct(distinct: Distinct) -> Relation:
    return distinct.child if isinstance(distinct.child, Distinct) else distinct


_SHORTEN: dict[type[Relation], Callable[[Any], Relation]] = {
    Aggregate: _shorten_aggregate,
    Join: _shorten_join,
    Negate: _shorten_negate,
    UnionAll: _shorten_union,
    Filter: _shorten_filter,
    Project: _shorten_project,
    Consolidate: _shorten_consolidate,
    Support: _shorten_support,
    Distinct: _shorten_distinct,
}
