"""Batches of changed rows over six of the TPC-H tables, the same on every copy of a lake.

Rows are picked by a hash of their key and the batch's number. Orders come and go with their lines, as in TPC-H's own
refresh functions; prices, dates, balances and stocks are updated. Results stay non-empty, since no batch takes much.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.lake import Lake

NEW_ORDERS = 100_000_000
"""Added to the keys of copied orders, so that they are new."""


def apply_batch(lake: Lake, number: int, rows: int) -> None:
    """Change about so many rows, as one snapshot."""
    counts = {name: lake.table(name).count() for name in ("lineitem", "orders", "customer", "part", "partsupp")}
    counts["supplier"] = lake.table("supplier").count()
    with lake.transaction():
        for text in statements(number, rows, counts):
            lake.sql(text)


def statements(number: int, rows: int, counts: dict[str, int]) -> list[str]:
    """Inserts, deletes and updates; `counts` are the rows that the tables have."""
    pick = random.Random(number)

    def some(table: str, share: float, *keys: str) -> str:
        parts = max(1, round(counts[table] / (rows * share)))
        return f"pmod(xxhash64({', '.join(keys)}, {pick.randrange(1 << 30)}), {parts}) = 0"

    new, gone = some("orders", 0.03, "o_orderkey"), some("orders", 0.03, "o_orderkey")
    copied = f"SELECT o_orderkey FROM orders WHERE {new}"
    offset = NEW_ORDERS * (number + 1)
    price = pick.choice(("1.01", "0.97", "1.10"))
    return [
        "INSERT INTO lineitem SELECT l_orderkey + "
        f"{offset}, l_partkey, l_suppkey, l_linenumber, l_quantity, l_extendedprice, l_discount, l_tax, l_returnflag, "
        "l_linestatus, l_shipdate, l_commitdate, l_receiptdate, l_shipinstruct, l_shipmode, l_comment FROM lineitem "
        f"WHERE l_orderkey IN ({copied})",
        "INSERT INTO orders SELECT o_orderkey + "
        f"{offset}, o_custkey, o_orderstatus, o_totalprice, o_orderdate, o_orderpriority, o_clerk, o_shippriority, "
        f"o_comment FROM orders WHERE {new}",
        f"DELETE FROM lineitem WHERE l_orderkey IN (SELECT o_orderkey FROM orders WHERE {gone})",
        f"DELETE FROM orders WHERE {gone}",
        f"UPDATE lineitem SET l_extendedprice = CAST(l_extendedprice * {price} AS DECIMAL(15,2)) "
        f"WHERE {some('lineitem', 0.2, 'l_orderkey', 'l_linenumber')}",
        f"UPDATE lineitem SET l_receiptdate = date_add(l_receiptdate, {pick.randint(1, 30)}) "
        f"WHERE {some('lineitem', 0.1, 'l_orderkey', 'l_linenumber')}",
        f"UPDATE orders SET o_orderdate = date_add(o_orderdate, {pick.randint(-30, 30)}) "
        f"WHERE {some('orders', 0.1, 'o_orderkey')}",
        f"UPDATE customer SET c_acctbal = c_acctbal + {pick.randint(-500, 500)} "
        f"WHERE {some('customer', 0.05, 'c_custkey')}",
        f"UPDATE part SET p_size = pmod(p_size + {pick.randint(1, 3)}, 50) + 1 WHERE {some('part', 0.04, 'p_partkey')}",
        f"UPDATE partsupp SET ps_supplycost = ps_supplycost + {pick.randint(1, 5)} "
        f"WHERE {some('partsupp', 0.05, 'ps_partkey', 'ps_suppkey')}",
        f"UPDATE supplier SET s_acctbal = s_acctbal + {pick.randint(1, 900)} "
        f"WHERE {some('supplier', 0.01, 's_suppkey')}",
    ]
