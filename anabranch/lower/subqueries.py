"""Subqueries and lateral joins: no operator reads an enclosing row any more.

Subqueries are lowered inside out. A WHERE directly above EXISTS and IN is looked at together with them, because as
conditions they are plain semi- and anti-joins (`membership.py`); anywhere else they become columns (`marks.py`).

    filter (apply (L, inner, o), P and o)  =  apply-free (filter (L, P)) semi-join inner, o = true
"""

from __future__ import annotations

from anabranch.algebra.expression import Expression, is_negated_column
from anabranch.algebra.relation import Apply, ApplyKind, Filter, LateralJoin, Relation, iterate
from anabranch.algebra.walk import with_children
from anabranch.lower.build import extended, filtered, truth
from anabranch.lower.lateral import lateral_to_join
from anabranch.lower.marks import marked
from anabranch.lower.membership import kept_by
from anabranch.lower.names import FreshNames
from anabranch.lower.scalar import scalar_value

Done = dict[Relation, Relation]


def lower_subqueries(root: Relation, names: FreshNames) -> Relation:
    """Replace every Apply and LateralJoin."""
    done: Done = {}
    only_tested = _only_tested(root)
    for relation in iterate(root):
        match relation:
            case Filter(child=Apply()):
                done[relation] = _tested(relation, done, names)
            case Apply() if relation in only_tested:
                continue
            case Apply():
                done[relation] = _valued(relation, done[relation.child], done[relation.inner], names)
            case LateralJoin():
                done[relation] = lateral_to_join(relation, done[relation.left], done[relation.right], names)
            case _:
                done[relation] = with_children(relation, {child: done[child] for child in relation.children})
    return done[root]


def _only_tested(root: Relation) -> set[Relation]:
    """The Applies that are read by nothing but the WHERE above them, directly or through other such Applies."""
    plans = list(iterate(root))
    read = {root}
    for relation in reversed(plans):
        for child in relation.children:
            if isinstance(relation, Filter):
                continue
            if isinstance(relation, Apply) and relation not in read and child is not relation.inner:
                continue
            read.add(child)
    return {each for each in plans if isinstance(each, Apply) and each not in read}


def _valued(apply: Apply, child: Relation, inner: Relation, names: FreshNames) -> Relation:
    """The subquery's value as a column."""
    if apply.kind is ApplyKind.SCALAR:
        return scalar_value(apply, child, inner, names)
    return marked(apply, child, inner, names)


def _tested(tested: Filter, done: Done, names: FreshNames) -> Relation:
    """A WHERE above subqueries: each conjunct is applied as soon as the columns it reads are there."""
    applies: list[Apply] = []
    child = tested.child
    while isinstance(child, Apply):
        applies.append(child)
        child = child.child
    current, pending = _filter_ready(done[child], tested.predicates)
    for apply in reversed(applies):
        wanted = next((each for each in pending if _test_of(apply, each) is not None), None)
        if wanted is None:
            current = _valued(apply, current, done[apply.inner], names)
        else:
            is_true = bool(_test_of(apply, wanted))
            kept = kept_by(apply, current, done[apply.inner], is_true, names)
            current = extended(kept, truth(apply.output.name, is_true))
            pending = tuple(each for each in pending if each is not wanted)
        current, pending = _filter_ready(current, pending)
    return current


def _test_of(apply: Apply, predicate: Expression) -> bool | None:
    """True for the bare value of EXISTS or IN, False for NOT of it, None for any other condition."""
    if apply.kind is ApplyKind.SCALAR:
        return None
    if predicate.is_column and predicate.columns == {apply.output.name}:
        return True
    return False if is_negated_column(predicate) == apply.output.name else None


def _filter_ready(current: Relation, predicates: tuple[Expression, ...]) -> tuple[Relation, tuple[Expression, ...]]:
    """Apply the predicates whose columns exist; return the others."""
    ready = tuple(each for each in predicates if each.columns <= set(current.names))
    return filtered(current, ready), tuple(each for each in predicates if each not in ready)
