"""A key restriction, pushed towards the tables as far as it may go.

    op(X) at K = op(X at K)      where every row of op(X) with keys in K comes from rows of X with keys in K

Through Filter, Negate, UnionAll, Distinct and Generate; through Project for keys that are bare columns; into the side
of an inner join that holds the key, and across its equalities into the other one; into the preserved side of an outer
join, and across its equalities into the other side, where only partners of the rows kept can matter. Through Aggregate,
Window and TopK where the key is among their own keys. Never through Fixpoint, a global aggregate, or into the padded
side of an outer join: a padded row shows NULL, and a key set may hold NULL.

A composite key goes where some of its columns go, and is then applied again above. A side of a join that is not reached
by the key itself is reduced to the partners of the side that is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation import (
    After,
    Aggregate,
    Before,
    Consolidate,
    Distinct,
    Expand,
    Filter,
    Generate,
    Join,
    JoinKind,
    Negate,
    Project,
    Relation,
    Scan,
    Stored,
    Support,
    TopK,
    UnionAll,
    Window,
    iterate,
)
from anabranch.delta.build import KEY_PREFIX, at, key_set, renamed
from anabranch.delta.equalities import across, matches
from anabranch.delta.rules.keyed import group_keys
from anabranch.delta.simplify import simplify_one

TABLES = (Scan, Before, After, Stored)
MAXIMUM_VERSIONS = 4
"""Restricted copies of one sub-plan; beyond it a shared sub-plan is read as it is, so that plans cannot explode."""


@dataclass(frozen=True)
class Pushed:
    """A relation that holds at least the rows with keys in the set; `exact`: no others."""

    relation: Relation
    exact: bool


class Restrictor:
    """Restricts relations, remembering what it did: equal restrictions of one sub-plan are one plan."""

    def __init__(self) -> None:
        self._done: dict[tuple[Relation, tuple[str, ...], Relation], Pushed] = {}
        self._versions: Counter[Relation] = Counter()

    def restrict(self, relation: Relation, keys: tuple[str, ...], keyset: Relation) -> Relation:
        """Exactly the rows whose keys are in the key set."""
        pushed = self.push(relation, keys, keyset)
        return pushed.relation if pushed.exact else at(pushed.relation, keys, keyset)

    def push(self, relation: Relation, keys: tuple[str, ...], keyset: Relation) -> Pushed:
        """At least the rows whose keys are in the key set, with as little read as the operators allow."""
        request = (relation, keys, keyset)
        if request not in self._done:
            self._versions[relation] += 1
            rule = _PUSH.get(type(relation))
            blocked = rule is None or self._versions[relation] > MAXIMUM_VERSIONS
            self._done[request] = Pushed(relation, False) if blocked or rule is None else rule(self, *request)
        return self._done[request]

    def partners(self, join: Join, large: Relation, small: Relation) -> Relation:
        """One side of a join without rows that meet none of the other; a bare table is left to the join itself."""
        found = matches(join, large, small)
        if not found or is_table(large):
            return large
        keyset = narrow_key_set(small, [value for _, value in found])
        return self.push(large, tuple(name for name, _ in found), keyset).relation


def restrict(relation: Relation, keys: tuple[str, ...], keyset: Relation) -> Relation:
    """The rows whose keys are in the key set (columns by position, compared with `<=>`), read as narrowly as may be."""
    names = [f"{KEY_PREFIX}{index}" for index in range(1, len(keys) + 1)]
    return Restrictor().restrict(relation, keys, simplify_one(renamed(keyset, names)))


def is_table(relation: Relation) -> bool:
    """A table, at most filtered and projected: a join with a small side reads it narrowly by itself."""
    while isinstance(relation, Filter | Project):
        relation = relation.child
    return isinstance(relation, TABLES)


def _at_table(restrictor: Restrictor, table: Relation, keys: tuple[str, ...], keyset: Relation) -> Pushed:
    return Pushed(at(table, keys, keyset), True)


def _through_child(restrictor: Restrictor, relation: Any, keys: tuple[str, ...], keyset: Relation) -> Pushed:
    pushed = restrictor.push(relation.child, keys, keyset)
    return Pushed(replace(relation, child=pushed.relation), pushed.exact)


def _through_project(restrictor: Restrictor, project: Project, keys: tuple[str, ...], keyset: Relation) -> Pushed:
    sources = {each.name: next(iter(each.value.columns)) for each in project.outputs if each.value.is_column}
    if not all(each.value.deterministic for each in project.outputs):
        return Pushed(project, False)
    return _by_some(restrictor, project, [sources.get(key) for key in keys], keyset)


def _through_keys(restrictor: Restrictor, relation: Any, keys: tuple[str, ...], keyset: Relation) -> Pushed:
    own = group_keys(relation)
    return _by_some(restrictor, relation, [key if key in own else None for key in keys], keyset)


def _through_generate(restrictor: Restrictor, generate: Generate, keys: tuple[str, ...], keyset: Relation) -> Pushed:
    if not generate.generator.deterministic:
        return Pushed(generate, False)
    return _by_some(restrictor, generate, [key if key in generate.child.names else None for key in keys], keyset)


def _through_expand(restrictor: Restrictor, expand: Expand, keys: tuple[str, ...], keyset: Relation) -> Pushed:
    """A key passes where every projection takes it from the same column; grouping sets set it to NULL in some."""
    sources: list[str | None] = []
    for key in keys:
        values = {projection[expand.names.index(key)] for projection in expand.projections}
        value = values.pop()
        sources.append(next(iter(value.columns)) if not values and value.is_column else None)
    return _by_some(restrictor, expand, sources, keyset)


def _by_some(restrictor: Restrictor, relation: Any, sources: Sequence[str | None], keyset: Relation) -> Pushed:
    """Restrict the child by those keys that it has a column for."""
    pushed = _push_some(restrictor, relation.child, sources, keyset)
    return Pushed(replace(relation, child=pushed.relation), pushed.exact)


def _push_some(restrictor: Restrictor, relation: Relation, sources: Sequence[str | None], keyset: Relation) -> Pushed:
    known = [index for index, source in enumerate(sources) if source is not None]
    if not known:
        return Pushed(relation, False)
    part = keyset if len(known) == len(sources) else _columns_of(keyset, known)
    pushed = restrictor.push(relation, tuple(source for source in sources if source is not None), part)
    return Pushed(pushed.relation, pushed.exact and len(known) == len(sources))


def narrow_key_set(relation: Relation, values: Sequence[Expression]) -> Relation:
    """The values that occur in a relation, as a key set; taken from below where the relation is a key set itself."""
    source = relation.child if isinstance(relation, Support) else relation
    chosen = key_set(source, values)
    return simplify_one(replace(chosen, child=simplify_one(chosen.child)))


def _columns_of(keyset: Relation, positions: Sequence[int]) -> Relation:
    return narrow_key_set(keyset, [keyset.columns[index].value for index in positions])


def _through_union(restrictor: Restrictor, union: UnionAll, keys: tuple[str, ...], keyset: Relation) -> Pushed:
    positions = [union.names.index(key) for key in keys]
    pushed = [
        (each, own, restrictor.push(each, own, keyset))
        for each in union.inputs
        for own in [tuple(each.names[position] for position in positions)]
    ]
    if not any(result.relation is not each for each, _, result in pushed):
        return Pushed(union, False)
    exact = (result.relation if result.exact else at(result.relation, own, keyset) for _, own, result in pushed)
    return Pushed(UnionAll(tuple(exact)), True)


def _through_join(restrictor: Restrictor, join: Join, keys: tuple[str, ...], keyset: Relation) -> Pushed:
    """Either side by the keys it has or is equal to; the padded or tested side only by keys of the preserved one."""
    if join.kind is JoinKind.FULL:
        return Pushed(join, False)
    inner = join.kind is JoinKind.INNER
    from_left = [key if key in join.left.names else None for key in keys]
    from_right = [key if inner and key in join.right.names else None for key in keys]
    to_left = [
        own or (across(join, key, join.left) if inner else None) for own, key in zip(from_left, keys, strict=True)
    ]
    to_right = [
        own or (across(join, key, join.right) if key in join.left.names else None)
        for own, key in zip(from_right, keys, strict=True)
    ]
    left = _push_some(restrictor, join.left, to_left, keyset)
    right = _push_some(restrictor, join.right, to_right, keyset)
    exact = left.exact or (inner and right.exact)
    return Pushed(_reduced_by_partners(restrictor, join, left.relation, right.relation), exact)


def _reduced_by_partners(restrictor: Restrictor, join: Join, left: Relation, right: Relation) -> Join:
    """Reduce a side that the key did not reach to the partners of the side that it did."""
    left_reached, right_reached = left is not join.left, right is not join.right
    if left_reached != right_reached and not _share_operators(join.left, join.right):
        if left_reached:
            right = restrictor.partners(join, right, left)
        elif join.kind is JoinKind.INNER:
            left = restrictor.partners(join, left, right)
    return replace(join, left=left, right=right)


def _share_operators(left: Relation, right: Relation) -> bool:
    """Whether something beyond tables is below both sides; restricting it twice would copy it."""
    return not {each for each in iterate(left) if not isinstance(each, TABLES)}.isdisjoint(iterate(right))


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
    Join: _through_join,
}
