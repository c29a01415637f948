"""Which stored rows a change takes away: the change with the rowids of the rows it deletes.

    located(d, T)  =  columns of T, weight, rowids      a row of weight -n goes with the rowids of n identical rows of T

In general T is read once more and matched with the negative rows of d, if there are any. Where d = new - old and old is
made of rows of T themselves (a keyed recompute), their rowids are carried along instead, and T is read no more than d
reads it anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from anabranch.algebra.expression import Expression, column, expression
from anabranch.algebra.relation import (
    ROWID,
    WEIGHT,
    Column,
    Consolidate,
    Filter,
    Join,
    JoinKind,
    Negate,
    Output,
    Project,
    Relation,
    Stored,
    UnionAll,
)
from anabranch.spark.identity import identity, needs_identity
from anabranch.spark.quote import quoted
from anabranch.spark.types import type_sql

ROWIDS = "__ab_rowids"


def rowids_by_scan(change: str, stored: str, columns: Sequence[Column], broadcast: bool = True) -> str:
    """Read the change from one view and the table from another: the rowids of the rows that go.

    Rows match first as Spark's `<=>` compares, which is cheap enough for every row of the table; identity decides among
    the few that matched. It does so in the order of a window, or Spark would make one comparison of the two.
    """
    weight, rowid = quoted(WEIGHT), quoted(ROWID)
    hint = "/*+ BROADCAST(g) */ " if broadcast else ""
    partition = ", ".join(identity(f"g.{quoted(each.name)}", each.type) for each in columns)
    same = " AND ".join(_compared(each, exact=True) for each in columns if needs_identity(each.type)) or "TRUE"
    numbered = f"row_number() OVER (PARTITION BY {partition} ORDER BY {same} DESC, s.{rowid})"
    matched = " AND ".join(_compared(each, exact=False) for each in columns)
    return (
        f"WITH g AS (SELECT * FROM {quoted(change)} WHERE {weight} < 0), "
        f"found AS (SELECT {hint}s.{rowid}, g.{weight}, {same} AS same, {numbered} AS number"
        f" FROM {quoted(stored)} AS s JOIN g ON {matched}) "
        f"SELECT {rowid} FROM found WHERE same AND number <= -{weight}"
    )


def located_by_carrying(terms: str, columns: Sequence[Column]) -> str:
    """Sum up the terms of a query, whose column ROWID names the stored row that a negative term is."""
    weight, rowid = quoted(WEIGHT), quoted(ROWID)
    total = f"SUM({weight})"
    outputs: list[str] = []
    keys: list[str] = []
    for each in columns:
        name = quoted(each.name)
        keys.append(identity(name, each.type))
        outputs.append(f"any_value({name}) AS {name}" if needs_identity(each.type) else name)
    taken = f"slice(sort_array(collect_set({rowid})), 1, CAST(greatest(-{total}, 0L) AS INT)) AS {quoted(ROWIDS)}"
    return (
        f"SELECT {', '.join(outputs)}, {total} AS {weight}, {taken} FROM {terms} "
        f"GROUP BY {', '.join(keys)} HAVING {total} <> 0"
    )


def count_deleted(change: str) -> str:
    """How many rows the change in a view deletes."""
    return f"SELECT coalesce(sum(greatest(-{quoted(WEIGHT)}, 0L)), 0L) FROM {quoted(change)}"


def inserted_rows(change: str, columns: Sequence[Column], is_bag: bool = False) -> str:
    """The rows of positive weight, repeated."""
    outputs = ", ".join(quoted(each.name) for each in columns)
    if is_bag:
        return f"SELECT {outputs} FROM {quoted(change)}"
    positive = f"(SELECT * FROM {quoted(change)} WHERE {quoted(WEIGHT)} > 0)"
    return f"SELECT {outputs} FROM {positive} LATERAL VIEW explode(sequence(1L, {quoted(WEIGHT)})) AS `__ab_copy`"


def with_rowids(change: Relation, part: str, is_bag: Callable[[Relation], bool]) -> Relation | None:
    """The terms of `new - old` with a column ROWID, or None if the change has another shape.

    new is any bag; old keeps whole rows of the part's stored table, as a filter or a semi-join does.
    """
    terms: list[Relation] = []
    for sign, term in _terms(change, 1):
        if not is_bag(term):
            return None
        made = _with_null(term, change) if sign > 0 else _with_own(term, change, part)
        if made is None:
            return None
        terms.append(made if sign > 0 else Negate(made))
    return UnionAll(tuple(terms))


def _terms(relation: Relation, sign: int) -> Iterator[tuple[int, Relation]]:
    match relation:
        case Consolidate(child=child):
            yield from _terms(child, sign)
        case Negate(child=child):
            yield from _terms(child, -sign)
        case UnionAll(inputs=inputs):
            for each in inputs:
                yield from _terms(each, sign)
        case _:
            yield sign, relation


def _with_null(term: Relation, change: Relation) -> Relation:
    outputs = [
        Output(wanted.name, _converted(given, wanted))
        for given, wanted in zip(term.columns, change.columns, strict=True)
    ]
    return Project(term, (*outputs, Output(ROWID, expression("CAST(NULL AS bigint)", "bigint"))))


def _with_own(term: Relation, change: Relation, part: str) -> Relation | None:
    carried = _carried(term, part)
    if carried is None:
        return None
    relation, origins = carried
    if origins != change.columns:
        return None
    outputs = [Output(wanted.name, given.value) for given, wanted in zip(term.columns, change.columns, strict=True)]
    return Project(relation, (*outputs, Output(ROWID, column(ROWID, "bigint"))))


def _carried(relation: Relation, part: str) -> tuple[Relation, tuple[Column, ...]] | None:
    """The relation with ROWID as last column, and the stored column that each of its columns is."""
    match relation:
        case Stored() if relation.part == part:
            return Stored(part, (*relation.columns, Column(ROWID, "bigint"))), relation.columns
        case Filter(child=child, predicates=predicates):
            if carried := _carried(child, part):
                return Filter(carried[0], predicates), carried[1]
        case Join(left=left, kind=JoinKind.SEMI | JoinKind.ANTI):
            if carried := _carried(left, part):
                return Join(carried[0], relation.right, relation.kind, relation.on), carried[1]
        case Project(child=child, outputs=outputs) if all(each.value.is_column for each in outputs):
            if carried := _carried(child, part):
                origin = dict(zip(child.names, carried[1], strict=True))
                kept = tuple(origin[name] for each in outputs for name in each.value.columns)
                return Project(carried[0], (*outputs, Output(ROWID, column(ROWID, "bigint")))), kept
    return None


def _converted(given: Column, wanted: Column) -> Expression:
    if given.type == wanted.type:
        return given.value
    return expression("CAST({} AS {})", wanted.type, given.value, type_sql(wanted.type))


def _compared(each: Column, exact: bool) -> str:
    """`s.x <=> g.x`; Spark compares no maps, so those are always compared by identity."""
    left, right = f"s.{quoted(each.name)}", f"g.{quoted(each.name)}"
    if exact or "map<" in each.type:
        left, right = identity(left, each.type), identity(right, each.type)
    return f"{left} <=> {right}"
