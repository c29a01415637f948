"""The benchmark's graph: the 22 TPC-H queries, and stream tables on top of them that meet again.

q5, profit_by_nation (q9)        ->  nation_overview        a diamond over lineitem, orders, supplier, nation
late_orders (q4), lines_by_mode (q12)  ->  service           a diamond over lineitem and orders
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from anabranch.bench.tpch import queries

if TYPE_CHECKING:
    from anabranch.lake import Lake

ON_TOP = {
    "profit_by_nation": "SELECT nation, sum(sum_profit) AS profit, count(*) AS years FROM q9 GROUP BY nation",
    "nation_overview": (
        "SELECT p.nation, p.profit, r.revenue FROM profit_by_nation p LEFT JOIN q5 r ON r.n_name = p.nation"
    ),
    "late_orders": "SELECT sum(order_count) AS orders FROM q4",
    "lines_by_mode": "SELECT l_shipmode, high_line_count + low_line_count AS lines FROM q12",
    "service": (
        "SELECT (SELECT orders FROM late_orders) AS late_orders, (SELECT sum(lines) FROM lines_by_mode) AS late_lines"
    ),
    "trade_by_year": "SELECT l_year, sum(revenue) AS revenue FROM q7 GROUP BY l_year",
    "brands": "SELECT p_brand, max(supplier_cnt) AS most, count(*) AS kinds FROM q16 GROUP BY p_brand",
    "income": "SELECT q6.revenue, q14.promo_revenue FROM q6 CROSS JOIN q14",
}


def stream_tables() -> dict[str, str]:
    """Every stream table's query by name, those that are read first."""
    return {**{f"q{number}": text for number, text in queries().items()}, **ON_TOP}


def create(lake: Lake, told: Callable[[str], None] = lambda _: None) -> None:
    """Create the graph over the eight tables."""
    for name, query in stream_tables().items():
        told(name)
        lake.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
