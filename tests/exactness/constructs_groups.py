"""Constructs that put rows together: aggregates of every sort, grouping sets, pivots, time windows."""

from __future__ import annotations

from tests.exactness.generate import Generator, construct, made_of
from tests.exactness.scalars import condition, named, value
from tests.exactness.shapes import NUMERIC, ORDERED, Kind, Made, Rows, Shown


def _grouped(g: Generator, rows: Rows, calls: list[tuple[str, Kind]], having: str = "") -> Made:
    """SELECT keys and calls, grouped by one or two keys."""
    keys = g.plain(rows, *ORDERED)[: g.rng.choice((1, 1, 2))]
    values = [value(g.rng, rows, each) for each in keys]
    shown = [Shown(g.fresh(), each.kind) for each in keys]
    items = [f"{text} AS {each.name}" for text, each in zip(values, shown, strict=True)]
    for text, kind in calls:
        shown.append(Shown(g.fresh(), kind))
        items.append(f"{text} AS {shown[-1].name}")
    group = g.rng.choice(("ALL", ", ".join(values), ", ".join(str(place + 1) for place in range(len(keys)))))
    text = f"SELECT {', '.join(items)} FROM {rows.text}{g.where(rows)} GROUP BY {group}{having}"
    return made_of(text, tuple(shown), rows)


def _argument(g: Generator, rows: Rows, *kinds: Kind) -> tuple[str, Kind]:
    column = g.plain(rows, *kinds)[0]
    return named(rows, column), column.kind


