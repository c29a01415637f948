"""Small tables with few distinct values, NULLs and duplicates, of many types."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from anabranch.algebra.relation import Column
from anabranch.sql.translate import TableBinding, ViewBinding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMAS = {
    "t": "a INT, b STRING, c DECIMAL(10,2), d DOUBLE, ts TIMESTAMP, dt DATE",
    "u": "a INT, b STRING, e BIGINT",
    "v": "id BIGINT, xs ARRAY<INT>, m MAP<STRING,INT>, s STRUCT<p:INT,q:STRUCT<r:STRING>>, a INT",
    "w": "k STRING, x INT, y INT, z INT",
    "edges": "src INT, dst INT",
    "emp": "id INT, name STRING, dept STRING, salary INT, manager INT, hired DATE",
}


def create_tables(spark: SparkSession) -> dict[str, TableBinding | ViewBinding]:
    """Temporary views of random rows, and what the translator is told of them."""
    bindings: dict[str, TableBinding | ViewBinding] = {}
    for name, rows in _rows(random.Random(7)).items():
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS SELECT * FROM VALUES {', '.join(rows)}")
        fields = SCHEMAS[name].split(", ") if name != "v" else _split_fields(SCHEMAS[name])
        casts = ", ".join(
            f"CAST(col{i + 1} AS {f.split(' ', 1)[1]}) AS {f.split(' ', 1)[0]}" for i, f in enumerate(fields)
        )
        frame = spark.sql(f"SELECT {casts} FROM VALUES {', '.join(rows)}")
        frame.createOrReplaceTempView(name)
        columns = tuple(Column(each.name, each.dataType.simpleString()) for each in frame.schema.fields)
        bindings[name] = TableBinding(name, columns)
    view = "WITH x AS (SELECT a, count(*) AS n FROM t GROUP BY a) SELECT a AS k, n FROM x WHERE n > 1"
    spark.sql(view).createOrReplaceTempView("counted")
    bindings["counted"] = ViewBinding(view)
    return bindings


def _split_fields(schema: str) -> list[str]:
    fields, depth, start = [], 0, 0
    for place, letter in enumerate(schema):
        depth += (letter == "<") - (letter == ">")
        if letter == "," and depth == 0:
            fields.append(schema[start:place].strip())
            start = place + 1
    return [*fields, schema[start:].strip()]


def _rows(chance: random.Random) -> dict[str, list[str]]:
    def pick(*options: str) -> str:
        return chance.choice(options)

    def row(*values: str) -> str:
        return f"({', '.join(values)})"

    def times(count: int, *makers: tuple[str, ...]) -> list[str]:
        return [row(*(pick(*options) for options in makers)) for _ in range(count)]

    minutes = (*(f"TIMESTAMP'2020-01-01 00:{m:02d}:00'" for m in (0, 3, 5, 9, 14, 30, 31)), "NULL")
    days = ("DATE'2020-01-01'", "DATE'2020-02-01'", "DATE'2021-01-01'", "NULL")
    arrays = ("array(1, 2)", "array()", "NULL", "array(3, NULL)", "array(2, 2)")
    maps = ("map('a', 1)", "map('b', 2, 'c', 3)", "map()", "NULL")
    structs = (
        "named_struct('p', 1, 'q', named_struct('r', 'x'))",
        "named_struct('p', 2, 'q', named_struct('r', NULL))",
        "NULL",
    )
    small, words = ("1", "2", "3", "NULL"), ("'x'", "'y'", "'z'", "NULL")
    people = [
        ("1", "'ann'", "'ops'", "100", "NULL", days[0]),
        ("2", "'bob'", "'ops'", "80", "1", days[1]),
        ("3", "'cid'", "'dev'", "120", "1", days[1]),
        ("4", "'dan'", "'dev'", "120", "3", days[2]),
        ("5", "'eve'", "'dev'", "90", "3", "NULL"),
        ("6", "'fay'", "NULL", "NULL", "4", days[0]),
    ]
    return {
        "t": times(
            12, small, words, ("1.50", "2.25", "3.00", "NULL"), ("1.5D", "-0.5D", "2.0D", "NULL"), minutes, days
        ),
        "u": times(8, small, words, ("10L", "20L", "30L", "NULL")),
        "v": times(8, ("1L", "2L", "3L", "4L"), arrays, maps, structs, small),
        "w": times(10, ("'k1'", "'k2'", "NULL"), small, small, small),
        "edges": ["(1, 2)", "(2, 3)", "(3, 4)", "(2, 5)", "(5, 6)", "(9, 10)"],
        "emp": [row(*each) for each in people],
    }
