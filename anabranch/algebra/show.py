"""Plan text: one line per operator, inputs before their readers, a shared sub-plan once.

    r0 := Scan sales (id, region, amount)
    r1 := Filter r0: amount > 0
    r2 := Aggregate r1 by region: revenue := SUM(amount)

The text depends on the plan alone, so it can be compared, reviewed and stored. The last line is the result.
"""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation import (
    Aggregate,
    Apply,
    Column,
    Expand,
    Filter,
    Fixpoint,
    Generate,
    Join,
    LateralJoin,
    Output,
    Project,
    Recursion,
    Relation,
    SetOperation,
    SortKey,
    Stored,
    TableFunction,
    TopK,
    Values,
    Weigh,
    Window,
    iterate,
)


def show(relation: Relation) -> str:
    """The plan as text."""
    names = {each: f"r{number}" for number, each in enumerate(iterate(relation))}
    return "\n".join(f"{name} := {_line(each, names)}" for each, name in names.items())


def _line(relation: Relation, names: dict[Relation, str]) -> str:
    """Operator, inputs, and after a colon what it does with them."""
    head = " ".join(filter(None, (type(relation).__name__, _variant(relation))))
    inputs = ", ".join(names[each] for each in relation.children)
    detail = _detail(relation)
    return f"{head}{' ' + inputs if inputs else ''}{detail}"


def _variant(relation: Relation) -> str:
    """What distinguishes operators of one class: the kind of a join, the table of a leaf."""
    match relation:
        case Join(kind=kind) | LateralJoin(kind=kind) | Apply(kind=kind):
            return str(kind.value)
        case SetOperation(kind=kind, all=keeps_copies):
            return kind.value + (" all" if keeps_copies else "")
        case Generate(outer=True):
            return "outer"
        case Stored(part=name) | Recursion(name=name) | Fixpoint(name=name):
            return name
    return str(getattr(relation, "table", ""))


def _detail(relation: Relation) -> str:
    match relation:
        case Filter(predicates=predicates):
            return ": " + _conjunction(predicates)
        case Project(outputs=outputs):
            return ": " + _listed(_output(each) for each in outputs)
        case Join(on=on) | LateralJoin(on=on):
            return ": " + _conjunction(on)
        case Aggregate(keys=keys, aggregations=aggregations):
            calls = _listed(f"{each.name} := {each.call}" for each in aggregations)
            return (f" by {_listed(keys)}" if keys else "") + (f": {calls}" if calls else "")
        case Window(partition=partition, calls=calls):
            return (f" by {_listed(partition)}" if partition else "") + ": " + _listed(_output(each) for each in calls)
        case TopK():
            return _top_k(relation)
        case Expand(projections=projections, columns=columns):
            return f" ({_names(columns)}): " + _rows(projections)
        case Generate(generator=generator, generated=generated):
            return f": ({_names(generated)}) := {generator}"
        case Values(rows=rows, columns=columns):
            return f" ({_names(columns)}): " + _rows(rows)
        case TableFunction(call=call, columns=columns):
            return f" ({_names(columns)}): {call}"
        case Apply(output=output, probe=probe):
            return f": {output.name}" + (f" := ({_listed(str(each) for each in probe)}) in" if probe else "")
        case Weigh(weight=weight):
            return f": {weight}"
    return "" if relation.children else f" ({_names(relation.columns)})"


def _top_k(relation: TopK) -> str:
    by = f" by {_listed(relation.partition)}" if relation.partition else ""
    limit = "all" if relation.limit is None else str(relation.limit)
    offset = f" from {relation.offset}" if relation.offset else ""
    return f"{by}: {limit}{offset} in order {_listed(_sort_key(each) for each in relation.order)}"


def _sort_key(key: SortKey) -> str:
    return f"{key.name} {'desc' if key.descending else 'asc'} nulls {'first' if key.nulls_first else 'last'}"


def _output(output: Output) -> str:
    return output.name if str(output.value) == output.name else f"{output.name} := {output.value}"


def _conjunction(predicates: tuple[Expression, ...]) -> str:
    return " and ".join(f"({each})" if len(predicates) > 1 else str(each) for each in predicates) or "true"


def _rows(rows: tuple[tuple[Expression, ...], ...]) -> str:
    return _listed(f"({_listed(str(each) for each in row)})" for row in rows)


def _names(columns: tuple[Column, ...]) -> str:
    return _listed(each.name for each in columns)


def _listed(items: Iterable[str]) -> str:
    return ", ".join(items)
