"""Z-sets as Arrow tables and back, in all the ways that rows are at hand: as a bag, as terms of a sum, in chunks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from anabranch.algebra.interpret import Environment, ZSet, total
from anabranch.algebra.relation import WEIGHT, Column, Relation
from anabranch.algebra.values import EvaluationError, Row, Value, as_value
from anabranch.delta.parts import Part
from anabranch.delta.state import layout
from anabranch.store.arrow import arrow_schema
from tests.delta.harness import Node, Tally
from tests.plans import random_relation
from tests.tables import random_change, random_tables

Terms = Sequence[tuple[Row, int]]


def random_table(rng: Random, columns: tuple[Column, ...], rows: Mapping[Row, int]) -> pa.Table:
    """These rows; as a bag where they are one, or as terms that sum up to them."""
    if rng.random() < 0.4 and all(weight > 0 for weight in rows.values()):
        copies = [row for row, weight in rows.items() for _ in range(weight)]
        return table_of(columns, rng.sample(copies, len(copies)), rng=rng)
    terms = [*rows.items()] if rng.random() < 0.4 else [*_random_terms(rng, columns, rows)]
    rng.shuffle(terms)
    return table_of(columns, [row for row, _ in terms], [weight for _, weight in terms], rng)


def _random_terms(rng: Random, columns: tuple[Column, ...], rows: Mapping[Row, int]) -> Iterable[tuple[Row, int]]:
    for row, weight in rows.items():
        part = rng.randint(-1, 2)
        yield from ((row, part), (row, weight - part))
    for _ in range(rng.randint(0, 2) if rows else 0):
        cancelled = tuple(rng.choice([*rows])[place] for place in range(len(columns)))
        yield from ((cancelled, 1), (cancelled, -1))


def table_of(
    columns: tuple[Column, ...],
    rows: Sequence[Row],
    weights: Sequence[int] | None = None,
    rng: Random | None = None,
) -> pa.Table:
    """The rows in this order; with `rng` in some chunks, and sometimes with fields that say they hold no NULL."""
    if weights is not None:
        columns = (*columns, Column(WEIGHT, "bigint"))
        rows = [(*row, weight) for row, weight in zip(rows, weights, strict=True)]
    arrays = [[row[place] for row in rows] for place in range(len(columns))]
    schema = arrow_schema(columns)
    if rng is not None and rng.random() < 0.5:
        schema = pa.schema([each.with_nullable(None in values) for each, values in zip(schema, arrays, strict=True)])
    whole = pa.record_batch([pa.array(a, f.type) for a, f in zip(arrays, schema, strict=True)], schema=schema)
    if rng is None:
        return pa.Table.from_batches([whole])
    cuts = sorted(rng.randint(0, len(rows)) for _ in range(rng.randint(0, 2)))
    bounds = zip([0, *cuts], [*cuts, len(rows)], strict=True)
    batches = [whole.slice(start, end - start) for start, end in bounds]
    return pa.Table.from_batches(batches if rows or rng.random() < 0.5 else [], schema)


def terms_of(relation: Relation, table: pa.Table) -> Terms:
    """The rows as they stand, with weights. The table has the relation's columns in their types, and WEIGHT last."""
    weighted = WEIGHT in table.column_names
    schema = arrow_schema((*relation.columns, Column(WEIGHT, "bigint")) if weighted else relation.columns)
    assert [(each.name, each.type) for each in table.schema] == [(each.name, each.type) for each in schema]
    columns: list[list[Value]] = [[as_value(value) for value in each.to_pylist()] for each in table.columns]
    rows = list(zip(*columns, strict=True))
    return [(row[:-1], row[-1]) for row in rows] if weighted else [(row, 1) for row in rows]


def z_set(relation: Relation, table: pa.Table) -> ZSet:
    """What the table means."""
    return total(terms_of(relation, table))


@dataclass(frozen=True)
class Tick:
    """The change of a part of a node: its plan, and what that reads."""

    plan: Relation
    environment: Environment


def random_ticks(rng: Random) -> list[Tick]:
    """The changes of all parts of a random node in one tick; none where its query raises."""
    tables = random_tables(rng)
    kernel = random_relation(rng, surface=False)
    node = _Watched(kernel, layout(kernel))
    try:
        node.fill(tables)
        node.tick(tables, random_change(rng, tables))
    except EvaluationError:
        return []
    return node.ticks


@dataclass
class _Watched(Node):
    """A node that remembers its ticks."""

    ticks: list[Tick] = field(default_factory=list)

    def _change(self, part: Part, moving: frozenset[str], environment: Environment, tally: Tally | None) -> ZSet:
        found = super()._change(part, moving, environment, tally)
        plan = self.plans[part.name, moving]
        if plan is not None:
            self.ticks.append(Tick(plan, environment))
        return found
