"""The sales diamond that the demo builds: one source, two revenue tables over it, and a summary where they meet."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.lake import Lake

SALES = "CREATE TABLE sales (id BIGINT, region STRING, product_id BIGINT, amount DECIMAL(12,2))"
STREAM_TABLES = {
    "revenue_by_region": (
        "SELECT region, SUM(amount) AS revenue, COUNT(*) AS sale_count\nFROM sales GROUP BY region",
        "2s",
    ),
    "revenue_by_product": (
        "SELECT product_id, SUM(amount) AS revenue, AVG(amount) AS average_sale\nFROM sales GROUP BY product_id",
        "2s",
    ),
    "exec_summary": (
        "SELECT r.total AS total_by_region, p.total AS total_by_product\n"
        "FROM (SELECT SUM(revenue) AS total FROM revenue_by_region) r\n"
        "CROSS JOIN (SELECT SUM(revenue) AS total FROM revenue_by_product) p",
        "3s",
    ),
}
REGIONS = ("north", "south", "east", "west")


@dataclass(frozen=True)
class Totals:
    """The same money, added up along both branches of the diamond."""

    by_region: Decimal | None
    by_product: Decimal | None

    @property
    def are_equal(self) -> bool:
        return self.by_region == self.by_product


def make_source(lake: Lake, rng: Random, count: int) -> None:
    """The source with its first rows."""
    lake.sql(SALES)
    lake.append("sales", sales(rng, 0, count))


def sales(rng: Random, first: int, count: int) -> list[tuple[int, str, int, Decimal]]:
    """So many sales, numbered from `first` on."""
    return [
        (first + number, rng.choice(REGIONS), rng.randint(1, 5), Decimal(rng.randint(100, 9999)) / 100)
        for number in range(count)
    ]


def write_round(lake: Lake, rng: Random, number: int) -> str:
    """One round of live writes, a transaction of its own; returns what it did in words."""
    region = rng.choice(REGIONS)
    first = 1000 * number
    match number % 3:
        case 1:
            lake.append("sales", sales(rng, first, 20))
            return "20 new sales"
        case 2:
            lake.sql(f"UPDATE sales SET amount = amount * 2 WHERE region = '{region}'")
            return f"{region} doubled"
        case _:
            with lake.transaction():
                lake.sql(f"DELETE FROM sales WHERE id % 7 = {number % 7}")
                lake.append("sales", sales(rng, first, 5))
            return "some sales cancelled, 5 new"


def totals(lake: Lake) -> Totals:
    """Both totals, read from one snapshot."""
    (row,) = lake.table("exec_summary").collect()
    return Totals(row["total_by_region"], row["total_by_product"])
