"""Move conditions down to where their columns come from.

    filter (project (R, x := e), p(x))   =  project (filter (R, p(e)), x := e)
    filter (L join R on c, p and q)      =  filter (L, p) join R on c and q        p reads L only; q reads both
    filter (L left-join R on c, p)       =  filter (L, p) left-join R on c         p reads L only
    L left-join R on c and r             =  L left-join filter (R, r) on c         r reads R only

So `FROM a, b WHERE a.x = b.x` becomes an equi-join. Conditions of a WHERE stay above the side that an outer join pads;
conditions of an ON go only into the side that is padded or tested. A WHERE that drops every padded row makes the left
join an inner one. A sub-plan with several readers is not changed for one of them: the condition stays above it. The
order of conditions is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation import (
    Aggregate,
    Distinct,
    Filter,
    Generate,
    Join,
    JoinKind,
    Negate,
    Project,
    Relation,
    TopK,
    UnionAll,
    Window,
)
from anabranch.algebra.walk import with_children
from anabranch.lower.build import filtered
from anabranch.lower.common_conjuncts import common_conjuncts
from anabranch.lower.names import FreshNames
from anabranch.lower.null_rejecting import rejects_padding
from anabranch.lower.sharing import shared_by_several

Predicates = tuple[Expression, ...]

LONGEST_SUBSTITUTION = 400
"""A condition is not moved below the computation of its columns if that makes it longer than this."""


def push_filters(root: Relation, names: FreshNames) -> Relation:
    """Every condition as far down as it may go."""
    sinker = _Sinker(shared_by_several(root))
    return sinker.sink(root, ())


class _Sinker:
    """Sinks conditions into one plan; `done` are the sub-plans that were reached without any."""

    def __init__(self, shared: frozenset[Relation]) -> None:
        self.shared = shared
        self.done: dict[Relation, Relation] = {}

    def sink(self, relation: Relation, predicates: Predicates) -> Relation:
        """The relation under the predicates, which read its columns."""
        needed = tuple(each for each in dict.fromkeys(predicates) if each.parts != ("true",))
        staying = needed if relation in self.shared else tuple(each for each in needed if not _may_move(each))
        if staying:
            return filtered(self.sink(relation, _without(needed, staying)), staying)
        if needed:
            return _RULES.get(type(relation), _stop)(self, relation, needed)
        if relation not in self.done:
            self.done[relation] = _RULES.get(type(relation), _stop)(self, relation, ())
        return self.done[relation]


def _may_move(predicate: Expression) -> bool:
    """A condition that is random, or meant to raise, is evaluated where it was written: for those rows, no others."""
    text = " ".join(part.lower() for part in predicate.parts if isinstance(part, str))
    return predicate.deterministic and "raise_error" not in text and "assert_true" not in text


def _is_short(moved: Expression, written: Expression) -> bool:
    return len(str(moved)) <= max(LONGEST_SUBSTITUTION, len(str(written)))


def _stop(sinker: _Sinker, relation: Relation, predicates: Predicates) -> Relation:
    """Nothing passes."""
    return filtered(with_children(relation, {each: sinker.sink(each, ()) for each in relation.children}), predicates)


def _filter(sinker: _Sinker, relation: Filter, predicates: Predicates) -> Relation:
    return sinker.sink(relation.child, relation.predicates + predicates)


def _project(sinker: _Sinker, relation: Project, predicates: Predicates) -> Relation:
    values = {each.name: each.value for each in relation.outputs}
    if not all(value.deterministic for value in values.values()):
        return _stop(sinker, relation, predicates)
    moved = {each: each.substitute(values) for each in predicates}
    fits = {each for each, new in moved.items() if _may_move(new) and _is_short(new, each)}
    below = tuple(new for each, new in moved.items() if each in fits)
    above = tuple(each for each in moved if each not in fits)
    return filtered(replace(relation, child=sinker.sink(relation.child, below)), above)


def _to_all_inputs(sinker: _Sinker, relation: UnionAll, predicates: Predicates) -> Relation:
    inputs: list[Relation] = []
    for each in relation.inputs:
        here = {name: column.value for name, column in zip(relation.names, each.columns, strict=True)}
        inputs.append(sinker.sink(each, tuple(predicate.substitute(here) for predicate in predicates)))
    return UnionAll(tuple(inputs))


def _through(*, passing: Callable[..., frozenset[str]]) -> Callable[..., Relation]:
    """A rule for operators that let a condition pass if it reads columns, and only the `passing` ones."""

    def rule(sinker: _Sinker, relation: Filter, predicates: Predicates) -> Relation:
        allowed = passing(relation)
        below = tuple(each for each in predicates if each.columns and each.columns <= allowed)
        above = tuple(each for each in predicates if each not in below)
        return filtered(replace(relation, child=sinker.sink(relation.child, below)), above)

    return rule


def _join(sinker: _Sinker, relation: Join, predicates: Predicates) -> Relation:
    if not all(each.deterministic for each in relation.on):
        return _stop(sinker, relation, predicates)
    effective = _without_padding(relation, predicates)
    return _JOINS[effective.kind](sinker, effective, predicates)


def _without_padding(join: Join, predicates: Predicates) -> Join:
    """The outer join as one that does not make the padded rows which the predicates drop anyway."""
    if join.kind is not JoinKind.LEFT:
        return join
    padded = frozenset(join.right.names)
    dropped = any(rejects_padding(each, padded) for each in predicates)
    return replace(join, kind=JoinKind.INNER) if dropped else join


def _reads_only(predicates: Predicates, side: Relation) -> Predicates:
    names = set(side.names)
    return tuple(each for each in predicates if each.columns <= names)


def _without(predicates: Predicates, *taken: Predicates) -> Predicates:
    return tuple(each for each in predicates if not any(each in group for group in taken))


def _inner_join(sinker: _Sinker, relation: Join, predicates: Predicates) -> Relation:
    types = {each.name: each.type for each in relation.columns}
    given = relation.on + predicates
    implied = tuple(found for each in given for found in common_conjuncts(each, types))
    every = tuple(dict.fromkeys(given + implied))
    left = _reads_only(every, relation.left)
    right = _without(_reads_only(every, relation.right), left)
    sides = sinker.sink(relation.left, left), sinker.sink(relation.right, right)
    return Join(*sides, JoinKind.INNER, _without(every, left, right))


def _left_join(sinker: _Sinker, relation: Join, predicates: Predicates) -> Relation:
    left, right = _reads_only(predicates, relation.left), _reads_only(relation.on, relation.right)
    sides = sinker.sink(relation.left, left), sinker.sink(relation.right, right)
    return filtered(Join(*sides, JoinKind.LEFT, _without(relation.on, right)), _without(predicates, left))


def _semi_join(sinker: _Sinker, relation: Join, predicates: Predicates) -> Relation:
    left = tuple(each for each in _reads_only(relation.on, relation.left) if each.columns)
    right = _without(_reads_only(relation.on, relation.right), left)
    sides = sinker.sink(relation.left, predicates + left), sinker.sink(relation.right, right)
    return Join(*sides, JoinKind.SEMI, _without(relation.on, left, right))


def _anti_join(sinker: _Sinker, relation: Join, predicates: Predicates) -> Relation:
    right = _reads_only(relation.on, relation.right)
    sides = sinker.sink(relation.left, predicates), sinker.sink(relation.right, right)
    return Join(*sides, JoinKind.ANTI, _without(relation.on, right))


_JOINS: dict[JoinKind, Callable[..., Relation]] = {
    JoinKind.INNER: _inner_join,
    JoinKind.LEFT: _left_join,
    JoinKind.FULL: _stop,
    JoinKind.SEMI: _semi_join,
    JoinKind.ANTI: _anti_join,
}

_RULES: dict[type[Relation], Callable[..., Relation]] = {
    Filter: _filter,
    Project: _project,
    UnionAll: _to_all_inputs,
    Join: _join,
    Distinct: _through(passing=lambda relation: frozenset(relation.names)),
    Negate: _through(passing=lambda relation: frozenset(relation.names)),
    Generate: _through(passing=lambda relation: frozenset(relation.child.names)),
    Aggregate: _through(passing=lambda relation: frozenset(relation.keys)),
    Window: _through(passing=lambda relation: frozenset(relation.partition)),
    TopK: _through(passing=lambda relation: frozenset(relation.partition)),
}
