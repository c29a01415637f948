"""A key restriction, pushed towards the tables as far as it may go.

    op(X) at K = op(X at K)      where every row of op(X) with keys in K comes from rows of X with keys in K

Through Filter, Negate, UnionAll, Distinct and Generate; through Project for keys that are bare columns; into joins
(restrict_join.py); through Aggregate, Window and TopK where the key is among their own keys. Never through Fixpoint or
a global aggregate. A composite key goes where some of its columns go, and is then applied again above.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from anabranch.algebra.relation import (
    Aggregate,
    Consolidate,
    Distinct,
    Expand,
    Filter,
    Generate,
    Join,
    Negate,
    Project,
    Relation,
    Support,
    TopK,
    UnionAll,
    Window,
)
from anabranch.delta.build import renamed_keys
from anabranch.delta.restrict_join import push_through_join
from anabranch.delta.restriction import TABLES, Key, Pushed, Restriction
from anabranch.delta.rules.keyed import group_keys
from anabranch.delta.simplify import simplify_one

MAXIMUM_VERSIONS = 12
"""Restricted copies of one sub-plan; beyond it a shared sub-plan is read as it is, so that plans cannot explode."""


class Restrictor:
    """Restricts relations, remembering what it did: equal restrictions of one sub-plan are one plan."""

    def __init__(self) -> None:
        self._done: dict[tuple[Relation, Restriction], Pushed] = {}
        self._versions: Counter[Relation] = Counter()

    def push(self, relation: Relation, restriction: Restriction | None) -> Pushed:
        """At least the rows wanted, with as little read as the operators allow."""
        if restriction is None:
            return Pushed(relation, False)
        request = (relation, restriction)
        if request not in self._done:
            self._versions[relation] += 1
            rule = _PUSH.get(type(relation))
            if rule is None or self._versions[relation] > MAXIMUM_VERSIONS:
                self._done[request] = Pushed(relation, False)
            else:
                self._done[request] = rule(self, *request)
        return self._done[request]


def restrict(relation: Relation, keys: tuple[str, ...], keyset: Relation) -> Relation:
    """The rows whose keys are in the key set (columns by position, compared with `<=>`), read as narrowly as may be."""
    restriction = Restriction(tuple(Key(name) for name in keys), simplify_one(renamed_keys(keyset)))
    pushed = Restrictor().push(relation, restriction)
    return pushed.relation if pushed.exact else restriction.apply(pushed.relation)


def _at_table(restrictor: Restrictor, table: Relation, restriction: Restriction) -> Pushed:
    return Pushed(restriction.apply(table), True)


def _through_child(restrictor: Restrictor, relation: Any, restriction: Restriction) -> Pushed:
    return _into_child(restrictor, relation, restriction, restriction.names)


def _through_project(restrictor: Restrictor, project: Project, restriction: Restriction) -> Pushed:
    sources = {each.name: next(iter(each.value.columns)) for each in project.outputs if each.value.is_column}
    if not all(each.value.deterministic for each in project.outputs):
        return Pushed(project, False)
    return _into_child(restrictor, project, restriction, [sources.get(name) for name in restriction.names])


def _through_keys(restrictor: Restrictor, relation: Any, restriction: Restriction) -> Pushed:
    own = group_keys(relation)
    return _into_child(restrictor, relation, restriction, _those_in(restriction, own))


def _through_generate(restrictor: Restrictor, generate: Generate, restriction: Restriction) -> Pushed:
    if not generate.generator.deterministic:
        return Pushed(generate, False)
    return _into_child(restrictor, generate, restriction, _those_in(restriction, generate.child.names))


def _through_expand(restrictor: Restrictor, expand: Expand, restriction: Restriction) -> Pushed:
    """A key passes where every projection takes it from the same column; grouping sets set it to NULL in some."""
    sources: list[str | None] = []
    for name in restriction.names:
        values = {projection[expand.names.index(name)] for projection in expand.projections}
        value = values.pop()
        sources.append(next(iter(value.columns)) if not values and value.is_column else None)
    return _into_child(restrictor, expand, restriction, sources)


def _those_in(restriction: Restriction, names: Sequence[str]) -> list[str | None]:
    return [name if name in names else None for name in restriction.names]


def _into_child(
    restrictor: Restrictor, relation: Any, restriction: Restriction, sources: Sequence[str | None]
) -> Pushed:
    """Restrict the child by those keys that it has a column for."""
    pushed = restrictor.push(relation.child, restriction.moved_to(sources))
    return Pushed(replace(relation, child=pushed.relation), pushed.exact and None not in sources)


def _through_union(restrictor: Restrictor, union: UnionAll, restriction: Restriction) -> Pushed:
    places = [union.names.index(name) for name in restriction.names]
    inputs: list[Relation] = []
    for each in union.inputs:
        own = restriction.moved_to([each.names[place] for place in places])
        assert own is not None
        pushed = restrictor.push(each, own)
        inputs.append(pushed.relation if pushed.exact or pushed.relation is each else own.apply(pushed.relation))
    reached = [built is not each for built, each in zip(inputs, union.inputs, strict=True)]
    return Pushed(UnionAll(tuple(inputs)) if any(reached) else union, all(reached))


_PUSH: dict[type[Relation], Callable[..., Pushed]] = {
    **dict.fromkeys(TABLES, _at_table),
    **dict.fromkeys((Filter, Negate, Distinct, Consolidate, Support), _through_child),
    Project: _through_project,
    UnionAll: _through_union,
    Generate: _through_generate,
    Expand: _through_expand,
    Aggregate: _through_keys,
    Window: _through_keys,
    TopK: _through_keys,
    Join: push_through_join,
}
