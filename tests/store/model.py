"""A table in plain Python, as it must be in one snapshot of the lake.

Rows are kept by column key, not by name, so that renames, drops and adds of columns mean what they mean in the lake.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow as pa

from anabranch.algebra.relation import Column
from anabranch.store.arrow import arrow_schema

from .tools import canonical

TYPES = {"bigint": "BIGINT", "string": "VARCHAR", "double": "DOUBLE"}
VALUES: dict[str, list[Any]] = {
    "bigint": [None, 0, 1, 2, 3, -(2**63), 2**63 - 1],
    "string": [None, "", "a", "it's", "ä😀", "NULL"],
    "double": [None, 0.0, -0.0, 1.5, float("nan"), float("inf")],
}
Row = tuple[tuple[int, Any], ...]
_ZEROS = {canonical(0.0): 0.0, canonical(-0.0): -0.0}


@dataclass(frozen=True)
class ModelColumn:
    key: int
    name: str
    type: str
    default: Any = None


@dataclass(frozen=True)
class ModelState:
    """The table in one snapshot: its columns, and its rows as (column key, value) pairs."""

    columns: tuple[ModelColumn, ...]
    rows: tuple[Row, ...]

    @property
    def lake_columns(self) -> tuple[Column, ...]:
        return tuple(Column(each.name, each.type) for each in self.columns)

    def shown(self, columns: tuple[ModelColumn, ...]) -> Counter[tuple[Any, ...]]:
        """The rows in these columns; those that a row does not have yet hold their default."""
        counted: Counter[tuple[Any, ...]] = Counter()
        known = {each.key for each in self.columns}
        for row in self.rows:
            values = {key: value for key, value in row if key in known}
            counted[canonical(tuple(values.get(each.key, each.default) for each in columns))] += 1
        return counted

    def with_rows(self, rows: tuple[Row, ...]) -> ModelState:
        return replace(self, rows=self.rows + rows)

    def without(self, chosen: Counter[tuple[Any, ...]]) -> ModelState:
        """One copy fewer of each of these rows."""
        left = Counter(chosen)
        kept = []
        for row in self.rows:
            values = self._values(row)
            if left[values]:
                left[values] -= 1
            else:
                kept.append(row)
        return replace(self, rows=tuple(kept))

    def updated(self, matches: Callable[[Row], bool], key: int, value: Any) -> ModelState:
        return replace(self, rows=tuple(_with(row, {key: value}) if matches(row) else row for row in self.rows))

    def with_signs(self, found: Iterable[tuple[Any, ...]]) -> ModelState:
        """The same rows with the signs of zeros that the lake shows: DuckDB writes files in which they are all one."""
        by_magnitude: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
        for values in found:
            by_magnitude[_magnitudes(values)].append(values)
        rows = []
        for row in self.rows:
            shown = by_magnitude[_magnitudes(self._values(row))]
            zeros = zip(self.columns, shown.pop(), strict=True) if shown else ()
            rows.append(_with(row, {each.key: _ZEROS[value] for each, value in zeros if _is_zero(each, value)}))
        return replace(self, rows=tuple(rows))

    def new_rows(self, random: Random, count: int) -> tuple[Row, ...]:
        return tuple(tuple((each.key, random.choice(VALUES[each.type])) for each in self.columns) for _ in range(count))

    def arrow(self, rows: tuple[Row, ...]) -> pa.Table:
        schema = arrow_schema(self.lake_columns)
        arrays = [
            pa.array([dict(row)[column.key] for row in rows], target.type)
            for column, target in zip(self.columns, schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=schema)

    def insert_sql(self, rows: tuple[Row, ...]) -> str:
        names = ", ".join(f'"{each.name}"' for each in self.columns)
        values = ", ".join("(" + ", ".join(literal(dict(row)[each.key]) for each in self.columns) + ")" for row in rows)
        return f"INSERT INTO t ({names}) VALUES {values}"

    def condition(self, random: Random) -> tuple[str, Callable[[Row], bool]]:
        """Rows one column of which holds one of some values, by byte identity: as SQL, and as a test of a row."""
        column = random.choice(self.columns)
        wanted = random.sample(VALUES[column.type], 2)
        tests = [_same_sql(column, value) for value in wanted]
        bits = {canonical(value) for value in wanted}
        return " OR ".join(tests), lambda row: canonical(dict(row).get(column.key, column.default)) in bits

    def _values(self, row: Row) -> tuple[Any, ...]:
        known = dict(row)
        values: tuple[Any, ...] = canonical(tuple(known.get(each.key, each.default) for each in self.columns))
        return values


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return f"'{value}'::DOUBLE" if isinstance(value, float) else str(value)


def _with(row: Row, values: dict[int, Any]) -> Row:
    return tuple(sorted({**dict(row), **values}.items()))


def _magnitudes(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(canonical(0.0) if each == canonical(-0.0) else each for each in values)


def _is_zero(column: ModelColumn, value: Any) -> bool:
    return column.type == "double" and value in _ZEROS


def _same_sql(column: ModelColumn, value: Any) -> str:
    name = f'"{column.name}"'
    if value is None:
        return f"{name} IS NULL"
    if isinstance(value, float) and value == 0:
        sign = "-" if struct.pack(">d", value)[0] else ""
        return f"({name} = 0 AND {name}::VARCHAR = '{sign}0.0')"
    return f"{name} = {literal(value)}"
