"""`anabranch demo`: the sales example, from an empty folder to a checked result."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from anabranch.lake import Lake

REVENUE_BY_REGION = """
SELECT region, SUM(amount) AS revenue, COUNT(*) AS sale_count
FROM sales GROUP BY region
"""
REVENUE_BY_PRODUCT = """
SELECT product_id, SUM(amount) AS revenue, AVG(amount) AS average_sale
FROM sales GROUP BY product_id
"""
SALES = [
    (1, "north", 7, "10.00"),
    (2, "south", 7, "5.50"),
    (3, "north", 8, "1.25"),
    (4, "west", 9, "99.90"),
]


def run_demo(console: Console) -> bool:
    """Build two stream tables over `sales`, change it, refresh, show rows before and after, and check them."""
    with tempfile.TemporaryDirectory(prefix="anabranch-demo-") as folder:
        from anabranch.lake import connect

        with console.status("starting Spark"):
            lake = connect(folder)
        with lake:
            _create(console, lake)
            _change(console, lake)
            return _check(console, lake)


def _create(console: Console, lake: Lake) -> None:
    lake.sql("CREATE TABLE sales (id BIGINT, region STRING, product_id BIGINT, amount DECIMAL(12,2))")
    values = ", ".join(f"({id}, '{region}', {product}, {amount})" for id, region, product, amount in SALES)
    lake.sql(f"INSERT INTO sales VALUES {values}")
    for name, query in (("revenue_by_region", REVENUE_BY_REGION), ("revenue_by_product", REVENUE_BY_PRODUCT)):
        with console.status(f"filling {name}"):
            lake.create_stream_table(name, query, schedule="2s", refresh_mode="DIFFERENTIAL")
    console.print("\n[bold]sales[/bold] is a source; two stream tables are kept over it. At first:")
    _show(console, lake)


def _change(console: Console, lake: Lake) -> None:
    console.print("\nNow three changes in one transaction: double the north, one sale less, one in a new region.")
    with console.status("writing"), lake.transaction():
        lake.sql("UPDATE sales SET amount = amount * 2 WHERE region = 'north'")
        lake.sql("DELETE FROM sales WHERE id = 4")
        lake.sql("INSERT INTO sales VALUES (5, 'east', 8, 12.34)")
    with console.status("refreshing"):
        report = lake.refresh()
    console.print("\n[bold]lake.refresh()[/bold] worked out only what the change does:")
    console.print(repr(report), highlight=False, markup=False)
    console.print("\nAfterwards:")
    _show(console, lake)
    console.print("\nNothing changed since, so another refresh starts no Spark job:")
    console.print(repr(lake.refresh()), highlight=False, markup=False)


def _check(console: Console, lake: Lake) -> bool:
    console.print("\nCompared with each query run from scratch:")
    results = [lake.check(name) for name in ("revenue_by_region", "revenue_by_product")]
    for result in results:
        console.print(f"  {'[green]ok[/green]' if result else '[red]WRONG[/red]'}  {result}")
    console.print("\nNext: the ten lines of Python in README.md.")
    return all(results)


def _show(console: Console, lake: Lake) -> None:
    for name in ("revenue_by_region", "revenue_by_product"):
        rows = lake.table(name)
        table = Table(*rows.columns, title=name, title_justify="left")
        for row in sorted(rows.collect(), key=lambda each: str(each[0])):
            table.add_row(*(str(value) for value in row))
        console.print(table)