@construct
def counting(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    text, _ = _argument(g, rows, *ORDERED)
    return _grouped(g, rows, [("count(*)", Kind.NUMBER), (f"count({text})", Kind.NUMBER)])


@construct
def summing(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    text, kind = _argument(g, rows, *NUMERIC)
    return _grouped(g, rows, [(f"sum({text})", kind)])


@construct
def averaging(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    text, _ = _argument(g, rows, *NUMERIC)
    return _grouped(g, rows, [(f"avg({text})", Kind.INEXACT), (f"sum({text}) / count({text})", Kind.INEXACT)])


@construct
def extremes(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    (low, low_kind), (high, high_kind) = _argument(g, rows, *ORDERED), _argument(g, rows, *ORDERED)
    return _grouped(g, rows, [(f"min({low})", low_kind), (f"max({high})", high_kind)])


@construct
def deviations(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    (one, _), (other, _) = _argument(g, rows, *NUMERIC), _argument(g, rows, *NUMERIC)
    name = g.rng.choice(("stddev({0})", "var_pop({0})", "variance({0})", "corr({0}, {1})", "covar_samp({0}, {1})"))
    return _grouped(g, rows, [(name.format(one, other), Kind.INEXACT)])


@construct
def distinct_aggregates(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    (one, _), (two, _), (three, kind) = (
        _argument(g, rows, *ORDERED),
        _argument(g, rows, *ORDERED),
        _argument(g, rows, Kind.NUMBER),
    )
    calls = [(f"count(DISTINCT {one})", Kind.NUMBER), (f"count(DISTINCT {one}, {two})", Kind.NUMBER)]
    return _grouped(g, rows, [*calls, (f"sum(DISTINCT {three})", kind)])


@construct
def filtered_aggregates(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    text, kind = _argument(g, rows, *NUMERIC)
    tests = [condition(g.rng, [rows]) for _ in range(2)]
    calls = [(f"sum({text}) FILTER (WHERE {tests[0]})", kind), (f"count(*) FILTER (WHERE {tests[1]})", Kind.NUMBER)]
    return _grouped(g, rows, calls)


@construct
def collecting(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    text, _ = _argument(g, rows, Kind.NUMBER)
    call = g.rng.choice(
        ("collect_list({})", "sort_array(collect_set({}))", "array_agg({})", "array_sort(collect_list({}))")
    )
    return _grouped(g, rows, [(call.format(f"CAST({text} AS INT)"), Kind.LIST)])


@construct
def listing(g: Generator) -> Made:
    rows = g.rows(Kind.TEXT)
    text, _ = _argument(g, rows, Kind.TEXT)
    call = g.rng.choice(
        ("listagg({0}, ',')", "listagg({0}, ',') WITHIN GROUP (ORDER BY {0} DESC)", "string_agg(DISTINCT {0}, ';')")
    )
    return _grouped(g, rows, [(call.format(text), Kind.TEXT)])


@construct
def percentiles(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    text, _ = _argument(g, rows, Kind.NUMBER, Kind.MEASURE)
    call = g.rng.choice(
        ("percentile({0}, 0.5)", "median({0})", "percentile_cont(0.25) WITHIN GROUP (ORDER BY {0})",
         "percentile_disc(0.5) WITHIN GROUP (ORDER BY {0} DESC)")
    )  # fmt: skip
    return _grouped(g, rows, [(call.format(text), Kind.INEXACT)])


@construct
def picking(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    (one, kind), (other, _) = _argument(g, rows, *ORDERED), _argument(g, rows, *ORDERED)
    call = g.rng.choice(
        ("max_by({0}, {1})", "min_by({0}, {1})", "first({0})", "last({0}, true)", "any_value({0})", "mode({0})")
    )
    return _grouped(g, rows, [(call.format(one, other), kind)])


@construct
def other_aggregates(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    text, _ = _argument(g, rows, Kind.NUMBER)
    calls = [(f"bit_or({text})", Kind.NUMBER), (f"count_if({text} > 2)", Kind.NUMBER)]
    return _grouped(g, rows, [*calls, (f"CAST(bool_and({text} > 1) AS INT)", Kind.NUMBER)])


@construct
def having(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    text, kind = _argument(g, rows, *NUMERIC)
    test = g.rng.choice((f"count(*) > {g.rng.randint(1, 3)}", f"sum({text}) > 2", f"min({text}) IS NOT NULL"))
    return _grouped(g, rows, [(f"sum({text})", kind), ("count(*)", Kind.NUMBER)], f" HAVING {test}")


@construct
def global_aggregate(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    text, kind = _argument(g, rows, *NUMERIC)
    shown = (Shown(g.fresh(), Kind.NUMBER), Shown(g.fresh(), kind), Shown(g.fresh(), kind))
    names = [each.name for each in shown]
    items = f"count(*) AS {names[0]}, sum({text}) AS {names[1]}, max({text}) AS {names[2]}"
    test = f" HAVING count(*) > {g.rng.randint(0, 4)}" if g.rng.random() < 0.3 else ""
    return made_of(f"SELECT {items} FROM {rows.text}{g.where(rows)}{test}", shown, rows)


def _sets(g: Generator, group: str) -> Made:
    rows = g.rows(Kind.NUMBER, Kind.TEXT)
    (number, *_), (text, *_) = g.plain(rows, Kind.NUMBER), g.plain(rows, Kind.TEXT)
    keys = named(rows, number), named(rows, text)
    shown = (
        Shown(g.fresh(), Kind.NUMBER),
        Shown(g.fresh(), Kind.TEXT),
        Shown(g.fresh(), Kind.NUMBER),
        Shown(g.fresh(), Kind.NUMBER),
    )
    names = [each.name for each in shown]
    items = (
        f"{keys[0]} AS {names[0]}, {keys[1]} AS {names[1]}, grouping_id({', '.join(keys)}) AS {names[2]}, "
        f"sum({keys[0]}) AS {names[3]}"
    )
    return made_of(f"SELECT {items} FROM {rows.text}{g.where(rows)} GROUP BY {group.format(*keys)}", shown, rows)


@construct
def rollup(g: Generator) -> Made:
    return _sets(g, "ROLLUP ({0}, {1})")


@construct
def cube(g: Generator) -> Made:
    return _sets(g, "CUBE ({0}, {1})")


@construct
def grouping_sets(g: Generator) -> Made:
    return _sets(g, "GROUPING SETS (({0}, {1}), ({1}), ({0}), ())")


@construct
def pivot(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER, Kind.TEXT)
    (number, *others), (text, *_) = g.plain(rows, Kind.NUMBER), g.plain(rows, Kind.TEXT)
    key, over = Shown(g.fresh(), Kind.TEXT), g.fresh("v")
    column = g.fresh("p")
    inner = (
        f"SELECT {named(rows, text)} AS {key.name}, {named(rows, number)} AS {column}, "
        f"{named(rows, others[0] if others else number)} AS {over} FROM {rows.text}"
    )
    shown = (key, Shown(g.fresh(), Kind.NUMBER), Shown(g.fresh(), Kind.NUMBER))
    call = g.rng.choice(("sum", "max", "count"))
    text_ = (
        f"SELECT * FROM ({inner}) PIVOT ({call}({over}) FOR {column} IN (1 AS {shown[1].name}, 2 AS {shown[2].name}))"
    )
    return made_of(text_, shown, rows)


def _in_time(g: Generator, window: str) -> Made:
    rows = g.rows(Kind.TIME)
    (time, *_) = g.plain(rows, Kind.TIME)
    call = window.format(named(rows, time))
    shown = (Shown(g.fresh(), Kind.TIME), Shown(g.fresh(), Kind.TIME), Shown(g.fresh(), Kind.NUMBER))
    names = [each.name for each in shown]
    word = call.split("(")[0]
    items = f"{word}.start AS {names[0]}, {word}.end AS {names[1]}, count(*) AS {names[2]}"
    return made_of(f"SELECT {items} FROM {rows.text}{g.where(rows)} GROUP BY {call}", shown, rows)


@construct
def tumbling_window(g: Generator) -> Made:
    return _in_time(g, "window({0}, '10 minutes')")


@construct
def sliding_window(g: Generator) -> Made:
    return _in_time(g, "window({0}, '10 minutes', '5 minutes')")


@construct
def session_window(g: Generator) -> Made:
    return _in_time(g, "session_window({0}, '6 minutes')")


@construct
def structs(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER, Kind.TEXT)
    (number, *_), (text, *_) = g.plain(rows, Kind.NUMBER), g.plain(rows, Kind.TEXT)
    alias = g.fresh("r")
    nested = f"named_struct('n', {named(rows, number)}, 'w', named_struct('t', {named(rows, text)}))"
    inner = f"SELECT {nested} AS s FROM {rows.text}"
    shown = (Shown(g.fresh(), Kind.NUMBER), Shown(g.fresh(), Kind.TEXT))
    items = f"{alias}.s.n AS {shown[0].name}, max({alias}.s.w.t) AS {shown[1].name}"
    return made_of(f"SELECT {items} FROM ({inner}) AS {alias} GROUP BY {alias}.s.n", shown, rows)
