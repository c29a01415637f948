"""What needs no expression is worked out here in the driver, over rows that are at hand.

Joins by equal columns, sums, signs, key sets and renamings of a few thousand rows take the driver a millisecond each,
and Spark ten times that to plan. Whatever is computed from a row (conditions, columns, aggregates) is Spark's work, and
so is what would become larger than the limit.

Rows are an Arrow table with the relation's columns by name, and WEIGHT if they are a Z-set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.algebra.expression import Expression, is_negated_column
from anabranch.algebra.relation import (
    WEIGHT,
    Column,
    Consolidate,
    Filter,
    Join,
    JoinKind,
    Negate,
    Project,
    Relation,
    Support,
    UnionAll,
    Weigh,
)
from anabranch.fuse.codes import Numbers, codes_of, is_comparable, is_equated, stacked


@dataclass(frozen=True, slots=True)
class Key:
    """A column of each side of a join whose values must be equal; `null_safe`: NULL equals NULL."""

    left: str
    right: str
    null_safe: bool


def work_out(relation: Relation, inputs: list[pa.Table], limit: int) -> pa.Table | None:
    """The rows of one operator over the rows of its inputs; None if it is Spark's work."""
    if not can_tell_apart(relation.columns):
        return None
    if isinstance(relation, Join):
        left, right = inputs
        return _join(relation, left, right, limit)
    if isinstance(relation, UnionAll) and sum(rows.num_rows for rows in inputs) > limit:
        return None
    rule = _RULES.get(type(relation))
    return None if rule is None else rule(relation, *inputs)


def can_work_out(relation: Relation) -> bool:
    """Whether rows of the relation's inputs are enough, unless there are too many."""
    if not can_tell_apart(relation.columns):
        return False
    match relation:
        case Join():
            return join_keys(relation) is not None
        case UnionAll():
            return _have_equal_types(relation)
        case Support():
            return all(is_equated(each.type) for each in relation.columns)
    return isinstance(relation, Negate | Weigh | Consolidate)


def join_keys(join: Join) -> list[Key] | None:
    """The columns by which rows meet; None if rows must also fulfil something else, or Spark compares otherwise."""
    is_tested = join.kind is not JoinKind.INNER  # the right side, which is then summed up first
    if join.kind is JoinKind.FULL or (is_tested and not can_tell_apart(join.right.columns)):
        return None
    keys: list[Key] = []
    for each in join.on:
        key = _key(join, each)
        if key is None:
            return None
        keys.append(key)
    return keys


def consolidated(rows: pa.Table) -> pa.Table:
    """A Z-set with each row once, those of weight zero left out."""
    columns = [rows.column(name) for name in rows.column_names if name != WEIGHT]
    _, first, place = np.unique(codes_of(columns, rows.num_rows), return_index=True, return_inverse=True)
    totals = np.zeros(len(first), dtype=np.int64)
    np.add.at(totals, place.reshape(-1), _weights(rows))
    kept = totals != 0
    return _weighted(rows.take(pa.array(first[kept])), totals[kept])


def can_tell_apart(columns: Sequence[Column]) -> bool:
    """Whether rows of these columns can be compared here."""
    return bool(columns) and all(is_comparable(each.type) for each in columns)


def _filter(relation: Filter, rows: pa.Table) -> pa.Table | None:
    """Conditions that are columns, or their negation."""
    for each in relation.predicates:
        negative = is_negated_column(each)
        if negative is None and not each.is_column:
            return None
        flags = rows.column(negative or next(iter(each.columns)))
        rows = rows.filter(pc.invert(flags) if negative is not None else flags)
    return rows


def _project(relation: Project, rows: pa.Table) -> pa.Table | None:
    """Columns chosen and renamed. Where others are left out, rows that differed in those only are summed up."""
    if not all(each.value.is_column for each in relation.outputs):
        return None
    arrays = [rows.column(name) for each in relation.outputs for name in each.value.columns]
    if WEIGHT not in rows.column_names:
        return _named(arrays, relation.columns)
    projected = _named([*arrays, rows.column(WEIGHT)], relation.columns)
    is_narrower = {name for each in relation.outputs for name in each.value.columns} < set(relation.child.names)
    return consolidated(projected) if is_narrower else projected


def _union(relation: UnionAll, *inputs: pa.Table) -> pa.Table | None:
    if not _have_equal_types(relation):
        return None
    if any(WEIGHT in rows.column_names for rows in inputs):
        inputs = tuple(rows if WEIGHT in rows.column_names else _weighted(rows, _weights(rows)) for rows in inputs)
    schema = pa.schema([(each.name, each.type) for each in inputs[0].schema])  # not its promises of no NULL
    return pa.concat_tables([rows.rename_columns(schema.names).cast(schema) for rows in inputs])


def _have_equal_types(union: UnionAll) -> bool:
    types = [each.type for each in union.columns]
    return all([each.type for each in term.columns] == types for term in union.inputs)


def _negate(relation: Negate, rows: pa.Table) -> pa.Table:
    return _weighted(rows, -_weights(rows))


def _weigh(relation: Weigh, rows: pa.Table) -> pa.Table:
    return _named([*_without_weight(rows).columns, pa.array(_weights(rows))], relation.columns)


def _support(relation: Support, rows: pa.Table) -> pa.Table | None:
    if not all(is_equated(each.type) for each in relation.columns):
        return None
    rows = _without_weight(rows)
    _, first = np.unique(codes_of(rows.columns, rows.num_rows), return_index=True)
    return rows.take(pa.array(first))


