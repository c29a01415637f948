"""TPC-H as a lake: the eight tables from tpchgen-cli, the 22 queries from DuckDB's tpch extension, batches of changes.

Nothing is copied: data and query texts come from the tools that own them, at run time.
"""

from __future__ import annotations

import importlib.util
import random
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow.parquet as pq

from anabranch.errors import SettingError

if TYPE_CHECKING:
    from anabranch.lake import Lake

TABLES = ("region", "nation", "supplier", "part", "partsupp", "customer", "orders", "lineitem")


def generate(scale: float, folder: Path) -> dict[str, Path]:
    """The eight tables as Parquet files, made once per folder."""
    paths = {table: folder / f"{table}.parquet" for table in TABLES}
    if not all(path.exists() for path in paths.values()):
        folder.mkdir(parents=True, exist_ok=True)
        command = [_tool(), "parquet", "-s", str(scale), f"--output-dir={folder}"]
        subprocess.run(command, check=True, capture_output=True)
    return paths


def queries() -> dict[int, str]:
    """The 22 queries by number."""
    connection = duckdb.connect()
    connection.execute(f"LOAD '{_extension('tpch')}'")
    rows = connection.execute("SELECT query_nr, query FROM tpch_queries() ORDER BY query_nr").fetchall()
    return {number: text.strip().rstrip(";") for number, text in rows}


def load(lake: Lake, paths: dict[str, Path]) -> None:
    """Create the eight sources and fill them."""
    for table, path in paths.items():
        rows = lake.spark.read.parquet(str(path))
        columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in rows.schema.fields)
        lake.sql(f"CREATE TABLE {table} ({columns})")
        lake.append(table, rows)


@dataclass(frozen=True)
class Statements:
    """One batch of changes as statements, to be run in one transaction."""

    texts: tuple[str, ...]


def changes(seed: int, share: float) -> Statements:
    """A batch that touches all eight tables: updates, deletes and inserts of about this share of the rows.

    Rows are picked by a hash of their key and the seed, so a batch is the same on every lake.
    """
    pick = random.Random(seed)
    salt = pick.randrange(1 << 30)

    def some(*keys: str, of: float = 1.0) -> str:
        parts = max(1, round(1 / (share * of)))
        return f"pmod(hash({', '.join(keys)}, {salt}), {parts}) = 0"

    price = pick.choice(("1.01", "0.97", "1.10"))
    line, order = ("l_orderkey", "l_linenumber"), ("o_orderkey",)
    return Statements(
        (
            f"UPDATE lineitem SET l_extendedprice = CAST(l_extendedprice * {price} AS DECIMAL(15,2)), "
            f"l_quantity = l_quantity + {pick.randint(-1, 1)} WHERE {some(*line)}",
            f"UPDATE lineitem SET l_shipdate = date_add(l_shipdate, {pick.randint(-40, 40)}), "
            f"l_receiptdate = date_add(l_receiptdate, {pick.randint(1, 60)}) WHERE {some('l_linenumber', *line)}",
            f"DELETE FROM lineitem WHERE {some(*line, 'l_partkey', of=0.3)}",
            f"INSERT INTO lineitem SELECT l_orderkey, l_partkey, l_suppkey, l_linenumber + 100, l_quantity, "
            "l_extendedprice, l_discount, l_tax, l_returnflag, l_linestatus, l_shipdate, l_commitdate, l_receiptdate, "
            f"l_shipinstruct, l_shipmode, l_comment FROM lineitem WHERE {some(*line, 'l_suppkey', of=0.3)}",
            f"UPDATE orders SET o_orderdate = date_add(o_orderdate, {pick.randint(-30, 30)}), "
            f"o_totalprice = o_totalprice + {pick.randint(1, 9)} WHERE {some(*order)}",
            f"DELETE FROM orders WHERE {some(*order, 'o_custkey', of=0.3)}",
            f"INSERT INTO orders SELECT o_orderkey + 100000000, o_custkey, o_orderstatus, o_totalprice, o_orderdate, "
            "o_orderpriority, o_clerk, o_shippriority, o_comment FROM orders "
            f"WHERE {some('o_custkey', *order, of=0.3)}",
            f"UPDATE customer SET c_acctbal = c_acctbal + {pick.randint(-500, 500)}, c_name = concat(c_name, 'x') "
            f"WHERE {some('c_custkey')}",
            f"UPDATE part SET p_retailprice = p_retailprice + 1, p_size = pmod(p_size + {pick.randint(0, 3)}, 50) + 1 "
            f"WHERE {some('p_partkey')}",
            f"UPDATE partsupp SET ps_supplycost = ps_supplycost + {pick.randint(-5, 5)}, "
            f"ps_availqty = ps_availqty + {pick.randint(-50, 50)} WHERE {some('ps_partkey', 'ps_suppkey')}",
            f"UPDATE supplier SET s_acctbal = s_acctbal + {pick.randint(-900, 900)}, "
            f"s_address = concat(s_address, 'y') WHERE {some('s_suppkey', of=5)}",
            f"UPDATE nation SET n_comment = concat(n_comment, '.') WHERE n_nationkey = {pick.randrange(25)}",
            f"UPDATE region SET r_comment = concat(r_comment, '.') WHERE r_regionkey = {pick.randrange(5)}",
        )
    )


def apply(lake: Lake, batch: Statements) -> None:
    """Run the batch as one snapshot."""
    with lake.transaction():
        for text in batch.texts:
            lake.sql(text)


def rows_of(path: Path) -> int:
    """How many rows a Parquet file has."""
    return int(pq.ParquetFile(path).metadata.num_rows)


def _tool() -> str:
    beside = Path(sys.executable).parent / "tpchgen-cli"
    found = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if found is None:
        raise SettingError(
            "TOOL_MISSING", "tpchgen-cli is not installed", "it makes the TPC-H data", "pip install tpchgen-cli"
        )
    return found


def _extension(name: str) -> str:
    package = importlib.util.find_spec(f"duckdb_extension_{name}")
    if package is None or package.origin is None:
        raise SettingError(
            "TOOL_MISSING",
            f"DuckDB's {name} extension is not installed",
            "it holds the query texts",
            f"pip install duckdb-extension-{name}=={duckdb.__version__}",
        )
    return str(next(Path(package.origin).parent.rglob("*.duckdb_extension")))
