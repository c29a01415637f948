"""Sources as plain Python: few distinct values, NULLs, duplicates, and random changes of several tables at once.

A row is a tuple of Spark SQL literals, so that one text serves to write it into the lake and to show it to the oracle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

Row = tuple[str, ...]
MOST_ROWS = 12
MOST_COPIES = 3


@dataclass(frozen=True)
class Field:
    """A column, and the few values it takes besides NULL."""

    name: str
    type: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Schema:
    """A source's name and columns. `without` lists columns that are never NULL."""

    name: str
    fields: tuple[Field, ...]

    @property
    def definition(self) -> str:
        return f"CREATE TABLE {self.name} ({', '.join(f'{each.name} {each.type}' for each in self.fields)})"

    def select(self, rows: list[Row]) -> str:
        """The rows as a query."""
        casts = ", ".join(f"CAST(col{place} AS {each.type}) AS {each.name}" for place, each in _numbered(self.fields))
        if not rows:
            nulls = ", ".join(f"CAST(NULL AS {each.type}) AS {each.name}" for each in self.fields)
            return f"SELECT {nulls} WHERE false"
        values = ", ".join("(" + ", ".join(row) + ")" for row in rows)
        return f"SELECT /*+ COALESCE(1) */ {casts} FROM VALUES {values}"

    def random_row(self, rng: Random) -> Row:
        return tuple("NULL" if rng.random() < 0.2 else rng.choice(each.values) for each in self.fields)


@dataclass(frozen=True)
class TableChange:
    """Rows that come and rows that go."""

    inserted: list[Row]
    deleted: list[Row]


@dataclass
class Model:
    """The sources' rows, each with its number of copies."""

    schemas: Mapping[str, Schema]
    moved: tuple[int, int] = (1, 4)
    """At least and at most so many rows of a table go in one change, and at most fewer come."""
    rows: dict[str, Counter[Row]] = field(default_factory=dict)

    @classmethod
    def random(cls, schemas: Mapping[str, Schema], rng: Random, moved: tuple[int, int] = (1, 4)) -> Model:
        model = cls(schemas, moved)
        for schema in schemas.values():
            count = rng.choice((0, *[MOST_ROWS // 2] * 3, *[MOST_ROWS] * 4))
            model.rows[schema.name] = Counter(schema.random_row(rng) for _ in range(count))
        return model

    def select(self, table: str) -> str:
        return self.schemas[table].select(list(self.rows[table].elements()))

    def random_change(self, rng: Random) -> dict[str, TableChange]:
        """Inserts, deletes and updates of one to all tables; applied here at once."""
        names = list(self.schemas)
        count = rng.choice((1, 2, *[len(names)] * 4))
        changes = {name: self._random_table_change(name, rng) for name in rng.sample(names, min(count, len(names)))}
        for name, change in changes.items():
            self.rows[name].update(change.inserted)
            self.rows[name].subtract(change.deleted)
            self.rows[name] += Counter()
        return {name: change for name, change in changes.items() if change.inserted or change.deleted}

    def _random_table_change(self, name: str, rng: Random) -> TableChange:
        present = list(self.rows[name].elements())
        schema = self.schemas[name]
        fewest, most = (min(count, len(present)) for count in self.moved)
        going = rng.sample(present, rng.randint(fewest, most))
        if rng.random() < 0.05:
            going = present
        coming: list[Row] = []
        for row in going:
            if rng.random() < 0.5:
                coming.append(_changed(schema, row, rng))
        room = MOST_ROWS - len(present) + len(going) - len(coming)
        for _ in range(rng.randint(0, max(0, min(self.moved[1] - 1, room)))):
            fresh = rng.choice(present) if present and rng.random() < 0.3 else schema.random_row(rng)
            if self.rows[name][fresh] + coming.count(fresh) < MOST_COPIES:
                coming.append(fresh)
        return TableChange(coming, going)


def _changed(schema: Schema, row: Row, rng: Random) -> Row:
    """The row with one other value."""
    place = rng.randrange(len(row))
    return (*row[:place], schema.random_row(rng)[place], *row[place + 1 :])


def _numbered(fields: tuple[Field, ...]) -> list[tuple[int, Field]]:
    return list(enumerate(fields, 1))
