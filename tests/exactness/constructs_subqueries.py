"""Subqueries in every position, common table expressions, lateral joins."""

from __future__ import annotations

from tests.exactness.generate import Generator, construct, made_of, on_clause, sides
from tests.exactness.scalars import comparison, condition, named
from tests.exactness.shapes import NUMERIC, ORDERED, Kind, Made, Rows, Shown


def _kept(g: Generator, name: str, test: str, outer: Rows, inner: Rows) -> Made:
    items, shown = g.some(outer)
    text = f"SELECT {', '.join(items)} FROM {outer.text} WHERE {test}"
    return made_of(text, shown, outer, inner, joins=sides(name, outer, inner))


def _existing(g: Generator, name: str, words: str) -> Made:
    outer, inner = g.rows(), g.rows()
    return _kept(g, name, f"{words} (SELECT 1 FROM {inner.text} WHERE {on_clause(g, inner, outer)})", outer, inner)


@construct
def exists(g: Generator) -> Made:
    return _existing(g, "exists", "EXISTS")


@construct
def not_exists(g: Generator) -> Made:
    return _existing(g, "not_exists", "NOT EXISTS")


def _member(g: Generator, words: str, correlated: bool) -> tuple[str, Rows, Rows]:
    """`x IN (SELECT y ...)`, of one column or two."""
    kind = g.rng.choice((Kind.NUMBER, Kind.TEXT))
    outer, inner = g.rows(kind), g.rows(kind)
    (probe, *more), (member, *others) = g.plain(outer, kind), g.plain(inner, kind)
    where = g.where(inner)
    if correlated:
        where = f" WHERE {comparison(g.rng, inner, outer, ('=', '=', '<')) or 'true'}"
    left, right = named(outer, probe), named(inner, member)
    if more and others and g.rng.random() < 0.4:
        left, right = f"({left}, {named(outer, more[0])})", f"{right}, {named(inner, others[0])}"
    return f"{left} {words} (SELECT {right} FROM {inner.text}{where})", outer, inner


@construct
def in_subquery(g: Generator) -> Made:
    return _kept(g, "in_subquery", *_member(g, "IN", g.rng.random() < 0.4))


@construct
def not_in_subquery(g: Generator) -> Made:
    return _kept(g, "not_in_subquery", *_member(g, "NOT IN", g.rng.random() < 0.4))


@construct
def subquery_under_or(g: Generator) -> Made:
    test, outer, inner = _member(g, g.rng.choice(("IN", "NOT IN")), g.rng.random() < 0.4)
    return _kept(g, "subquery_under_or", f"({test} OR {condition(g.rng, [outer])})", outer, inner)


@construct
def subquery_as_value(g: Generator) -> Made:
    test, outer, inner = _member(g, g.rng.choice(("IN", "NOT IN")), g.rng.random() < 0.4)
    items, shown = g.some(outer)
    truth = Shown(g.fresh(), Kind.NUMBER)
    text = f"SELECT {', '.join(items)}, CASE WHEN {test} THEN 1 ELSE 0 END AS {truth.name} FROM {outer.text}"
    return made_of(text, (*shown, truth), outer, inner, joins=sides("subquery_as_value", outer, inner))


@construct
def scalar_subquery(g: Generator) -> Made:
    outer, inner = g.rows(), g.rows(Kind.NUMBER)
    (number, *_) = g.plain(inner, Kind.NUMBER)
    items, shown = g.some(outer)
    scalar = Shown(g.fresh(), Kind.NUMBER)
    call = g.rng.choice(("max", "min", "sum", "count"))
    text = f"SELECT {', '.join(items)}, (SELECT {call}({named(inner, number)}) FROM {inner.text}) AS {scalar.name}"
    return made_of(
        f"{text} FROM {outer.text}", (*shown, scalar), outer, inner, joins=sides("scalar_subquery", outer, inner)
    )


