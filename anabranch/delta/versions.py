"""One plan at its three versions: before the tick, after it, and the change between.

    X' = X + dX      X before the tick, X' after it, dX the change as a Z-set

A table that did not change has one version only, After, so a sub-plan over unchanged tables is one object before and
after. Versions are noted inputs first, each operator once: a shared sub-plan has one before, one after, one change.
"""

from __future__ import annotations

from collections.abc import Callable

from anabranch.algebra.relation import After, Before, Empty, Relation, Scan, iterate
from anabranch.algebra.walk import transform, with_children


class Versions:
    """Looks up the versions of the operators noted so far."""

    def __init__(self, changed: frozenset[str]) -> None:
        self.changed = changed
        self._before: dict[Relation, Relation] = {}
        self._after: dict[Relation, Relation] = {}
        self._change: dict[Relation, Relation] = {}

    def before(self, relation: Relation) -> Relation:
        """The relation as the frontier saw it."""
        return self._before[relation]

    def after(self, relation: Relation) -> Relation:
        """The relation as this tick sees it."""
        return self._after[relation]

    def change(self, relation: Relation) -> Relation:
        """after - before, as a Z-set; Empty where no table below changed."""
        return self._change[relation]

    def is_changed(self, relation: Relation) -> bool:
        """Whether a changed table is below."""
        return self._before[relation] is not self._after[relation]

    def note(self, relation: Relation, rule: Callable[[Relation, Versions], Relation]) -> None:
        """Work out the versions of an operator whose inputs are noted; `rule` is asked only where something changed."""
        if relation in self._change:
            return
        self._before[relation] = _leaf_before(relation, self.changed) or with_children(
            relation, {each: self._before[each] for each in relation.children}
        )
        self._after[relation] = _leaf_after(relation) or with_children(
            relation, {each: self._after[each] for each in relation.children}
        )
        self._change[relation] = rule(relation, self) if self.is_changed(relation) else Empty(relation.columns)


def before(relation: Relation, changed: frozenset[str]) -> Relation:
    """The plan over its tables as the frontier saw them; unchanged tables are read as After."""
    return transform(relation, lambda each: _leaf_before(each, changed) or each)


def after(relation: Relation) -> Relation:
    """The plan over its tables as this tick sees them."""
    return transform(relation, lambda each: _leaf_after(each) or each)


def tables_of(relation: Relation) -> frozenset[str]:
    """The tables that a defining plan reads."""
    return frozenset(each.table for each in iterate(relation) if isinstance(each, Scan))


def _leaf_before(relation: Relation, changed: frozenset[str]) -> Relation | None:
    if isinstance(relation, Scan) and relation.table in changed:
        return Before(relation.table, relation.columns)
    return _leaf_after(relation)


def _leaf_after(relation: Relation) -> Relation | None:
    return After(relation.table, relation.columns) if isinstance(relation, Scan) else None
