"""Run relations on Spark and compare with the interpreter, many in one job."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from anabranch.algebra.interpret import Environment, Table, ZSet, total
from anabranch.algebra.relation import After, Before, Change, Column, Relation, Scan, Stored
from anabranch.algebra.values import Double
from anabranch.algebra.walk import leaves
from anabranch.spark.quote import quoted
from anabranch.spark.render import Bound, render
from anabranch.spark.session import private_session
from anabranch.spark.types import parse_type, type_sql
from anabranch.store.protocol import WEIGHT

_numbers = itertools.count()


class Views:
    """Temporary views with the rows that an environment gives to leaves."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.made: list[str] = []

    def bind(self, relations: Sequence[Relation], environment: Environment) -> dict[Relation, Bound]:
        return {
            leaf: self._bind(leaf, environment)
            for relation in relations
            for leaf in leaves(relation)
            if isinstance(leaf, Scan | Before | After | Change | Stored)
        }

    def _bind(self, leaf: Any, environment: Environment) -> Bound:
        weighted = isinstance(leaf, Change)
        table = _table(leaf, environment)
        name = f"view_{next(_numbers)}"
        self.spark.sql(f"CREATE TEMPORARY VIEW {name} AS {_select(leaf.columns, table, weighted)}")
        self.made.append(name)
        return Bound(name, weighted)

    def drop(self) -> None:
        for name in self.made:
            self.spark.catalog.dropTempView(name)


def spark_rows(spark: SparkSession, relations: Sequence[Relation], environment: Environment) -> list[ZSet]:
    """The Z-set of each relation, worked out by Spark in one job.

    No code is generated: compiling it would take most of the time for so few rows.
    """
    spark = private_session(
        spark, {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    )
    views = Views(spark)
    names = views.bind(relations, environment)
    texts = []
    for number, relation in enumerate(relations):
        rendered = render(relation, names)
        weight = quoted(WEIGHT) if rendered.weighted else "1L"
        columns = ", ".join(quoted(each.name) for each in rendered.columns)
        row = f"to_json(struct(array(struct({columns}))), map('ignoreNullFields', 'false'))" if columns else "'{}'"
        texts.append(f"SELECT {number} AS number, {row} AS row, {weight} AS weight FROM ({rendered.sql})")
    try:
        found = spark.sql(" UNION ALL ".join(texts)).collect()
    finally:
        views.drop()
    terms: list[list[tuple[Any, int]]] = [[] for _ in relations]
    for number, row, weight in found:
        terms[number].append((_row(row, relations[number].columns), weight))
    return [total(each) for each in terms]


def _row(text: str, columns: Sequence[Column]) -> tuple[Any, ...]:
    if not columns:
        return ()
    ((fields,),) = (each for each in json.loads(text).values())
    return tuple(_value(fields[each.name], each.type) for each in columns)


def _value(value: Any, data_type: str) -> Any:
    if value is None:
        return None
    if data_type in ("double", "float"):
        return Double(value)
    if data_type.startswith("array<"):
        element = parse_type(data_type).elementType.simpleString()  # type: ignore[attr-defined]
        return tuple(_value(each, element) for each in value)
    return value


def _table(leaf: Any, environment: Environment) -> Table:
    tables: Mapping[type, Mapping[str, Table]] = {
        Scan: environment.tables,
        Before: environment.before,
        After: environment.after,
        Change: environment.change,
        Stored: environment.stored,
    }
    return tables[type(leaf)][leaf.part if isinstance(leaf, Stored) else leaf.table]


def _select(columns: Sequence[Column], table: Table, weighted: bool) -> str:
    places = [table.names.index(each.name) for each in columns]
    rows = []
    for row, weight in table.rows.items():
        cells = [
            f"CAST({literal(row[place])} AS {type_sql(each.type)})" for place, each in zip(places, columns, strict=True)
        ]
        rows += [f"({', '.join([*cells, f'{weight}L'])})"] if weighted else [f"({', '.join(cells)})"] * weight
    names = [quoted(each.name) for each in columns] + ([quoted(WEIGHT)] if weighted else [])
    types = [type_sql(each.type) for each in columns] + (["bigint"] if weighted else [])
    if not rows:
        nulls = ", ".join(f"CAST(NULL AS {each}) AS {name}" for name, each in zip(names, types, strict=True))
        return f"SELECT {nulls} WHERE FALSE"
    return f"SELECT * FROM VALUES {', '.join(rows)} AS t({', '.join(names)})"


def literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case float():
            return f"double('{float(value)!r}')"
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case list() | tuple():
            return f"array({', '.join(map(literal, value))})"
    return str(value)
