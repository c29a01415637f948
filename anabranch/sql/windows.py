"""Window functions: partition and order are columns below, the call is a column above.

sum(x + 1) OVER (PARTITION BY upper(a) ORDER BY b)
= Window(sum(x + 1) OVER (PARTITION BY p ORDER BY b ASC NULLS FIRST); Project(..., upper(a) AS p))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anabranch.algebra.expression import Expression, Part, expression
from anabranch.algebra.relation import Column, Output, Relation, Window
from anabranch.sql.aggregates import key_name
from anabranch.sql.build import Builder, Key, canonical, joined
from anabranch.sql.functions import APPROXIMATE, FIRST_OR_LAST, JOINING, NEEDS_TOTAL_ORDER
from anabranch.sql.refused import refused
from anabranch.sql.settle import direction, ignores_nulls, joined_in_order, sort_value
from anabranch.sql.subqueries import apply_subqueries
from anabranch.sql.syntax import Call, Expr, WindowSpec
from anabranch.sql.syntax_walk import windows_in

TOTAL_NOTE = "{}: rows that ORDER BY leaves tied are ordered by all columns of the input"
PLACE_NOTE = "{}: of the rows of a frame, those that ORDER BY leaves tied are ordered by all columns of the input"


@dataclass(frozen=True)
class _Planned:
    """A window call with its partition and order as columns."""

    call: Call
    spec: WindowSpec
    partition: tuple[Column, ...]
    order: tuple[Column, ...]


def window_rows(
    builder: Builder, relation: Relation, nodes: Sequence[Expr], named: Mapping[str, WindowSpec]
) -> Relation:
    """Add a column for every window call in the nodes; the builder knows them from now on."""
    calls = list(dict.fromkeys(call for node in nodes for call in windows_in(node) if call not in builder.values))
    if not calls:
        return relation
    relation = apply_subqueries(builder, relation, calls)
    columns = relation.columns
    planned: list[_Planned] = []
    for call in calls:
        spec = _spec(call, named)
        wanted = [*spec.partition, *(each.value for each in spec.order)]
        drafts = [builder.draft(each) for each in wanted]
        relation, found = builder.context.extended(relation, zip(map(key_name, wanted), drafts, strict=True))
        width = len(spec.partition)
        planned.append(_Planned(call, spec, tuple(found[:width]), tuple(found[width:])))
    by_partition: dict[tuple[str, ...], list[_Planned]] = {}
    for each in planned:
        by_partition.setdefault(tuple(dict.fromkeys(c.name for c in each.partition)), []).append(each)
    for partition, group in by_partition.items():
        relation = _window(builder, relation, partition, group, columns)
        settled = (builder.values[each.call].columns for each in group if _needs_total_order(each))
        columns += tuple(relation.column(name) for name in dict.fromkeys(name for (name,) in settled))
    return relation


def _spec(call: Call, named: Mapping[str, WindowSpec]) -> WindowSpec:
    spec = call.over
    seen: set[str] = set()
    while spec is not None and spec.name is not None:
        name = spec.name.lower()
        if name in seen or name not in named:
            raise refused("SYNTAX_NOT_UNDERSTOOD", f"window {spec.name}")
        seen.add(name)
        spec = named[name]
    assert spec is not None
    return spec


def _window(
    builder: Builder,
    relation: Relation,
    partition: tuple[str, ...],
    planned: Sequence[_Planned],
    columns: Sequence[Column],
) -> Relation:
    relation, places = _with_places(builder, relation, partition, planned, columns)
    drafts = [_call(builder, each, columns, places.get(each.call)) for each in planned]
    typed = builder.context.typed(drafts)
    outputs: dict[Key, Output] = {}
    for each, value in zip(planned, typed, strict=True):
        form = canonical(value)
        if form not in outputs:
            outputs[form] = Output(builder.context.fresh(each.call.function, value.type).name, value)
        builder.values[each.call] = outputs[form].column.value
    return Window(relation, partition, tuple(outputs.values()))


def _with_places(
    builder: Builder,
    relation: Relation,
    partition: tuple[str, ...],
    planned: Sequence[_Planned],
    columns: Sequence[Column],
) -> tuple[Relation, dict[Call, Column]]:
    """A row's settled place in its partition, for calls that pick a row out of a frame of peers."""
    places: dict[Call, Column] = {}
    outputs: dict[Key, Output] = {}
    for each in planned:
        if not _picks_from_peers(each):
            continue
        builder.context.note(PLACE_NOTE.format(each.call.function))
        parts: list[Part] = ["row_number() OVER (", *_order_text(each, columns, total=True), ")"]
        value = Expression(joined(parts), "int")
        form = canonical(value)
        if form not in outputs:
            outputs[form] = Output(builder.context.fresh("place", "int").name, value)
        places[each.call] = outputs[form].column
    if outputs:
        relation = Window(relation, partition, tuple(outputs.values()))
    return relation, places


