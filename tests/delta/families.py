"""Named plans for the traps: each is checked tick by tick as the random ones are, with values that provoke it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from random import Random

from anabranch.algebra.expression import Expression, equals, expression
from anabranch.algebra.interpret import Table, total
from anabranch.algebra.relation import (
    Aggregate,
    Column,
    Filter,
    Join,
    JoinKind,
    Output,
    Project,
    Relation,
    Scan,
    SortKey,
    TopK,
    Window,
)
from tests.plans import aggregation

BIGINT, DOUBLE, DECIMAL, STRING = "bigint", "double", "decimal(12,2)", "string"

TABLES: dict[str, tuple[Column, ...]] = {
    "sales": (Column("id", BIGINT), Column("region", STRING), Column("amount", BIGINT), Column("price", DECIMAL)),
    "gauges": (Column("place", BIGINT), Column("level", DOUBLE)),
    "regions": (Column("name", STRING), Column("manager", BIGINT)),
}

VALUES: dict[str, tuple[object, ...]] = {
    BIGINT: (0, 1, 2, None),
    STRING: ("north", "south", None),
    DECIMAL: (Decimal("0.01"), Decimal("10.00"), Decimal("-3.33"), None),
    DOUBLE: (1e16, 1.0, 0.1, -0.0, 0.0, None),
}


@dataclass(frozen=True)
class Family:
    """A plan over the tables of this page."""

    name: str
    plan: Relation


def tables_of(rng: Random) -> dict[str, Table]:
    return {name: Table(_names(columns), _rows(rng, columns, rng.randint(0, 7))) for name, columns in TABLES.items()}


def change_of_tables(rng: Random, tables: Mapping[str, Table]) -> dict[str, Table]:
    """Inserts and deletes on one to three tables."""
    moved = set(rng.sample(sorted(tables), rng.randint(1, len(tables))))
    changes = {name: _change(rng, name, table) if name in moved else {} for name, table in tables.items()}
    return {name: Table(table.names, changes[name]) for name, table in tables.items()}


def _change(rng: Random, name: str, table: Table) -> dict[tuple[object, ...], int]:
    gone = rng.sample(list(table.rows), rng.randint(0, min(2, len(table.rows))))
    came = _rows(rng, TABLES[name], rng.randint(0, 2))
    return total([*came.items(), *((row, -rng.randint(1, table.rows[row])) for row in gone)])


def _rows(rng: Random, columns: tuple[Column, ...], count: int) -> dict[tuple[object, ...], int]:
    return {tuple(rng.choice(VALUES[each.type]) for each in columns): rng.randint(1, 2) for _ in range(count)}


def _names(columns: tuple[Column, ...]) -> tuple[str, ...]:
    return tuple(each.name for each in columns)


def scan(table: str, prefix: str = "") -> Relation:
    """A table, its columns under names of their own."""
    outputs = (Output(prefix + each.name, each.value) for each in TABLES[table])
    return Project(Scan(table, TABLES[table]), tuple(outputs))


def _not_in() -> Relation:
    sales, regions = scan("sales", "s_"), scan("regions", "r_")
    same = expression(
        "coalesce({}, true)", "boolean", equals(sales.column("s_region").value, regions.column("r_name").value)
    )
    return Join(sales, regions, JoinKind.ANTI, (same,))


def _correlated_count() -> Relation:
    regions, sales = scan("regions", "r_"), scan("sales", "s_")
    counted = Aggregate(sales, ("s_region",), (aggregation("n", "count", None, BIGINT),))
    joined = Join(
        regions, counted, JoinKind.LEFT, (equals(regions.column("r_name").value, counted.column("s_region").value),)
    )
    count = expression("coalesce({}, 0)", BIGINT, joined.column("n").value)
    return Project(joined, (Output("name", joined.column("r_name").value), Output("sale_count", count)))


def _residual_condition() -> Relation:
    regions, sales = scan("regions", "r_"), scan("sales", "s_")
    on = (
        equals(regions.column("r_name").value, sales.column("s_region").value),
        expression("{} < {}", "boolean", regions.column("r_manager").value, sales.column("s_amount").value),
    )
    return Join(regions, sales, JoinKind.LEFT, on)


def _float_sum() -> Relation:
    gauges = scan("gauges")
    return Aggregate(gauges, ("place",), (aggregation("water", "sum", gauges.column("level").value, DOUBLE),))


def _float_sum_inside() -> Relation:
    inner, sales = _float_sum(), scan("sales", "s_")
    high = Filter(inner, (expression("{} > 0", "boolean", inner.column("water").value),))
    return Join(sales, high, JoinKind.LEFT, (equals(sales.column("s_id").value, high.column("place").value),))


def _decimals() -> Relation:
    sales = scan("sales")
    price = sales.column("price").value
    calls = (
        aggregation("revenue", "sum", price, "decimal(22,2)"),
        aggregation("mean_price", "avg", price, "decimal(16,6)"),
        aggregation("mean_amount", "avg", sales.column("amount").value, DOUBLE),
        aggregation("lowest", "min", price, DECIMAL),
    )
    return Aggregate(sales, ("region",), calls)


def _having() -> Relation:
    sales = scan("sales")
    calls = (aggregation("n", "count", None, BIGINT), aggregation("most", "max", _amount(sales), BIGINT))
    grouped = Aggregate(sales, ("region",), calls)
    above = Filter(grouped, (expression("{} > 1", "boolean", grouped.column("n").value),))
    share = expression("100 div ({} - 1)", BIGINT, above.column("n").value)
    return Project(above, (Output("share", share), Output("most", above.column("most").value)))


def _global() -> Relation:
    sales = scan("sales")
    calls = (
        aggregation("n", "count", None, BIGINT),
        aggregation("total", "sum", _amount(sales), BIGINT),
        aggregation("least", "min", _amount(sales), BIGINT),
    )
    grouped = Aggregate(Filter(sales, (expression("{} > 0", "boolean", _amount(sales)),)), (), calls)
    return Filter(grouped, (expression("coalesce({}, 0) < 7", "boolean", grouped.column("total").value),))


def _best_sales() -> Relation:
    sales = scan("sales")
    settled = (SortKey(name) for name in ("id", "region", "price"))
    best = TopK(sales, (SortKey("amount", descending=True, nulls_first=False), *settled), 2, 1)
    doubled = expression("{} * 2", BIGINT, best.column("amount").value)
    return Project(best, (Output("region", best.column("region").value), Output("doubled", doubled)))


def _best_regions() -> Relation:
    sales = scan("sales")
    grouped = Aggregate(sales, ("region",), (aggregation("total", "sum", _amount(sales), BIGINT),))
    return TopK(grouped, (SortKey("total", descending=True), SortKey("region")), 1)


def _windows_partitioned_differently() -> Relation:
    sales = scan("sales")
    by_region = Window(sales, ("region",), (_running(sales, "region", "in_region"),))
    return Window(by_region, ("id",), (_running(by_region, "id", "in_id"),))


def _running(child: Relation, partition: str, name: str) -> Output:
    keys = [child.column(each).value for each in ("amount", partition, "amount", "id", "region", "price")]
    text = "sum({}) OVER (PARTITION BY {} ORDER BY {}, {}, {}, {} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"
    return Output(name, expression(text, BIGINT, *keys))


def _amount(sales: Relation) -> Expression:
    return sales.column("amount").value


_PLANS: dict[str, Callable[[], Relation]] = {
    "not in": _not_in,
    "correlated count": _correlated_count,
    "residual condition": _residual_condition,
    "float sum": _float_sum,
    "float sum inside": _float_sum_inside,
    "decimals": _decimals,
    "having": _having,
    "global": _global,
    "best sales": _best_sales,
    "best regions": _best_regions,
    "windows partitioned differently": _windows_partitioned_differently,
}

FAMILIES = tuple(Family(name, made()) for name, made in _PLANS.items())
