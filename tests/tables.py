"""Random small tables and changes, seeded: few distinct values, NULLs and duplicates, so that things collide."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from anabranch.algebra.interpret import Environment, Table, total
from anabranch.algebra.relation import Column

BIGINT, STRING, BOOLEAN = "bigint", "string", "boolean"

TABLES: dict[str, tuple[Column, ...]] = {
    "t": (Column("a", BIGINT), Column("b", BIGINT), Column("s", STRING)),
    "u": (Column("a", BIGINT), Column("c", BIGINT)),
    "v": (Column("k", BIGINT), Column("s", STRING), Column("flag", BOOLEAN)),
}

VALUES = {BIGINT: (0, 1, 2, None), STRING: ("x", "y", None), BOOLEAN: (True, False, None)}


def random_tables(rng: Random, rows: int = 6, copies: int = 2) -> dict[str, Table]:
    """Each table with up to `rows` different rows, each up to `copies` times."""
    return {name: _random_table(rng, columns, rows, copies) for name, columns in TABLES.items()}


def _random_table(rng: Random, columns: tuple[Column, ...], rows: int, copies: int) -> Table:
    made = (
        (_random_row(rng, columns), rng.randint(1, copies))
        for _ in range(rng.choice((0, *range(1, rows + 1), *range(1, rows + 1))))
    )
    return Table(tuple(each.name for each in columns), dict(made))


def _random_row(rng: Random, columns: tuple[Column, ...]) -> tuple[object, ...]:
    return tuple(rng.choice(VALUES[each.type]) for each in columns)


def random_change(rng: Random, tables: Mapping[str, Table], tables_changed: int = 3) -> dict[str, Table]:
    """Per table a Z-set that takes away only what is there; a table that does not change has an empty one."""
    changed = set(rng.sample(sorted(tables), rng.randint(1, min(tables_changed, len(tables)))))
    return {
        name: Table(table.names, _random_z_set(rng, name, table) if name in changed else {})
        for name, table in tables.items()
    }


def _random_z_set(rng: Random, name: str, table: Table) -> dict[tuple[object, ...], int]:
    inserted = [(_random_row(rng, TABLES[name]), rng.randint(1, 2)) for _ in range(rng.randint(0, 2))]
    present = list(table.rows.items())
    deleted = [
        (row, -rng.randint(1, weight)) for row, weight in rng.sample(present, rng.randint(0, min(2, len(present))))
    ]
    return total([*inserted, *deleted])


def plus(tables: Mapping[str, Table], change: Mapping[str, Table]) -> dict[str, Table]:
    """The tables after the change."""
    return {
        name: Table(table.names, total([*table.rows.items(), *change[name].rows.items()]))
        for name, table in tables.items()
    }


def tick(
    tables: Mapping[str, Table], change: Mapping[str, Table], stored: Mapping[str, Table] | None = None
) -> Environment:
    """The environment of a delta plan: Before, After and Change of every table, and the stored parts."""
    return Environment(tables=tables, before=tables, after=plus(tables, change), change=change, stored=stored or {})
