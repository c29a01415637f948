"""Time windows: `window(ts, ...)` and `session_window(ts, gap)` are columns below the grouping.

tumbling   window(ts, d)      one column, rows without a time dropped
sliding    window(ts, d, s)   every row once per window it lies in: start = last start before ts - i * s
session                       a new session where the row before is more than the gap away; sum of such marks
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from anabranch.algebra.expression import Expression, expression
from anabranch.algebra.relation import Column, Filter, Generate, Output, Relation, Window
from anabranch.sql.aggregates import key_name
from anabranch.sql.build import Builder, canonical
from anabranch.sql.context import Context
from anabranch.sql.grouping_sets import grouping_sets
from anabranch.sql.query_syntax import Select
from anabranch.sql.refused import refused
from anabranch.sql.scope import Field, Scope
from anabranch.sql.syntax import Call, Expr, Literal
from anabranch.sql.syntax_walk import below

FUNCTIONS = ("window", "session_window")
MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}


def with_time_windows(
    builder: Builder, relation: Relation, select: Select, items: Sequence[Expr]
) -> tuple[Relation, Builder]:
    """The rows with the query's time window as a column, where it has one; the builder knows it."""
    group = [] if select.group is None else [each for item in select.group.items for one in item.sets for each in one]
    calls = [each for node in [*items, *group] for each in below(node) if _is_time_window(each)]
    if not calls:
        return relation, builder
    forms = {canonical(builder.draft(each)) for each in calls}
    if len(forms) > 1:
        raise refused("SEVERAL_TIME_WINDOWS")
    call = calls[0]
    assert isinstance(call, Call)
    (time,) = builder.context.typed([builder.draft(call.arguments[0])])
    present = expression("{} IS NOT NULL", "boolean", time)
    relation = Filter(relation, (present,))
    if call.function == "window":
        relation, column = _window(builder, relation, call, time)
    else:
        if select.group is not None and grouping_sets(select.group) is not None:
            raise refused("EXPRESSION_NOT_UNDERSTOOD", "session_window with grouping sets")
        others = [each for each in group if canonical(builder.draft(each)) not in forms]
        relation, column = _session(builder, relation, call, time, others)
    for each in calls:
        builder.values[each] = column.value
    scope = builder.scope
    if scope.find((call.function,)) is None:
        scope = Scope((*scope.fields, Field(call.function, column)), scope.parent)
    return relation, replace(builder, scope=scope)


def _is_time_window(node: Expr) -> bool:
    return isinstance(node, Call) and node.over is None and node.function in FUNCTIONS and len(node.arguments) >= 2


def _window(builder: Builder, relation: Relation, call: Call, time: Expression) -> tuple[Relation, Column]:
    context = builder.context
    duration = _duration(context, call.arguments[1])
    slide = _duration(context, call.arguments[2]) if len(call.arguments) > 2 else duration
    if slide == duration:
        relation, (column,) = context.extended(relation, [("window", builder.draft(call))])
        return relation, column
    step, length = (_text(context, each) for each in (call.arguments[2], call.arguments[1]))
    offset = f", {_text(context, call.arguments[3])}" if len(call.arguments) > 3 else ""
    last = expression(f"window({{}}, {step}, {step}{offset}).start", "", time)
    relation, (start,) = context.extended(relation, [("start", last)])
    count = -(-duration // slide)
    begin = f"{{}} - i * INTERVAL {step}"
    windows = expression(
        f"explode(transform(sequence(0, {count - 1}), "
        f"i -> named_struct('start', {begin}, 'end', {begin} + INTERVAL {length})))",
        "table",
        start.value,
        start.value,
    )
    column = context.fresh("window", f"struct<start:{start.type},end:{start.type}>")
    relation = Generate(relation, windows, False, (column,))
    inside = expression("{}.end > {}", "boolean", column.value, time)
    return Filter(relation, (inside,)), column


def _text(context: Context, node: Expr) -> str:
    return context.source.slice(node.start, node.end)


def _duration(context: Context, node: Expr) -> int:
    """Microseconds of `'1 hour 30 minutes'`."""
    value = node.value if isinstance(node, Literal) else None
    if not isinstance(value, str):
        raise refused("EXPRESSION_NOT_UNDERSTOOD", "window(...) with a duration that is no string")
    pieces = re.findall(r"(\d+)\s*([a-z]+?)s?(?=\s|\d|$)", value.lower().replace("interval", ""))
    if not pieces or any(unit not in MICROSECONDS for _, unit in pieces):
        raise refused("EXPRESSION_NOT_UNDERSTOOD", f"window(...) with the duration {value!r}")
    return sum(int(count) * MICROSECONDS[unit] for count, unit in pieces)


def _session(
    builder: Builder, relation: Relation, call: Call, time: Expression, others: Sequence[Expr]
) -> tuple[Relation, Column]:
    context = builder.context
    gap = call.arguments[1]
    if not isinstance(gap, Literal) or not isinstance(gap.value, str):
        raise refused("SESSION_GAP_VARIES", place=context.source.place(call.start))
    length = f"INTERVAL {_text(context, gap)}"
    wanted = [("time", time), *((key_name(each), builder.draft(each)) for each in others)]
    relation, (moment, *keys) = context.extended(relation, wanted)
    partition = tuple(dict.fromkeys(each.name for each in keys))
    by = [Column(name, relation.column(name).type).value for name in partition]
    over = f"OVER ({_partition(len(by))}ORDER BY {{}})"
    before = expression(f"lag({{}}) {over}", moment.type, moment.value, *by, moment.value)
    relation, previous = _windowed(context, relation, partition, "previous", before)
    starts = expression(f"CASE WHEN {{}} <= {{}} + {length} THEN 0 ELSE 1 END", "int", moment.value, previous.value)
    relation, (mark,) = context.extended(relation, [("starts", starts)])
    counted = expression(f"sum({{}}) {over}", "bigint", mark.value, *by, moment.value)
    relation, session = _windowed(context, relation, partition, "session", counted)
    whole = f"OVER ({_partition(len(by) + 1)})"
    value = expression(
        f"named_struct('start', min({{}}) {whole}, 'end', max({{}}) {whole} + {length})",
        "",
        *(moment.value, *by, session.value),
        *(moment.value, *by, session.value),
    )
    (typed,) = context.typed([value])
    return _windowed(context, relation, (*partition, session.name), "session_window", typed)


def _partition(count: int) -> str:
    return f"PARTITION BY {', '.join(['{}'] * count)} " if count else ""


def _windowed(
    context: Context, relation: Relation, partition: tuple[str, ...], name: str, value: Expression
) -> tuple[Relation, Column]:
    column = context.fresh(name, value.type)
    return Window(relation, partition, (Output(column.name, value),)), column
