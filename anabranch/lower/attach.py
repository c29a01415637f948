"""A subquery as something to join with: by pulling its conditions up, or else by the general method.

    inner(o)  =  the rows of `relation` for which `conditions` hold, cut to inner's columns

The conditions read the columns of the enclosing rows and of the relation; no names collide.
"""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.algebra.expression import Expression
from anabranch.algebra.holes import outer_columns
from anabranch.algebra.relation import Relation
from anabranch.lower.build import join_apart
from anabranch.lower.domain import domain_of, push_down
from anabranch.lower.keys import Key, keys_of
from anabranch.lower.names import FreshNames
from anabranch.lower.pull_up import Pulled, pull_up


@dataclass(frozen=True)
class Attached:
    """What to join the enclosing rows with. `place[name]` is the relation's name for the subquery's column `name`.

    `keys` are the conditions as equalities of the two sides, None where some condition is none.
    """

    relation: Relation
    conditions: tuple[Expression, ...]
    place: dict[str, str]
    keys: list[Key] | None

    def value(self, name: str) -> Expression:
        """The subquery's column in the relation."""
        return self.relation.column(self.place[name]).value


def bound_columns(child: Relation, inner: Relation) -> frozenset[str]:
    """The columns of the enclosing row that the subquery reads."""
    return outer_columns(inner) & frozenset(child.names)


def bound_to(child: Relation, each: Expression) -> Expression:
    """The expression reading the columns of `child` where it read the enclosing row."""
    return each.bind_outer({column.name: column.value for column in child.columns})


def attach(child: Relation, inner: Relation, names: FreshNames) -> Attached:
    """The subquery without the enclosing row, in the way that reads the least."""
    pulled = pull_up(inner, bound_columns(child, inner), names)
    return attach_by_domain(child, inner, names) if pulled is None else _attached(child, pulled, names)


def attach_by_keys(child: Relation, inner: Relation, names: FreshNames) -> tuple[Attached, list[Key]]:
    """The same with equalities only, so that the subquery can be grouped by what the enclosing row asks for."""
    attached = attach(child, inner, names)
    if attached.keys is None:
        attached = attach_by_domain(child, inner, names)
    assert attached.keys is not None
    return attached, attached.keys


def attach_by_domain(child: Relation, inner: Relation, names: FreshNames) -> Attached:
    """By the general method; the conditions are null-safe equalities with the domain's columns."""
    domain = domain_of(child, bound_columns(child, inner), names)
    relation, place = join_apart(child, push_down(inner, domain, names), names)
    copies = {name: relation.column(place[column.name]) for name, column in domain.columns.items()}
    keys = [Key(copy.value, child.column(name).value, True) for name, copy in copies.items()]
    return Attached(relation, tuple(key.condition for key in keys), place, keys)


def _attached(child: Relation, pulled: Pulled, names: FreshNames) -> Attached:
    relation, place = join_apart(child, pulled.relation, names)
    moved = {name: relation.column(new).value for name, new in place.items()}
    apart = tuple(each.substitute(moved) for each in pulled.conditions)
    keys = keys_of(apart, frozenset(child.names))
    bound = keys and [Key(key.inner, bound_to(child, key.outer), key.null_safe) for key in keys]
    return Attached(relation, tuple(bound_to(child, each) for each in apart), place, bound)
