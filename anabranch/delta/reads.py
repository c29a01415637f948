"""What a delta plan reads of its tables: by which keys, or everything."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.algebra.relation import (
    After,
    Aggregate,
    Before,
    Filter,
    Join,
    Project,
    Relation,
    TopK,
    Window,
)
from anabranch.delta.equalities import matches
from anabranch.delta.narrow import Smallness
from anabranch.delta.restriction import narrow_key_set

Visit = tuple[Relation, str, tuple[str, ...], Relation | None]
"""An operator, and how its rows are read: because of which operator, which columns by which keys."""


@dataclass(frozen=True)
class Read:
    """One read of a table: where `columns` are among `keys`, or, without keys, all of it because of `operator`."""

    table: Before | After
    columns: tuple[str, ...]
    keys: Relation | None
    operator: str


def reads_of(plan: Relation) -> list[Read]:
    """Every read of a table, once for each key set it is read by."""
    small = Smallness()
    found: dict[Read, None] = {}
    waiting: list[Visit] = [(plan, "Query", (), None)]
    seen: set[Visit] = set()
    while waiting:
        visit = waiting.pop()
        if visit in seen:
            continue
        seen.add(visit)
        relation, operator, columns, keys = visit
        if isinstance(relation, Before | After):
            found.setdefault(Read(relation, columns, keys, operator))
        else:
            waiting.extend(reversed(_inputs(relation, operator, columns, keys, small)))
    return list(found)


def unrestricted_reads(plan: Relation) -> list[str]:
    """For explain: why tables are read as a whole, once for each reason."""
    reasons = (f"UNRESTRICTED_READ: {each.operator}" for each in reads_of(plan) if each.keys is None)
    return list(dict.fromkeys(reasons))


def _inputs(
    relation: Relation, operator: str, columns: tuple[str, ...], keys: Relation | None, small: Smallness
) -> list[Visit]:
    match relation:
        case Filter(child=child):
            return [(child, operator, columns, keys)]
        case Project(child=child, outputs=outputs):
            sources = {each.name: next(iter(each.value.columns)) for each in outputs if each.value.is_column}
            if all(name in sources for name in columns):
                return [(child, operator, tuple(sources[name] for name in columns), keys)]
            return [(child, operator, (), None)]
        case Join(left=left, right=right):
            return [_side(relation, left, right, small), _side(relation, right, left, small)]
    return [(child, describe(relation), (), None) for child in relation.children]


def _side(join: Join, side: Relation, other: Relation, small: Smallness) -> Visit:
    found = matches(join, side, other) if small(other) else []
    if not found:
        return (side, describe(join), (), None)
    keys = narrow_key_set(other, [match.value for match in found])
    return (side, describe(join), tuple(match.column for match in found), keys)


def describe(relation: Relation) -> str:
    """An operator's name as explain shows it."""
    name = type(relation).__name__
    match relation:
        case Join(kind=kind):
            return f"{kind.value.capitalize()} join"
        case Aggregate(keys=()):
            return "Aggregate without GROUP BY"
        case Window(partition=()):
            return "Window without PARTITION BY"
        case TopK():
            return "Top-N"
    return name
