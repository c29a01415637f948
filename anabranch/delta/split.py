"""Which operators inside a query get a stored table of their own.

Inside a plan the old result of an operator is needed to retract it. It can be worked out again from the inputs before
the tick, or be read where it was stored. Storing is a must where working it out again may not give the same bits, and
worth it where one small read replaces a large one.
"""

from __future__ import annotations

import re

from anabranch.algebra.relation import Aggregate, Distinct, Fixpoint, Relation, TopK, Window, iterate
from anabranch.algebra.walk import with_children
from anabranch.delta.face import peel
from anabranch.delta.parts import Part
from anabranch.delta.slots import slots_of
from anabranch.delta.strategy import delta, part_of
from anabranch.delta.versions import after, before, tables_of

EXACT_FUNCTIONS = frozenset(
    {
        "count", "count_if", "approx_count_distinct", "min", "max", "every", "bool_and", "any", "some", "bool_or",
        "first", "first_value", "last", "last_value", "any_value", "max_by", "min_by", "mode", "nth_value", "lag",
        "lead", "collect_list", "collect_set", "array_agg", "row_number", "rank", "dense_rank", "ntile",
        "percent_rank", "cume_dist",
    }
)  # fmt: skip
"""Functions whose result on floating-point numbers depends on the rows alone, not on the order they are read in."""


def worth_storing(relation: Relation) -> bool:
    """Whether an operator below the top of a query gets a part of its own.

    A must: results that add up floating-point numbers, since a retraction has to be the very bits that were inserted.
    Worth it: what can be merged (the base is then not read at all), and what is one group (global aggregates, windows
    and top-N over all rows, recursion), whose old result would cost a second full read. Other keyed operators are
    worked out again for the touched keys only, which is cheap, and store nothing.
    """
    match relation:
        case Aggregate() | Distinct():
            return slots_of(relation) is not None or is_inexact(relation) or not _has_keys(relation)
        case Window(partition=partition):
            return not partition or is_inexact(relation)
        case TopK(partition=partition):
            return not partition
        case Fixpoint():
            return True
    return False


def is_inexact(relation: Relation) -> bool:
    """Whether results may differ in their last bits when worked out again."""
    match relation:
        case Aggregate(aggregations=aggregations):
            results = [(each.function.lower(), each.call.type) for each in aggregations]
        case Window(calls=calls):
            results = [(_function_of(str(each.value)), each.value.type) for each in calls]
        case _:
            return False
    return any(_is_floating(type) and function not in EXACT_FUNCTIONS for function, type in results)


def split(kernel: Relation) -> tuple[Part, ...]:
    """The parts, inputs first, the visible one last.

    Beside what is worth storing in itself, an operator is stored when a change would have it worked out for all its
    rows, because the keys that are asked for are not its own.
    """
    stored: set[Relation] = set()
    while True:
        parts, origins = _split(kernel, stored)
        unrestricted = {origins[each] for part in parts for each in _worked_out_in_full(part)}
        if unrestricted <= stored:
            return parts
        stored |= unrestricted


def _split(kernel: Relation, stored: set[Relation]) -> tuple[tuple[Part, ...], dict[Relation, Relation]]:
    """The parts, and the operator of the kernel that each operator of a part was made from."""
    top, _ = peel(kernel)
    inside = _inside_recursions(kernel)
    parts: list[Part] = []
    made: dict[Relation, Relation] = {}
    origins: dict[Relation, Relation] = {}
    for each in iterate(kernel):
        built = with_children(each, {child: made[child] for child in each.children})
        origins[built] = each
        if each is not top and each not in inside and (each in stored or worth_storing(each)):
            part = part_of(str(len(parts) + 1), built)
            if part.is_storable:
                parts.append(part)
                built = part.scan
        made[each] = built
    return (*parts, part_of("", made[kernel])), origins


def _worked_out_in_full(part: Part) -> set[Relation]:
    """The keyed operators below the part's core that its change reads without any restriction."""
    tables = tables_of(part.relation)
    change = delta(part, tables)
    found = set() if change is None else set(iterate(change))
    skipped = {peel(part.relation)[0], *_inside_recursions(part.relation)}
    keyed = [each for each in iterate(part.relation) if isinstance(each, Aggregate | Window | TopK)]
    return {each for each in keyed if each not in skipped and not found.isdisjoint({after(each), before(each, tables)})}


def _inside_recursions(plan: Relation) -> set[Relation]:
    roots = [each for each in iterate(plan) if isinstance(each, Fixpoint)]
    return {each for root in roots for child in root.children for each in iterate(child)}


def _has_keys(relation: Aggregate | Distinct) -> bool:
    return isinstance(relation, Distinct) or bool(relation.keys)


def _function_of(text: str) -> str:
    found = re.match(r"\s*(\w+)\s*\(", text)
    return found[1].lower() if found else ""


def _is_floating(type: str) -> bool:
    return re.search(r"\b(float|double)\b", type) is not None
