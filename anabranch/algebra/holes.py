"""The expressions of an operator, and which columns of enclosing queries a plan reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation import (
    Apply,
    Fixpoint,
    LateralJoin,
    Recursion,
    Relation,
    iterate,
)


def expressions(relation: Relation) -> Iterator[Expression]:
    """Every expression of this operator (not of its inputs)."""
    for field in fields(relation):
        yield from _expressions_in(getattr(relation, field.name))


def _expressions_in(value: Any) -> Iterator[Expression]:
    if isinstance(value, Expression):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _expressions_in(each)
    elif is_dataclass(value) and not isinstance(value, Relation):
        for field in fields(value):
            yield from _expressions_in(getattr(value, field.name))


def map_expressions(relation: Relation, change: Callable[[Expression], Expression]) -> Relation:
    """The same operator with every expression of its own changed."""
    changed: dict[str, Any] = {}
    for field in fields(relation):
        value = getattr(relation, field.name)
        mapped = _map_value(value, change)
        if mapped is not value:
            changed[field.name] = mapped
    return replace(relation, **changed) if changed else relation


def _map_value(value: Any, change: Callable[[Expression], Expression]) -> Any:
    if isinstance(value, Expression):
        return change(value)
    if isinstance(value, tuple):
        mapped = tuple(_map_value(each, change) for each in value)
        return mapped if any(new is not old for new, old in zip(mapped, value, strict=True)) else value
    if is_dataclass(value) and not isinstance(value, Relation | type):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        new = {name: _map_value(part, change) for name, part in parts.items()}
        return replace(value, **new) if any(new[name] is not parts[name] for name in parts) else value
    return value


def outer_columns(root: Relation) -> frozenset[str]:
    """Names of columns of enclosing queries that the plan reads: its free `Outer` holes."""
    return _free(root)[0]


def is_closed(root: Relation) -> bool:
    """True if the plan's meaning depends on nothing but tables: no free `Outer` hole, no free `Recursion`."""
    return not any(_free(root))


_Free = tuple[frozenset[str], frozenset[str]]
_known: WeakKeyDictionary[Relation, _Free] = WeakKeyDictionary()


def _free(root: Relation) -> _Free:
    found = _known.get(root)
    if found is None:
        for relation in iterate(root):
            if relation not in _known:
                _known[relation] = _free_of_operator(relation)
        found = _known[root]
    return found


def _free_of_operator(relation: Relation) -> _Free:
    """Free holes and free recursions of an operator, from those of its inputs."""
    outer = frozenset().union(*(each.outer_columns for each in expressions(relation)))
    recursions: frozenset[str] = frozenset({relation.name}) if isinstance(relation, Recursion) else frozenset()
    for child in relation.children:
        free, open_recursions = _known[child]
        match relation:
            case Apply(child=bound) if child is relation.inner and child is not bound:
                free -= set(bound.names)
            case LateralJoin(left=bound) if child is relation.right and child is not bound:
                free -= set(bound.names)
            case Fixpoint(name=name) if child is relation.step:
                open_recursions -= {name}
        outer |= free
        recursions |= open_recursions
    return outer, recursions