@construct
def correlated_scalar(g: Generator) -> Made:
    outer, inner = g.rows(), g.rows(Kind.NUMBER)
    (number, *_) = g.plain(inner, Kind.NUMBER)
    items, shown = g.some(outer)
    scalar = Shown(g.fresh(), Kind.NUMBER)
    call = g.rng.choice(("max", "sum", "count", "1 + count"))
    where = comparison(g.rng, inner, outer) or "true"
    subquery = f"(SELECT {call}({named(inner, number)}) FROM {inner.text} WHERE {where})"
    text = f"SELECT {', '.join(items)}, {subquery} AS {scalar.name} FROM {outer.text}"
    return made_of(text, (*shown, scalar), outer, inner, joins=sides("correlated_scalar", outer, inner))


@construct
def correlated_in_where(g: Generator) -> Made:
    outer, inner = g.rows(Kind.NUMBER), g.rows(Kind.NUMBER)
    (left, *_), (right, *_) = g.plain(outer, *NUMERIC), g.plain(inner, Kind.NUMBER)
    where = comparison(g.rng, inner, outer) or "true"
    call = g.rng.choice(("max", "avg", "count"))
    operator = g.rng.choice((">", "<=", "="))
    subquery = f"(SELECT {call}({named(inner, right)}) FROM {inner.text} WHERE {where})"
    return _kept(g, "correlated_in_where", f"{named(outer, left)} {operator} {subquery}", outer, inner)


@construct
def subquery_in_having(g: Generator) -> Made:
    rows, other = g.rows(Kind.NUMBER), g.table(Kind.NUMBER)
    (key, *_), (number, *_) = g.plain(rows, *ORDERED), g.plain(other, Kind.NUMBER)
    shown = (Shown(g.fresh(), key.kind), Shown(g.fresh(), Kind.NUMBER))
    test = f"count(*) < (SELECT max({named(other, number)}) FROM {other.text})"
    text = (
        f"SELECT {named(rows, key)} AS {shown[0].name}, count(*) AS {shown[1].name} FROM {rows.text} "
        f"GROUP BY {named(rows, key)} HAVING {test}"
    )
    return made_of(text, shown, rows, other, joins=sides("subquery_in_having", rows, other))


@construct
def common_table(g: Generator) -> Made:
    rows = g.rows()
    items, shown = g.some(rows)
    name, alias = g.fresh("w"), g.fresh("r")
    inner = made_of(f"SELECT {', '.join(items)} FROM {rows.text}", shown, rows)
    read = Rows(f"{name} AS {alias}", alias, shown, inner)
    more, others = g.some(read)
    text = f"WITH {name} AS ({inner.text}) SELECT {', '.join(more)} FROM {read.text}{g.where(read)}"
    return made_of(text, others, read)


@construct
def common_table_twice(g: Generator) -> Made:
    inner = g.rows(Kind.NUMBER)
    name = g.fresh("w")
    first = Rows(f"{name} AS {(one := g.fresh('r'))}", one, inner.columns, inner.made)
    second = g.again(first)
    items, shown = g.some(first)
    more, others = g.some(second)
    words = g.rng.choice(("JOIN", "LEFT JOIN"))
    text = (
        f"WITH {name} AS ({inner.made.text}) SELECT {', '.join([*items, *more])} "
        f"FROM {first.text} {words} {second.text} ON {on_clause(g, first, second)}"
    )
    return made_of(text, (*shown, *others), inner, joins=sides("common_table_twice", inner, inner))


@construct
def lateral_subquery(g: Generator) -> Made:
    outer, inner = g.rows(Kind.NUMBER), g.rows(Kind.NUMBER)
    (number, *_) = g.plain(inner, Kind.NUMBER)
    items, shown = g.some(outer)
    name, found = g.fresh("l"), Shown(g.fresh(), Kind.NUMBER)
    call = g.rng.choice(("max({})", "count({})", "{}"))
    lateral = (
        f"LATERAL (SELECT {call.format(named(inner, number))} AS {found.name} FROM {inner.text} "
        f"WHERE {comparison(g.rng, inner, outer) or 'true'}) AS {name}"
    )
    words = g.rng.choice((f"JOIN {lateral}", f"LEFT JOIN {lateral} ON true"))
    text = f"SELECT {', '.join(items)}, {name}.{found.name} FROM {outer.text} {words}"
    return made_of(text, (*shown, found), outer, inner, joins=sides("lateral_subquery", outer, inner))
