"""Window functions in plain Python: from a parsed call to one value per row of a list of rows.

Rows that the ORDER BY of the window leaves tied keep the order in which they were given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from anabranch.algebra.aggregates import compile_aggregate
from anabranch.algebra.scalars import HOLE_PREFIX, Function, compile_scalar
from anabranch.algebra.values import Double, Row, Value, group_key, sort_key

WindowFunction = Callable[[list[Row]], list[Value]]


def compile_window(node: exp.Expr, holes: int) -> WindowFunction:
    """The expression as a function of all rows; `holes` is the width of a row. Calls may stand inside scalars.

    Each OVER call is computed first and becomes one more hole of the scalar expression around it.
    """
    calls: list[WindowFunction] = []

    def name_call(each: exp.Expr) -> exp.Expr:
        if not isinstance(each, exp.Window):
            return each
        calls.append(_compile_call(each))
        return exp.column(f"{HOLE_PREFIX}{holes + len(calls) - 1}")

    around = compile_scalar(node.transform(name_call))

    def evaluate(rows: list[Row]) -> list[Value]:
        found = [call(rows) for call in calls]
        return [around(row + tuple(values[i] for values in found)) for i, row in enumerate(rows)]

    return evaluate


@dataclass
class _Partition:
    """The rows of one partition in order, the values they are sorted by, and the sort keys: equal keys are peers."""

    rows: list[Row]
    keys: list[tuple[Any, ...]]
    values: list[Row]

    def peers(self, position: int) -> tuple[int, int]:
        """The first position with the same key, and the position after the last."""
        start = end = position
        while start > 0 and self.keys[start - 1] == self.keys[position]:
            start -= 1
        while end < len(self.keys) and self.keys[end] == self.keys[position]:
            end += 1
        return start, end


def _compile_call(node: exp.Expr) -> WindowFunction:
    partition_by = [compile_scalar(each) for each in node.args.get("partition_by") or []]
    order = node.args.get("order")
    sort = [_compile_sort(each) for each in order.expressions] if order is not None else []
    function = _compile_function(node, bool(sort))

    def evaluate(rows: list[Row]) -> list[Value]:
        groups: dict[Row, list[int]] = {}
        for position, row in enumerate(rows):
            groups.setdefault(group_key(tuple(each(row) for each in partition_by)), []).append(position)
        results: list[Value] = [None] * len(rows)
        for positions in groups.values():
            values = {each: tuple(value(rows[each]) for value, _ in sort) for each in positions}
            keys = {
                each: tuple(key(item) for item, (_, key) in zip(values[each], sort, strict=True)) for each in positions
            }
            positions.sort(key=keys.__getitem__)
            partition = _Partition(
                [rows[each] for each in positions],
                [keys[each] for each in positions],
                [values[each] for each in positions],
            )
            for place, position in enumerate(positions):
                results[position] = function(partition, place)
        return results

    return evaluate


def _compile_sort(node: exp.Expr) -> tuple[Function, Callable[[Value], tuple[Any, ...]]]:
    descending = bool(node.args.get("desc"))
    nulls_first = bool(node.args.get("nulls_first"))
    return compile_scalar(node.this), lambda value: sort_key(value, descending, nulls_first)


InPartition = Callable[[_Partition, int], Value]


def _compile_function(window: exp.Expr, ordered: bool) -> InPartition:
    call = window.this
    ignore_nulls = isinstance(call, exp.IgnoreNulls)
    if isinstance(call, exp.IgnoreNulls | exp.RespectNulls):
        call = call.this
    if type(call) in _RANKINGS:
        return _RANKINGS[type(call)]
    if isinstance(call, exp.Ntile):
        return _ntile(int(call.this.name))
    if isinstance(call, exp.Lag | exp.Lead):
        return _shifted(call)
    frame = _compile_frame(window, ordered)
    if isinstance(call, exp.First | exp.FirstValue | exp.Last | exp.LastValue | exp.NthValue):
        return _nth(call, frame, ignore_nulls)
    aggregate = compile_aggregate(call)

    def over_frame(partition: _Partition, position: int) -> Value:
        start, end = frame(partition, position)
        return aggregate([(row, 1) for row in partition.rows[start : max(start, end)]])

    return over_frame


def _rank(partition: _Partition, position: int) -> Value:
    return partition.peers(position)[0] + 1


def _dense_rank(partition: _Partition, position: int) -> Value:
    changes = (partition.keys[each] != partition.keys[each - 1] for each in range(1, position + 1))
    return 1 + sum(changes)


def _percent_rank(partition: _Partition, position: int) -> Value:
    return Double((_rank(partition, position) - 1) / max(len(partition.rows) - 1, 1))


def _cumulative(partition: _Partition, position: int) -> Value:
    return Double(partition.peers(position)[1] / len(partition.rows))


_RANKINGS: dict[type[exp.Expr], InPartition] = {
    exp.RowNumber: lambda partition, position: position + 1,
    exp.Rank: _rank,
    exp.DenseRank: _dense_rank,
    exp.PercentRank: _percent_rank,
    exp.CumeDist: _cumulative,
}


def _ntile(buckets: int) -> InPartition:
    def bucket(partition: _Partition, position: int) -> Value:
        size, larger = divmod(len(partition.rows), buckets)
        if position < larger * (size + 1):
            return position // (size + 1) + 1
        return larger + (position - larger * (size + 1)) // max(size, 1) + 1

    return bucket


def _shifted(call: exp.Expr) -> InPartition:
    value = compile_scalar(call.this)
    steps = int(call.args["offset"].name) if call.args.get("offset") is not None else 1
    default = compile_scalar(call.args["default"]) if call.args.get("default") is not None else None
    step = steps if isinstance(call, exp.Lead) else -steps

    def shifted(partition: _Partition, position: int) -> Value:
        if 0 <= position + step < len(partition.rows):
            return value(partition.rows[position + step])
        return None if default is None else default(partition.rows[position])

    return shifted


Frame = Callable[[_Partition, int], tuple[int, int]]


def _nth(call: exp.Expr, frame: Frame, ignore_nulls: bool) -> InPartition:
    value = compile_scalar(call.this)
    place = int(call.args["offset"].name) - 1 if isinstance(call, exp.NthValue) else 0
    if isinstance(call, exp.Last | exp.LastValue):
        place = -1

    def pick(partition: _Partition, position: int) -> Value:
        start, end = frame(partition, position)
        values = [value(row) for row in partition.rows[start : max(start, end)]]
        if ignore_nulls:
            values = [each for each in values if each is not None]
        return values[place] if -len(values) <= place < len(values) else None

    return pick


def _compile_frame(window: exp.Expr, ordered: bool) -> Frame:
    """Positions (start, end) of the frame, end excluded. Default: up to the peers if ordered, else the partition."""
    spec = window.args.get("spec")
    if spec is None:
        return (lambda partition, position: (0, partition.peers(position)[1])) if ordered else _whole_partition
    start_side, end_side = spec.args.get("start_side"), spec.args.get("end_side")
    bound = _row_bound if spec.args["kind"].upper() == "ROWS" else _range_bound(window)
    start, end = spec.args["start"], spec.args.get("end") or "CURRENT ROW"

    def frame(partition: _Partition, position: int) -> tuple[int, int]:
        first = 0 if start == "UNBOUNDED" else bound(partition, position, _offset(start, start_side), True)
        last = len(partition.rows) if end == "UNBOUNDED" else bound(partition, position, _offset(end, end_side), False)
        return max(first, 0), max(min(last, len(partition.rows)), 0)

    return frame


def _whole_partition(partition: _Partition, position: int) -> tuple[int, int]:
    return 0, len(partition.rows)


def _offset(bound: exp.Expr | str, side: str | None) -> int | None:
    """How far from the current row: negative for PRECEDING, None for CURRENT ROW."""
    if bound == "CURRENT ROW":
        return None
    distance = int(bound.name)  # type: ignore[union-attr]
    return -distance if side == "PRECEDING" else distance


def _row_bound(partition: _Partition, position: int, offset: int | None, is_start: bool) -> int:
    return position + (offset or 0) + (0 if is_start else 1)


def _range_bound(window: exp.Expr) -> Callable[[_Partition, int, int | None, bool], int]:
    order = window.args.get("order")
    sign = -1 if order is not None and order.expressions[0].args.get("desc") else 1

    def bound(partition: _Partition, position: int, offset: int | None, is_start: bool) -> int:
        current = partition.values[position][0] if partition.values[position] else None
        if offset is None or current is None:
            return partition.peers(position)[0 if is_start else 1]
        distances = [None if row[0] is None else (row[0] - current) * sign for row in partition.values]
        inside = [
            place
            for place, distance in enumerate(distances)
            if distance is not None and (distance >= offset if is_start else distance <= offset)
        ]
        if is_start:
            return min(inside, default=len(distances))
        return max(inside, default=-1) + 1

    return bound
