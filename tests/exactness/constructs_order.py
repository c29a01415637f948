"""Constructs that depend on an order: window functions with every sort of frame, QUALIFY, the first rows."""

from __future__ import annotations

from tests.exactness.generate import Generator, construct, made_of
from tests.exactness.scalars import named
from tests.exactness.shapes import NUMERIC, ORDERED, Kind, Made, Rows, Shown


def _over(
    g: Generator, rows: Rows, call: str, kind: Kind, order: Shown, frame: str = "", partition: bool = True
) -> Made:
    items, shown = g.some(rows)
    result = Shown(g.fresh(), kind)
    by = f"PARTITION BY {named(rows, g.plain(rows, *ORDERED)[0])} " if partition else ""
    direction = g.rng.choice(("", " DESC", " DESC NULLS FIRST", " NULLS LAST"))
    text = (
        f"SELECT {', '.join(items)}, {call} OVER ({by}ORDER BY {named(rows, order)}{direction}{frame}) AS {result.name}"
    )
    return made_of(f"{text} FROM {rows.text}{g.where(rows)}", (*shown, result), rows)


@construct
def ranking(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    call = g.rng.choice(("rank()", "dense_rank()", "row_number()", "ntile(2)"))
    return _over(g, rows, call, Kind.NUMBER, g.plain(rows, *ORDERED)[0])


@construct
def neighbours(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    (column, *_) = g.plain(rows, *ORDERED)
    call = g.rng.choice(("lag({})", "lead({})", "lag({}, 2)", "first_value({})", "nth_value({}, 2)"))
    return _over(g, rows, call.format(named(rows, column)), column.kind, g.plain(rows, *ORDERED)[0])


@construct
def running_total(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    (column, *_) = g.plain(rows, *NUMERIC)
    call = g.rng.choice(("sum({})", "max({})", "min({})"))
    return _over(g, rows, call.format(named(rows, column)), column.kind, g.plain(rows, *ORDERED)[0])


@construct
def rows_frame(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    (column, *_) = g.plain(rows, *NUMERIC)
    frame = g.rng.choice(
        ("1 PRECEDING", "BETWEEN 1 PRECEDING AND 1 FOLLOWING", "BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING")
    )
    order = g.plain(rows, *ORDERED)[0]
    return _over(g, rows, f"sum({named(rows, column)})", column.kind, order, f" ROWS {frame}")


@construct
def range_frame(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    (order, *_) = g.plain(rows, Kind.NUMBER)
    frame = " RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING"
    return _over(g, rows, "count(*)", Kind.NUMBER, order, frame)


@construct
def window_without_partition(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    call = g.rng.choice(("rank()", "row_number()", "count(*)"))
    return _over(g, rows, call, Kind.NUMBER, g.plain(rows, *ORDERED)[0], partition=False)


@construct
def two_partitions(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    keys = g.plain(rows, *ORDERED)
    items, shown = g.some(rows, 2)
    results = (Shown(g.fresh(), Kind.NUMBER), Shown(g.fresh(), Kind.NUMBER))
    (number, *_) = g.plain(rows, Kind.NUMBER)
    first = f"sum({named(rows, number)}) OVER (PARTITION BY {named(rows, keys[0])}) AS {results[0].name}"
    second = f"count(*) OVER (PARTITION BY {named(rows, keys[-1])}) AS {results[1].name}"
    return made_of(f"SELECT {', '.join(items)}, {first}, {second} FROM {rows.text}", (*shown, *results), rows)


@construct
def qualify(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    keys = g.plain(rows, *ORDERED)
    items, shown = g.some(rows)
    call = g.rng.choice(("rank()", "row_number()"))
    test = (
        f"{call} OVER (PARTITION BY {named(rows, keys[0])} ORDER BY {named(rows, keys[-1])}) <= {g.rng.randint(1, 2)}"
    )
    return made_of(f"SELECT {', '.join(items)} FROM {rows.text}{g.where(rows)} QUALIFY {test}", shown, rows)


@construct
def window_over_groups(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    (key, *_), (number, *_) = g.plain(rows, *ORDERED), g.plain(rows, Kind.NUMBER)
    shown = (Shown(g.fresh(), key.kind), Shown(g.fresh(), Kind.NUMBER), Shown(g.fresh(), Kind.NUMBER))
    names = [each.name for each in shown]
    total = f"sum({named(rows, number)})"
    text = (
        f"SELECT {named(rows, key)} AS {names[0]}, {total} AS {names[1]}, "
        f"rank() OVER (ORDER BY {total} DESC) AS {names[2]} FROM {rows.text} GROUP BY {named(rows, key)}"
    )
    return made_of(text, shown, rows)


@construct
def top_rows(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    shown = tuple(Shown(g.fresh(), each.kind) for each in g.plain(rows, *ORDERED)[:3])
    items = [f"{named(rows, each)} AS {new.name}" for each, new in zip(_same(g, rows, shown), shown, strict=True)]
    direction = g.rng.choice(("", " DESC", " DESC NULLS FIRST", " NULLS LAST"))
    offset = g.rng.choice(("", "", f" OFFSET {g.rng.randint(1, 2)}"))
    text = (
        f"SELECT {', '.join(items)} FROM {rows.text}{g.where(rows)} ORDER BY {shown[0].name}{direction} "
        f"LIMIT {g.rng.randint(1, 4)}{offset}"
    )
    return made_of(text, shown, rows)


def _same(g: Generator, rows: Rows, shown: tuple[Shown, ...]) -> list[Shown]:
    """A column of the same kind for each."""
    return [g.plain(rows, each.kind)[0] for each in shown]
