"""Walks over plans. Plans are DAGs, so every walk visits an operator once and keeps what it made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from anabranch.algebra.relation import LEAVES, Relation, iterate
from anabranch.algebra.relation.operator import field_names, over_alike_inputs


def with_children(relation: Relation, children: dict[Relation, Relation]) -> Relation:
    """The same operator over other inputs; inputs not in `children` stay."""
    if all(children.get(child, child) is child for child in relation.children):
        return relation
    are_alike = all(children[child].columns == child.columns for child in relation.children if child in children)
    changed: dict[str, object] = {}
    for name in field_names(type(relation)):
        value = getattr(relation, name)
        if isinstance(value, Relation):
            changed[name] = children.get(value, value)
        elif isinstance(value, tuple) and value and isinstance(value[0], Relation):
            changed[name] = tuple(children.get(item, item) for item in value)
    return over_alike_inputs(relation, changed) if are_alike else replace(relation, **changed)


def transform(root: Relation, rewrite: Callable[[Relation], Relation]) -> Relation:
    """Rebuild the plan bottom-up: `rewrite` sees each operator once, its inputs already rewritten."""
    done: dict[Relation, Relation] = {}
    for relation in iterate(root):
        done[relation] = rewrite(with_children(relation, {child: done[child] for child in relation.children}))
    return done[root]


def operators(roots: Iterable[Relation]) -> Iterator[Relation]:
    """Every operator of all plans once, inputs before their readers."""
    seen: set[Relation] = set()
    for root in roots:
        for relation in iterate(root):
            if relation not in seen:
                seen.add(relation)
                yield relation


def leaves(root: Relation) -> tuple[Relation, ...]:
    """The leaves of the plan, once each."""
    return tuple(each for each in iterate(root) if isinstance(each, LEAVES))


def size(root: Relation) -> int:
    """The number of operators, a shared one counted once."""
    return sum(1 for _ in iterate(root))


def tree_size(root: Relation) -> int:
    """The number of operators, a shared one counted wherever it is used."""
    sizes: dict[Relation, int] = {}
    for relation in iterate(root):
        sizes[relation] = 1 + sum(sizes[child] for child in relation.children)
    return sizes[root]
