"""TPC-DS: the texts of the 99 queries and the data of the 24 tables, made at run time by DuckDB's tpcds extension."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import duckdb_extension_tpcds

if TYPE_CHECKING:
    from anabranch import Lake

Columns = dict[str, str]
"""Spark types by column name, in order."""

SPARK_TYPES = {"integer": "int", "varchar": "string"}
FACTS = ("store_sales", "store_returns", "catalog_sales", "catalog_returns", "web_sales", "web_returns", "inventory")
CALENDARS = ("date_dim", "time_dim")
KEYS = ("_sk", "_id", "_number")


def benchmark() -> duckdb.DuckDBPyConnection:
    """DuckDB with the extension in it."""
    folder = Path(duckdb_extension_tpcds.__path__[0])
    connection = duckdb.connect()
    connection.execute(f"LOAD '{next(folder.rglob('tpcds.duckdb_extension'))}'")
    return connection


def queries() -> dict[int, str]:
    """The queries by number; where DuckDB quotes a name like this: \", Spark wants `."""
    with benchmark() as connection:
        found = connection.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall()
    return {number: text.strip().rstrip(";").replace('"', "`") for number, text in found}


def schemas(connection: duckdb.DuckDBPyConnection) -> dict[str, Columns]:
    """The tables that `dsdgen` has made."""
    found: dict[str, Columns] = {}
    text = "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal ORDER BY column_index"
    for table, name, type in connection.execute(text).fetchall():
        found.setdefault(table, {})[name] = SPARK_TYPES.get(type.lower(), type.lower())
    return found


def load(lake: Lake, scale: float, folder: Path) -> dict[str, Columns]:
    """Create the sources and fill them."""
    folder.mkdir(parents=True, exist_ok=True)
    with benchmark() as connection:
        connection.execute(f"CALL dsdgen(sf = {scale})")
        tables = schemas(connection)
        for table in tables:
            connection.execute(f"COPY {table} TO '{folder / table}.parquet' (FORMAT PARQUET)")
    for table, columns in tables.items():
        lake.sql(f"CREATE TABLE {table} ({', '.join(f'{name} {type}' for name, type in columns.items())})")
        rows = lake.spark.read.parquet(str(folder / f"{table}.parquet"))
        lake.append(table, rows.selectExpr(*(f"CAST({name} AS {type}) AS {name}" for name, type in columns.items())))
    return tables


def change(lake: Lake, tables: Mapping[str, Columns], seed: int, share: float) -> None:
    """Updates, deletes and inserts of about this share of every table's rows, as one snapshot."""
    pick = random.Random(seed)
    with lake.transaction():
        for table, columns in tables.items():
            for text in _statements(table, columns, share, pick):
                lake.sql(text)


def _statements(table: str, columns: Columns, share: float, pick: random.Random) -> Iterator[str]:
    """Rows are picked by a hash of all they hold. Days and hours only change their names."""
    numbers = [name for name, type in columns.items() if type != "string" and type != "date" and not _is_key(name)]
    words = [name for name, type in columns.items() if type == "string" and not _is_key(name)]
    if table in CALENDARS:
        yield f"UPDATE {table} SET {words[-1]} = reverse({words[-1]}) WHERE {_some(columns, share, pick)}"
        return
    if words:
        word = pick.choice(words)
        yield f"UPDATE {table} SET {word} = reverse({word}) WHERE {_some(columns, share, pick)}"
    changed = {name: f"CAST({name} + {pick.choice((-1, 1, 2))} AS {columns[name]})" for name in numbers}
    if changed:
        assigned = ", ".join(f"{name} = {text}" for name, text in changed.items())
        yield f"UPDATE {table} SET {assigned} WHERE {_some(columns, share, pick)}"
    if table not in FACTS:
        share /= 4
    yield f"DELETE FROM {table} WHERE {_some(columns, share / 2, pick)}"
    copied = ", ".join(changed.get(name, name) for name in columns)
    yield f"INSERT INTO {table} SELECT {copied} FROM {table} WHERE {_some(columns, share / 2, pick)}"


def _is_key(name: str) -> bool:
    return name.endswith(KEYS)


def _some(columns: Columns, share: float, pick: random.Random) -> str:
    return f"pmod(hash({', '.join(columns)}, {pick.randrange(1 << 30)}), {round(1 / share)}) = 0"
