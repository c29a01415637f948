"""DML as SELECTs, run on Spark and compared with what the statement means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from anabranch.algebra.relation import Column
from anabranch.algebra.types import assignable
from anabranch.errors import QueryError
from anabranch.sql import statement_nodes as nodes
from anabranch.sql.dml import Target, delete_query, insert_query, update_query
from anabranch.sql.merge import merge_queries
from anabranch.sql.statements import parse_statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (Column("id", "bigint"), Column("name", "string"), Column("amount", "decimal(10,2)"))
TARGET = Target(COLUMNS, "dml_target")
VIEWS: dict[tuple[str, ...], str] = {("sales",): "dml_sales", ("news",): "dml_news"}
Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def schema_of(spark: SparkSession) -> Iterator[Callable[[str], tuple[Column, ...]]]:
    spark.sql(
        "SELECT * FROM VALUES (1L, 'a', 1.00BD, 10L), (2L, 'b', 2.00BD, 11L), (3L, NULL, NULL, 12L) "
        "AS t(id, name, amount, __ab_rowid)"
    ).selectExpr("id", "name", "cast(amount as decimal(10,2)) amount", "__ab_rowid").createOrReplaceTempView(
        "dml_target"
    )
    spark.sql("SELECT id, name, amount FROM dml_target").createOrReplaceTempView("dml_sales")
    spark.sql(
        "SELECT * FROM VALUES (2, 'B', 20), (4, 'D', 40), (NULL, 'N', 0) AS t(id, name, amount)"
    ).createOrReplaceTempView("dml_news")

    def schema(text: str) -> tuple[Column, ...]:
        return tuple(Column(each.name, each.dataType.simpleString()) for each in spark.sql(text).schema.fields)

    yield schema
    for view in ("dml_target", "dml_sales", "dml_news"):
        spark.catalog.dropTempView(view)


def rows(spark: SparkSession, text: str) -> Rows:
    return sorted((tuple(row) for row in spark.sql(text).collect()), key=repr)


def plain(found: Rows) -> Rows:
    return [tuple(float(v) if type(v).__name__ == "Decimal" else v for v in row) for row in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INSERT INTO sales VALUES (7, 'x', 1), (8, DEFAULT, 2.5)", [(7, "x", 1.0), (8, None, 2.5)]),
        ("INSERT INTO sales (amount, id) SELECT 5, id FROM sales WHERE id = 1", [(1, None, 5.0)]),
        ("INSERT INTO sales BY NAME SELECT 'n' AS NAME, 1 AS id", [(1, "n", None)]),
        ("INSERT INTO TABLE sales TABLE sales", [(1, "a", 1.0), (2, "b", 2.0), (3, None, None)]),
        ("WITH c AS (SELECT * FROM news) INSERT INTO sales SELECT * FROM c WHERE id = 2", [(2, "B", 20.0)]),
        ("INSERT INTO sales WITH c AS (SELECT * FROM sales) SELECT * FROM c WHERE id = 2", [(2, "b", 2.0)]),
    ],
)
def test_insert(spark: SparkSession, schema_of: Any, text: str, expected: Rows) -> None:
    statement = parse_statement(text)
    assert isinstance(statement, nodes.Insert)
    query = insert_query(statement, TARGET, VIEWS.get, schema_of)
    assert plain(rows(spark, query)) == sorted(expected, key=repr)
    assert schema_of(query) == COLUMNS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DELETE FROM sales", [(10,), (11,), (12,)]),
        ("TRUNCATE TABLE sales", [(10,), (11,), (12,)]),
        ("DELETE FROM sales WHERE sales.amount > 1", [(11,)]),
        ("DELETE FROM sales AS s WHERE s.id IN (SELECT id FROM news) OR name IS NULL", [(11,), (12,)]),
        ("DELETE FROM sales s WHERE amount < (SELECT avg(amount) FROM sales)", [(10,)]),
        ("DELETE FROM sales s WHERE NOT EXISTS (SELECT * FROM news WHERE news.id = s.id)", [(10,), (12,)]),
    ],
)
def test_delete(spark: SparkSession, schema_of: Any, text: str, expected: Rows) -> None:
    statement = parse_statement(text)
    assert isinstance(statement, nodes.Delete)
    assert rows(spark, delete_query(statement, TARGET, VIEWS.get)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("UPDATE sales SET amount = amount * 2 WHERE id = 2", [(11, 2, "b", 4.0)]),
        ("UPDATE sales s SET s.name = 'x' || name, id = 9 WHERE s.id < 2", [(10, 9, "xa", 1.0)]),
        (
            "UPDATE sales SET name = NULL, amount = DEFAULT",
            [(10, 1, None, None), (11, 2, None, None), (12, 3, None, None)],
        ),
        ("UPDATE sales SET amount = (SELECT max(amount) FROM news) WHERE name IS NULL", [(12, 3, None, 40.0)]),
        ("UPDATE sales SET name = id WHERE id = 1", [(10, 1, "1", 1.0)]),
    ],
)
def test_update(spark: SparkSession, schema_of: Any, text: str, expected: Rows) -> None:
    statement = parse_statement(text)
    assert isinstance(statement, nodes.Update)
    query = update_query(statement, TARGET, VIEWS.get, schema_of)
    assert plain(rows(spark, query)) == expected
    assert schema_of(query)[1:] == COLUMNS


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        (
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            [(11, "update", 2, "B", 20.0), (None, "insert", 4, "D", 40.0), (None, "insert", None, "N", 0.0)],
        ),
        ("WHEN MATCHED THEN DELETE", [(11, "delete", 2, "b", 2.0)]),
        (
            "WHEN MATCHED AND n.amount > 100 THEN DELETE WHEN MATCHED THEN UPDATE SET s.amount = s.amount + n.amount",
            [(11, "update", 2, "b", 22.0)],
        ),
        (
            "WHEN NOT MATCHED BY TARGET AND n.id IS NOT NULL THEN INSERT (id, name) VALUES (n.id, DEFAULT) "
            "WHEN NOT MATCHED BY SOURCE AND s.name IS NULL THEN DELETE "
            "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET name = 'old'",
            [(10, "update", 1, "old", 1.0), (12, "delete", 3, None, None), (None, "insert", 4, None, None)],
        ),
        ("WHEN MATCHED AND n.name = 'zzz' THEN DELETE", []),
    ],
)
def test_merge(spark: SparkSession, schema_of: Any, clauses: str, expected: Rows) -> None:
    statement = parse_statement(f"MERGE INTO sales s USING news AS n ON s.id = n.id {clauses}")
    assert isinstance(statement, nodes.Merge)
    queries = merge_queries(statement, TARGET, VIEWS.get, schema_of)
    assert plain(rows(spark, queries.actions)) == expected
    assert schema_of(queries.actions)[2:] == COLUMNS
    if queries.violations is not None:
        assert rows(spark, queries.violations) == [(0,)]


def test_merge_from_a_query_without_alias(spark: SparkSession, schema_of: Any) -> None:
    statement = parse_statement(
        "MERGE INTO sales USING (SELECT id AS k, sum(amount) AS total FROM news GROUP BY id) ON id = k "
        "WHEN MATCHED THEN UPDATE SET amount = total"
    )
    assert isinstance(statement, nodes.Merge)
    queries = merge_queries(statement, TARGET, VIEWS.get, schema_of)
    assert plain(rows(spark, queries.actions)) == [(11, "update", 2, "b", 20.0)]


def test_merge_counts_rows_hit_twice(spark: SparkSession, schema_of: Any) -> None:
    twice = "(SELECT * FROM news UNION ALL SELECT * FROM news)"
    statement = parse_statement(
        f"MERGE INTO sales s USING {twice} n ON s.id = n.id WHEN MATCHED AND s.id > 5 THEN UPDATE SET name = n.name"
    )
    assert isinstance(statement, nodes.Merge)
    queries = merge_queries(statement, TARGET, VIEWS.get, schema_of)
    assert queries.violations is not None
    assert rows(spark, queries.violations) == [(1,)]
    deleting = parse_statement(f"MERGE INTO sales s USING {twice} n ON s.id = n.id WHEN MATCHED THEN DELETE")
    assert isinstance(deleting, nodes.Merge)
    queries = merge_queries(deleting, TARGET, VIEWS.get, schema_of)
    assert queries.violations is None
    assert plain(rows(spark, queries.actions)) == [(11, "delete", 2, "b", 2.0)]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("INSERT INTO sales VALUES (1, 'a')", "INSERT_COLUMN_ARITY_MISMATCH"),
        ("INSERT INTO sales (id, id) VALUES (1, 2)", "DUPLICATE_ASSIGNMENT"),
        ("INSERT INTO sales (nothing) VALUES (1)", "COLUMN_NOT_FOUND"),
        ("INSERT INTO sales VALUES ('x', 'a', 1)", "INCOMPATIBLE_ASSIGNMENT"),
        ("UPDATE sales SET amount = 'x'", "INCOMPATIBLE_ASSIGNMENT"),
        ("UPDATE sales SET amount = 1, AMOUNT = 2", "DUPLICATE_ASSIGNMENT"),
        ("UPDATE sales SET name.first = 'x'", "NESTED_ASSIGNMENT"),
    ],
)
def test_refused_changes(schema_of: Any, text: str, code: str) -> None:
    statement = parse_statement(text)
    build: Any = insert_query if isinstance(statement, nodes.Insert) else update_query
    with pytest.raises(QueryError) as raised:
        build(statement, TARGET, VIEWS.get, schema_of)
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("given", "wanted", "allowed"),
    [
        ("int", "tinyint", True),
        ("double", "decimal(10,2)", True),
        ("string", "int", False),
        ("int", "string", True),
        ("boolean", "int", False),
        ("date", "timestamp", True),
        ("timestamp", "date", True),
        ("date", "int", False),
        ("void", "array<int>", True),
        ("array<int>", "array<string>", True),
        ("array<string>", "array<int>", False),
        ("map<string,int>", "map<string,bigint>", True),
        ("struct<a:int,b:string>", "struct<x:bigint,y:string>", True),
        ("struct<a:int>", "struct<a:int,b:int>", False),
        ("array<int>", "string", False),
        ("binary", "string", True),
    ],
)
def test_store_assignment(given: str, wanted: str, allowed: bool) -> None:
    assert assignable(given, wanted) == allowed
