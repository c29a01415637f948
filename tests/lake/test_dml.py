"""INSERT, UPDATE, DELETE and MERGE through `lake.sql`, with Spark's semantics; one snapshot a statement."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

import anabranch
from anabranch import AnabranchError, Lake
from tests.lake.tools import bag, head, queried, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """One lake for the whole file; statements that are refused leave it as it is."""
    with anabranch.connect(str(tmp_path_factory.mktemp("dml") / "shop"), spark=spark) as lake:
        lake.sql("CREATE TABLE original (id BIGINT, region STRING, amount DECIMAL(10,2))")
        lake.sql("INSERT INTO original VALUES (1, 'north', 10), (2, 'south', 5.5), (3, NULL, NULL), (3, NULL, NULL)")
        lake.sql("CREATE TABLE news (id INT, region STRING, amount INT)")
        lake.sql("INSERT INTO news VALUES (1, 'A', NULL), (2, 'B', 20), (4, 'D', 40), (5, 'E', 50)")
        lake.sql("CREATE TABLE sales AS TABLE original")
        yield lake


@pytest.fixture
def sales(shop: Lake) -> Lake:
    """The lake with `sales` as it was at first."""
    shop.sql("CREATE OR REPLACE TABLE sales AS TABLE original")
    return shop


SALES = ((1, "north", Decimal("10.00")), (2, "south", Decimal("5.50")), (3, None, None), (3, None, None))
NORTH, SOUTH, NOWHERE, _ = SALES


def amount(text: str) -> Decimal:
    return Decimal(text)


INSERTS = {
    "INSERT INTO sales VALUES (4, 'x', 1 / 4)": [(4, "x", amount("0.25"))],
    "INSERT INTO sales (amount, id) VALUES (1, 4), (DEFAULT, 5)": [(4, None, amount("1.00")), (5, None, None)],
    "INSERT INTO main.sales (id) SELECT id FROM sales WHERE id = 3": [(3, None, None), (3, None, None)],
    "INSERT INTO sales BY NAME SELECT 'x' AS region, 4 AS ID": [(4, "x", None)],
    "INSERT INTO sales TABLE sales": list(SALES),
    "INSERT INTO sales SELECT a.id + b.id, a.region, b.amount FROM sales a, sales b WHERE a.id < b.id AND b.id = 2": [
        (3, "north", amount("5.50"))
    ],
    "WITH high AS (SELECT * FROM sales WHERE amount > 6) INSERT INTO sales SELECT * FROM high": [NORTH],
    "INSERT INTO sales WITH s AS (SELECT max(id) AS m FROM sales) SELECT m, upper(t.region), 0 FROM s, sales t "
    "WHERE t.id = 1": [(3, "NORTH", amount("0.00"))],
    "INSERT INTO sales SELECT * FROM sales WHERE id > 100": [],
}


@pytest.mark.parametrize("statement", INSERTS)
def test_insert(sales: Lake, statement: str) -> None:
    before = head(sales)
    sales.sql(statement)
    assert rows(sales, "sales") == bag(*SALES, *INSERTS[statement])
    assert head(sales) == before + (1 if INSERTS[statement] else 0)


DELETES = {
    "DELETE FROM sales WHERE id = 3": [NORTH, SOUTH],
    "DELETE FROM sales WHERE region = 'north' OR amount IS NULL": [SOUTH],
    "DELETE FROM sales WHERE amount > 0": [NOWHERE, NOWHERE],
    "DELETE FROM sales AS s WHERE s.amount = (SELECT max(amount) FROM sales)": [SOUTH, NOWHERE, NOWHERE],
    "DELETE FROM sales WHERE EXISTS (SELECT 1 FROM sales AS o WHERE o.id = sales.id + 1)": [NOWHERE, NOWHERE],
    "DELETE FROM sales WHERE region NOT IN ('north')": [NORTH, NOWHERE, NOWHERE],
    "DELETE FROM sales": [],
    "TRUNCATE TABLE sales": [],
}


@pytest.mark.parametrize("statement", DELETES)
def test_delete(sales: Lake, statement: str) -> None:
    before = head(sales)
    sales.sql(statement)
    assert rows(sales, "sales") == bag(*DELETES[statement])
    assert head(sales) == before + 1


UPDATES = {
    "UPDATE sales SET amount = amount * 2 WHERE region = 'north'": [
        (1, "north", amount("20.00")),
        SOUTH,
        NOWHERE,
        NOWHERE,
    ],
    "UPDATE sales SET id = id + 10, region = concat(region, '!')": [
        (11, "north!", amount("10.00")),
        (12, "south!", amount("5.50")),
        (13, None, None),
        (13, None, None),
    ],
    "UPDATE sales s SET s.amount = (SELECT sum(o.amount) FROM sales o WHERE o.id <= s.id) WHERE s.id = 2": [
        NORTH,
        (2, "south", amount("15.50")),
        NOWHERE,
        NOWHERE,
    ],
    "UPDATE sales SET region = DEFAULT, amount = 1.005 WHERE id = 1": [
        (1, None, amount("1.01")),
        SOUTH,
        NOWHERE,
        NOWHERE,
    ],
    "UPDATE sales SET region = amount WHERE id IN (SELECT min(id) FROM sales)": [
        (1, "10.00", amount("10.00")),
        SOUTH,
        NOWHERE,
        NOWHERE,
    ],
    "UPDATE sales SET id = 9 WHERE amount = 1000": list(SALES),
}


@pytest.mark.parametrize("statement", UPDATES)
def test_update(sales: Lake, statement: str) -> None:
    sales.sql(statement)
    assert rows(sales, "sales") == bag(*UPDATES[statement])


MERGES = {
    """MERGE INTO sales AS t USING news AS s ON t.id = s.id
       WHEN MATCHED AND s.amount IS NULL THEN DELETE
       WHEN MATCHED THEN UPDATE SET amount = t.amount + s.amount
       WHEN NOT MATCHED AND s.id > 4 THEN INSERT (id, amount) VALUES (s.id, s.amount)
       WHEN NOT MATCHED THEN INSERT *
       WHEN NOT MATCHED BY SOURCE THEN UPDATE SET region = 'kept'""": [
        (2, "south", amount("25.50")),
        (4, "D", amount("40.00")),
        (5, None, amount("50.00")),
        (3, "kept", None),
        (3, "kept", None),
    ],
    """MERGE INTO sales USING (SELECT id, region, 7 AS amount FROM news WHERE id = 2) AS n ON sales.id = n.id
       WHEN MATCHED THEN UPDATE SET *""": [NORTH, (2, "B", amount("7.00")), NOWHERE, NOWHERE],
    """MERGE INTO sales t USING news s ON t.id = s.id
       WHEN NOT MATCHED BY SOURCE AND t.region IS NULL THEN DELETE""": [NORTH, SOUTH],
    """MERGE INTO sales t USING news s ON t.amount = s.amount WHEN NOT MATCHED AND s.id = 4 THEN INSERT *""": [
        *SALES,
        (4, "D", amount("40.00")),
    ],
    """MERGE INTO sales t USING (SELECT 3 AS id UNION ALL SELECT 3) s ON t.id = s.id
       WHEN MATCHED THEN DELETE""": [NORTH, SOUTH],
}


@pytest.mark.parametrize("statement", MERGES)
def test_merge(sales: Lake, statement: str) -> None:
    before = head(sales)
    sales.sql(statement)
    assert rows(sales, "sales") == bag(*MERGES[statement])
    assert head(sales) == before + 1


def test_merge_refuses_two_source_rows_for_one_target_row(sales: Lake) -> None:
    with pytest.raises(AnabranchError, match="more than one row") as error:
        sales.sql(
            "MERGE INTO sales t USING (SELECT 1 AS id UNION ALL SELECT 1) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET amount = 0"
        )
    assert error.value.code == "MERGE_CARDINALITY_VIOLATION"
    assert rows(sales, "sales") == bag(*SALES)


REFUSED = {
    "INSERT INTO sales VALUES (1, 'x', 123456789.00)": "NUMERIC_VALUE_OUT_OF_RANGE",
    "INSERT INTO sales VALUES ('one', 'x', 1)": "INCOMPATIBLE_ASSIGNMENT",
    "INSERT INTO sales SELECT id, region, id / 0 FROM sales": "DIVIDE_BY_ZERO",
    "INSERT INTO sales VALUES (1, 'x')": "INSERT_COLUMN_ARITY_MISMATCH",
    "INSERT INTO sales (id, colour) VALUES (1, 'x')": "COLUMN_NOT_FOUND",
    "INSERT INTO sales (id, ID) VALUES (1, 2)": "DUPLICATE_ASSIGNMENT",
    "INSERT INTO sales BY NAME SELECT 1 AS colour": "COLUMN_NOT_FOUND",
    "INSERT OVERWRITE sales VALUES (1, 'x', 1)": "INSERT_OVERWRITE",
    "UPDATE sales SET id = 9223372036854775807 + id": "ARITHMETIC_OVERFLOW",
    "UPDATE sales SET colour = 1": "COLUMN_NOT_FOUND",
    "UPDATE sales SET id = 1, id = 2": "DUPLICATE_ASSIGNMENT",
    "UPDATE sales SET amount = 'much'": "INCOMPATIBLE_ASSIGNMENT",
    "UPDATE sales SET amount = (SELECT amount FROM sales)": "SCALAR_SUBQUERY_TOO_MANY_ROWS",
    "DELETE FROM sales WHERE colour = 1": "UNRESOLVED_COLUMN",
    "DELETE FROM sails": "TABLE_NOT_FOUND",
    "MERGE INTO sales t USING sales s ON t.id = s.id WHEN MATCHED THEN UPDATE SET colour = 1": "COLUMN_NOT_FOUND",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_what_spark_refuses_changes_nothing(shop: Lake, statement: str) -> None:
    before = head(shop)
    with pytest.raises(AnabranchError) as error:
        shop.sql(statement)
    assert error.value.code.startswith(REFUSED[statement])
    assert head(shop) == before


def test_statements_answer_with_their_snapshot(sales: Lake) -> None:
    (answer,) = sales.sql("DELETE FROM sales WHERE id = 1").collect()
    assert answer["snapshot"] == head(sales)
    assert rows(sales, "sales", answer["snapshot"] - 1) == bag(*SALES)


def test_a_query_sees_all_tables_at_one_snapshot(sales: Lake) -> None:
    sales.sql("CREATE TABLE regions (region STRING, country STRING)")
    sales.sql("INSERT INTO regions VALUES ('north', 'N'), ('south', 'S')")
    query = "SELECT country, amount FROM sales JOIN main.regions USING (region) ORDER BY country"
    assert queried(sales, query) == bag(("N", amount("10.00")), ("S", amount("5.50")))


def test_an_update_that_only_changes_bits_is_an_update(shop: Lake) -> None:
    shop.sql("CREATE OR REPLACE TABLE points AS SELECT 0.0D AS x")
    shop.sql("UPDATE points SET x = -0.0D WHERE x = 0")
    assert rows(shop, "points") == bag((-0.0,))


def test_a_condition_on_many_columns_is_planned_in_no_time(shop: Lake) -> None:
    """Spark infers two to the power of 22 conditions from it where a SELECT renames the columns, if it is let."""
    columns = [f"c{place}" for place in range(22)]
    shop.sql(f"CREATE TABLE wide ({', '.join(f'{name} INT' for name in columns)})")
    shop.sql(f"INSERT INTO wide SELECT {', '.join(f'id AS {name}' for name in columns)} FROM range(20000)")
    some = "pmod(hash({}, {}), 25) = 0"
    for number in range(3):
        with shop.transaction():
            shop.sql(f"UPDATE wide SET c0 = c0 + 1 WHERE {some.format(', '.join(columns), number)}")
            shop.sql(f"DELETE FROM wide WHERE {some.format(', '.join(columns), number + 3)}")
            where = some.format(", ".join(columns), number + 6)
            shop.sql(f"INSERT INTO wide SELECT c0 + 1, {', '.join(columns[1:])} FROM wide WHERE {where}")
    assert shop.table("wide").count() > 10_000


def test_structs_that_may_be_null(shop: Lake) -> None:
    """What a constant structure is made of is never NULL to Spark, though in another row the structure is."""
    shop.sql("CREATE TABLE notes (id INT, note STRUCT<`a b`: INT, c: STRING>)")
    shop.sql("INSERT INTO notes VALUES (1, named_struct('a b', 1, 'c', 'x')), (2, NULL)")
    assert sorted(shop.table("notes").collect()) == [(1, (1, "x")), (2, None)]
    shop.sql("UPDATE notes SET note = CASE WHEN id = 2 THEN named_struct('a b', 3, 'c', 'z') END")
    assert sorted(shop.table("notes").collect()) == [(1, None), (2, (3, "z"))]