def _picks_from_peers(planned: _Planned) -> bool:
    rows = planned.spec.frame is not None and planned.spec.frame.rows
    picking = planned.call.function in (*FIRST_OR_LAST, "nth_value", "collect_list", "array_agg", *JOINING)
    return picking and not rows and not planned.call.within


def _needs_total_order(planned: _Planned) -> bool:
    """Whether rows that ORDER BY leaves tied get different values; copies of a row too, which later windows order by.

    Which copy is the first in one window and in another has to be settled once, or their values pair up by chance.
    """
    rows = planned.spec.frame is not None and planned.spec.frame.rows
    return rows or (bool(planned.spec.order) and planned.call.function in NEEDS_TOTAL_ORDER)


def _order_text(planned: _Planned, columns: Sequence[Column], total: bool) -> list[Part]:
    """`PARTITION BY p ORDER BY o ASC NULLS FIRST`, and all columns where the order must be total."""
    parts: list[Part] = []
    if planned.partition:
        parts.append("PARTITION BY ")
        for each in planned.partition:
            parts += [*each.value.parts, ", "]
        parts[-1] = " "
    keys: list[list[Part]] = [
        [*column.value.parts, direction(item)] for column, item in zip(planned.order, planned.spec.order, strict=True)
    ]
    if total:
        ordered = {each.name for each in planned.order} | {each.name for each in planned.partition}
        keys += [[*sort_value(each).parts] for each in columns if each.name not in ordered]
    if keys:
        parts.append("ORDER BY ")
        for key in keys:
            parts += [*key, ", "]
        parts.pop()
    return parts


def _call(builder: Builder, planned: _Planned, columns: Sequence[Column], place: Column | None) -> Expression:
    call, spec = planned.call, planned.spec
    if call.function in APPROXIMATE:
        builder.context.refuse("APPROXIMATE_AGGREGATE", call.function, call.start)
    rows = spec.frame is not None and spec.frame.rows
    total = _needs_total_order(planned)
    if total:
        builder.context.note(TOTAL_NOTE.format(call.function))
    over: list[Part] = [" OVER (", *_order_text(planned, columns, total)]
    if spec.frame is not None:
        bounds = builder.context.source.slice(spec.frame.start, spec.frame.end)
        over.append(f" {'ROWS' if rows else 'RANGE'} {bounds}")
    over.append(")")
    if call.within and call.function in JOINING:
        return Expression(joined([*joined_in_order(builder, call).parts, *over]), "")
    if place is not None:
        return _placed(builder, call, place, over)
    head = builder.span(call, call.start, call.head)
    value = Expression(joined([*head, *over]), "")
    if call.function == "collect_set":
        builder.context.note("collect_set: the elements are sorted")
        return expression("sort_array({})", "", value)
    if call.function in ("max_by", "min_by"):
        return _by_both(builder, call, over)
    return value


def _placed(builder: Builder, call: Call, place: Column, over: list[Part]) -> Expression:
    """The call over a RANGE frame, its rows told apart by their place."""
    value = builder.draft(call.arguments[0])
    by = place.value
    if call.function in FIRST_OR_LAST:
        if ignores_nulls(builder, call):
            by = expression("CASE WHEN {} IS NOT NULL THEN {} END", "", value, by)
        picked = expression(f"{FIRST_OR_LAST[call.function]}({{}}, {{}})", "", value, by)
        return Expression(joined([*picked.parts, *_filter(builder, call), *over]), "")
    pair = expression("struct({} AS p, {} AS v)", "", by, value)
    if call.function != "nth_value" or call.ignore_nulls:
        pair = expression("CASE WHEN {} IS NOT NULL THEN {} END", "", value, pair)
    collected = Expression(joined(["collect_list(", *pair.parts, ")", *_filter(builder, call), *over]), "")
    elements = expression("transform(sort_array({}), x -> x.v)", "", collected)
    if call.function == "nth_value":
        return expression("get({}, CAST({} AS INT) - 1)", "", elements, builder.draft(call.arguments[1]))
    if call.function not in JOINING:
        return elements
    separator = builder.draft(call.arguments[1]) if len(call.arguments) > 1 else Expression(("''",), "string")
    return expression("CASE WHEN size({}) > 0 THEN array_join({}, {}) END", "", elements, elements, separator)


def _filter(builder: Builder, call: Call) -> list[Part]:
    if call.filter is None:
        return []
    return [" FILTER (WHERE ", *builder.draft(call.filter).parts, ")"]


def _by_both(builder: Builder, call: Call, over: list[Part]) -> Expression:
    """max_by and min_by: ties go to the greatest and the least value."""
    value, by = (builder.draft(each) for each in call.arguments[:2])
    order = expression("CASE WHEN {} IS NOT NULL THEN struct({}, {}) END", "", by, by, value)
    picked = expression(f"{call.function}({{}}, {{}})", "", value, order)
    builder.context.note(f"{call.function}: ties are settled by the value")
    return Expression(joined([*picked.parts, *_filter(builder, call), *over]), "")
