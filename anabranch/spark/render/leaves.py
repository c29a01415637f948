"""Rows that come from no table: constants, table functions, nothing."""

from __future__ import annotations

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation import Column, Empty, Relation, TableFunction, Values
from anabranch.spark.quote import quoted
from anabranch.spark.render.block import NOTHING, Query, Shape, named
from anabranch.spark.render.scope import Scope
from anabranch.spark.types import type_sql


def render_unbound(relation: Relation, scope: Scope) -> Shape:
    """Tables are read through views; one without a view is a mistake of the caller."""
    raise ValueError(f"no view is bound to {type(relation).__name__}({', '.join(relation.names)})")


def render_empty(relation: Empty, scope: Scope) -> Shape:
    return _empty(relation.columns)


def render_values(relation: Values, scope: Scope) -> Shape:
    """VALUES takes constants only, so rows of functions such as rand() are written as SELECTs."""
    if not relation.rows:
        return _empty(relation.columns)
    rows = [
        [
            converted(_constant(value), value.type, column.type)
            for value, column in zip(row, relation.columns, strict=True)
        ]
        for row in relation.rows
    ]
    if relation.columns and len(rows) > 1 and all(value.deterministic for row in relation.rows for value in row):
        alias = scope.alias()
        names = ", ".join(quoted(name) for name in relation.names)
        listed = ", ".join(f"({', '.join(row)})" for row in rows)
        cells = ", ".join(f"{alias}.{quoted(name)}" for name in relation.names)
        return Query(f"SELECT {cells} FROM VALUES {listed} AS {alias}({names})")
    return Query(" UNION ALL ".join(_select(row, relation.names) for row in rows))


def render_table_function(relation: TableFunction, scope: Scope) -> Shape:
    alias = scope.alias()
    names = ", ".join(quoted(name) for name in relation.names)
    cells = ", ".join(f"{alias}.{quoted(name)}" for name in relation.names)
    return Query(f"SELECT {cells} FROM {_constant(relation.call)} AS {alias}({names})")


def converted(text: str, given: str, wanted: str) -> str:
    """The text as a value of the wanted type."""
    return text if given == wanted else f"CAST({text} AS {type_sql(wanted)})"


def _empty(columns: tuple[Column, ...]) -> Query:
    nulls = [f"CAST(NULL AS {type_sql(each.type)})" for each in columns]
    return Query(_select(nulls, tuple(each.name for each in columns)) + " WHERE FALSE")


def _select(row: list[str], names: tuple[str, ...]) -> str:
    return "SELECT " + (", ".join(map(named, row, names)) or f"NULL AS {NOTHING}")


def _constant(value: Expression) -> str:
    return value.text(lambda hole: quoted(hole.name))