def _consolidate(relation: Consolidate, rows: pa.Table) -> pa.Table:
    return consolidated(rows)


def _join(join: Join, left: pa.Table, right: pa.Table, limit: int) -> pa.Table | None:
    keys = join_keys(join)
    if keys is None:
        return None
    if join.kind is not JoinKind.INNER and WEIGHT in right.column_names:
        right = consolidated(right)
        if (_weights(right) < 0).any():
            return None
    if join.kind in (JoinKind.SEMI, JoinKind.ANTI):
        found = _have_partners(keys, left, right)
        return left.filter(pa.array(found if join.kind is JoinKind.SEMI else ~found))
    ours, theirs = _key_codes(keys, left, right)
    pairs = _pairs(ours, theirs, join.kind is JoinKind.LEFT, limit)
    return None if pairs is None else _paired(join, left, right, *pairs)


def _have_partners(keys: list[Key], left: pa.Table, right: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which rows of the left meet some row of the right. To look values up is cheaper than to number all of them."""
    found = np.full(left.num_rows, right.num_rows > 0)
    for key in keys:
        values = left.column(key.left)
        known = right.column(key.right).unique().cast(values.type)
        found &= np.asarray(pc.is_in(values, known if key.null_safe else known.drop_null()), dtype=bool)
    if len(keys) > 1:
        (places,) = np.nonzero(found)
        ours, theirs = _key_codes(keys, left.take(pa.array(places)), right)
        found[places] = np.isin(ours, theirs) & (ours >= 0)
    return found


def _pairs(ours: Numbers, theirs: Numbers, keep_all: bool, limit: int) -> tuple[Numbers, Numbers] | None:
    """The places of rows that meet, -1 for nobody; None if they are too many."""
    order = np.argsort(theirs, kind="stable")
    ordered = theirs[order]
    starts = np.searchsorted(ordered, ours, side="left")
    counts = np.where(ours < 0, 0, np.searchsorted(ordered, ours, side="right") - starts)
    rows = np.maximum(counts, 1) if keep_all else counts
    total = int(rows.sum())
    if total > limit:
        return None
    mine = np.repeat(np.arange(len(ours)), rows)
    nth = np.arange(total) - np.repeat(np.cumsum(rows) - rows, rows)
    meets = nth < counts[mine]
    partner = np.full(total, -1, dtype=np.int64)
    partner[meets] = order[starts[mine[meets]] + nth[meets]]
    return mine, partner


def _paired(join: Join, left: pa.Table, right: pa.Table, mine: Numbers, partner: Numbers) -> pa.Table:
    places = pa.array(partner, mask=partner < 0) if join.kind is JoinKind.LEFT else pa.array(partner)
    first, second = left.take(pa.array(mine)), right.take(places)
    arrays = [*_without_weight(first).columns, *_without_weight(second).columns]
    if WEIGHT in left.column_names or WEIGHT in right.column_names:
        other = np.where(partner < 0, 1, _weights(right)[partner]) if right.num_rows else np.ones(len(partner), int)
        arrays.append(pa.array(_weights(first) * other, pa.int64()))
    return _named(arrays, join.columns)


def _key(join: Join, condition: Expression) -> Key | None:
    equality = condition.equality
    if equality is None or not (equality.left.is_column and equality.right.is_column):
        return None
    one, other = equality.left, equality.right
    if not one.columns <= set(join.left.names):
        one, other = other, one
    if not (one.columns <= set(join.left.names) and other.columns <= set(join.right.names)):
        return None
    if one.type != other.type or not is_equated(one.type):
        return None
    return Key(next(iter(one.columns)), next(iter(other.columns)), equality.null_safe)


def _key_codes(keys: Iterable[Key], left: pa.Table, right: pa.Table) -> tuple[Numbers, Numbers]:
    """A number for each row's key on either side; -1 where it can meet nobody, being NULL."""
    both = [(stacked(left.column(key.left), right.column(key.right)), key.null_safe) for key in keys]
    codes = codes_of([values for values, _ in both], left.num_rows + right.num_rows)
    for values, null_safe in both:
        if not null_safe and values.null_count:
            codes = np.where(values.is_null().to_numpy(), -1, codes)
    ours, theirs = codes[: left.num_rows], codes[left.num_rows :]
    return ours, theirs


def _weights(rows: pa.Table) -> Numbers:
    """The weight of each row; a row of a bag counts once."""
    if WEIGHT not in rows.column_names:
        return np.ones(rows.num_rows, dtype=np.int64)
    return np.asarray(rows.column(WEIGHT).to_numpy(), dtype=np.int64)


def _weighted(rows: pa.Table, weights: Numbers) -> pa.Table:
    return _without_weight(rows).append_column(WEIGHT, pa.array(weights, pa.int64()))


def _without_weight(rows: pa.Table) -> pa.Table:
    return rows.drop_columns([WEIGHT]) if WEIGHT in rows.column_names else rows


def _named(arrays: list[Any], columns: tuple[Column, ...]) -> pa.Table:
    names = [each.name for each in columns]
    return pa.Table.from_arrays(arrays, names=names if len(arrays) == len(names) else [*names, WEIGHT])


_RULES: dict[type[Relation], Callable[..., pa.Table | None]] = {
    Filter: _filter,
    Project: _project,
    UnionAll: _union,
    Negate: _negate,
    Weigh: _weigh,
    Support: _support,
    Consolidate: _consolidate,
}
