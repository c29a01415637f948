"""Constructs that take rows as they are: filters, joins, set operations, lists made into rows."""

from __future__ import annotations

from tests.exactness.generate import Generator, construct, made_of, on_clause, sides
from tests.exactness.scalars import LITERALS, comparison, condition, named, value
from tests.exactness.shapes import Kind, Made, Rows, Shown


@construct
def projection(g: Generator) -> Made:
    rows = g.rows()
    items, shown = g.some(rows, 4)
    return made_of(f"SELECT {', '.join(items)} FROM {rows.text}", shown, rows)


@construct
def filtering(g: Generator) -> Made:
    rows = g.rows()
    items, shown = g.some(rows, 4)
    text = f"SELECT {', '.join(items)} FROM {rows.text} WHERE {condition(g.rng, [rows], 2)}"
    return made_of(text, shown, rows)


@construct
def values_list(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    (key, *_) = g.plain(rows, Kind.NUMBER)
    alias, shown = g.fresh("r"), (Shown(g.fresh(), Kind.NUMBER), Shown(g.fresh(), Kind.TEXT))
    listed = f"VALUES (1, 'one'), (2, 'two'), (2, 'zwei'), (NULL, 'none') AS {alias}(n, w)"
    items, more = g.some(rows)
    text = f"SELECT {named(rows, key)} AS {shown[0].name}, {alias}.w AS {shown[1].name}, {', '.join(items)}"
    return made_of(
        f"{text} FROM {rows.text} LEFT JOIN {listed} ON {named(rows, key)} = {alias}.n", (*shown, *more), rows
    )


def _joined(g: Generator, name: str, words: str, left: Rows, right: Rows, on: str) -> Made:
    items, shown = g.some(left)
    more, others = g.some(right)
    text = f"SELECT {', '.join([*items, *more])} FROM {left.text} {words} {right.text}{on}"
    return made_of(text, (*shown, *others), left, right, joins=sides(name, left, right))


@construct
def inner_join(g: Generator) -> Made:
    left, right = g.rows(), g.rows()
    return _joined(g, "inner_join", "JOIN", left, right, f" ON {on_clause(g, left, right)}")


@construct
def left_join(g: Generator) -> Made:
    left, right = g.rows(), g.rows()
    return _joined(g, "left_join", "LEFT JOIN", left, right, f" ON {on_clause(g, left, right)}")


@construct
def right_join(g: Generator) -> Made:
    left, right = g.rows(), g.rows()
    return _joined(g, "right_join", "RIGHT JOIN", left, right, f" ON {on_clause(g, left, right)}")


@construct
def full_join(g: Generator) -> Made:
    left, right = g.rows(), g.rows()
    return _joined(g, "full_join", "FULL JOIN", left, right, f" ON {on_clause(g, left, right)}")


@construct
def cross_join(g: Generator) -> Made:
    left, right = g.rows(), g.table()
    return _joined(g, "cross_join", "CROSS JOIN", left, right, "")


@construct
def non_equi_join(g: Generator) -> Made:
    left, right = g.rows(), g.rows()
    on = comparison(g.rng, left, right, ("<", "<=", ">", "<>")) or condition(g.rng, [left, right])
    return _joined(g, "non_equi_join", g.rng.choice(("JOIN", "LEFT JOIN", "FULL JOIN")), left, right, f" ON {on}")


@construct
def self_join(g: Generator) -> Made:
    left = g.rows()
    right = g.again(left)
    return _joined(g, "self_join", g.rng.choice(("JOIN", "LEFT JOIN")), left, right, f" ON {on_clause(g, left, right)}")


@construct
def three_way_join(g: Generator) -> Made:
    first, second, third = g.rows(), g.table(), g.table()
    items, shown = g.some(first)
    more, others = g.some(third)
    kinds = ("JOIN", "LEFT JOIN", "FULL JOIN")
    text = (
        f"SELECT {', '.join([*items, *more])} FROM {first.text} {g.rng.choice(kinds)} {second.text} "
        f"ON {on_clause(g, first, second)} {g.rng.choice(kinds)} {third.text} ON {on_clause(g, second, third)}"
    )
    joins = sides("three_way_join", first, third) + sides("three_way_join", second, third)
    return made_of(text, (*shown, *others), first, second, third, joins=joins)


def _half(g: Generator, name: str, words: str) -> Made:
    left, right = g.rows(), g.rows()
    items, shown = g.some(left)
    text = f"SELECT {', '.join(items)} FROM {left.text} {words} {right.text} ON {on_clause(g, left, right)}"
    return made_of(text, shown, left, right, joins=sides(name, left, right))


@construct
def semi_join(g: Generator) -> Made:
    return _half(g, "semi_join", "LEFT SEMI JOIN")


@construct
def anti_join(g: Generator) -> Made:
    return _half(g, "anti_join", "LEFT ANTI JOIN")


def _named_alike(g: Generator, kind: Kind) -> tuple[Rows, Rows, Shown]:
    """Two derived tables that have one column's name in common."""
    shared = Shown(g.fresh("k"), kind)
    halves = []
    for _ in range(2):
        rows = g.rows(kind)
        items, shown = g.some(rows, 2)
        text = f"SELECT {named(rows, g.plain(rows, kind)[0])} AS {shared.name}, {', '.join(items)} FROM {rows.text}"
        halves.append(g.derived(made_of(text, shown, rows)))
    return halves[0], halves[1], shared


@construct
def using_join(g: Generator) -> Made:
    left, right, shared = _named_alike(g, Kind.NUMBER)
    words = g.rng.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
    shown = (shared, *left.columns, *right.columns)
    text = (
        f"SELECT {', '.join(each.name for each in shown)} FROM {left.text} {words} {right.text} USING ({shared.name})"
    )
    return made_of(text, shown, left, right, joins=sides("using_join", left, right))


@construct
def natural_join(g: Generator) -> Made:
    left, right, shared = _named_alike(g, Kind.TEXT)
    words = g.rng.choice(("NATURAL JOIN", "NATURAL LEFT JOIN", "NATURAL FULL JOIN"))
    text = f"SELECT * FROM {left.text} {words} {right.text}"
    shown = (shared, *left.columns, *right.columns)
    return made_of(text, shown, left, right, joins=sides("natural_join", left, right))


def _set_operation(g: Generator, words: str, name: str) -> Made:
    left = g.rows(Kind.NUMBER, Kind.TEXT)
    right = g.rows(Kind.NUMBER, Kind.TEXT)
    shown = (Shown(g.fresh(), Kind.NUMBER), Shown(g.fresh(), Kind.TEXT))
    halves = []
    for rows in (left, right):
        items = (f"{value(g.rng, rows, g.plain(rows, each.kind)[0])} AS {each.name}" for each in shown)
        halves.append(f"SELECT {', '.join(items)} FROM {rows.text}{g.where(rows)}")
    return made_of(f"{halves[0]} {words} {halves[1]}", shown, left, right, joins=sides(name, left, right))


@construct
def union_all(g: Generator) -> Made:
    return _set_operation(g, "UNION ALL", "union_all")


@construct
def union(g: Generator) -> Made:
    return _set_operation(g, "UNION", "union")


@construct
def intersect(g: Generator) -> Made:
    return _set_operation(g, "INTERSECT", "intersect")


@construct
def intersect_all(g: Generator) -> Made:
    return _set_operation(g, "INTERSECT ALL", "intersect_all")


@construct
def difference(g: Generator) -> Made:
    return _set_operation(g, "EXCEPT", "difference")


@construct
def difference_all(g: Generator) -> Made:
    return _set_operation(g, "EXCEPT ALL", "difference_all")


@construct
def distinct(g: Generator) -> Made:
    rows = g.rows()
    items, shown = g.some(rows)
    return made_of(f"SELECT DISTINCT {', '.join(items)} FROM {rows.text}{g.where(rows)}", shown, rows)


@construct
def lateral_view(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    lists = [named(rows, each) for each in rows.of_kind(Kind.LIST)]
    numbers = [named(rows, each) for each in rows.of_kind(Kind.NUMBER)]
    source = g.rng.choice([*lists, f"array({', '.join(numbers[:3])}, 1)"])
    element, shown_element = g.fresh("e"), Shown(g.fresh(), Kind.NUMBER)
    items, shown = g.some(rows)
    outer = g.rng.choice(("", "OUTER "))
    text = (
        f"SELECT {element} AS {shown_element.name}, {', '.join(items)} FROM {rows.text} "
        f"LATERAL VIEW {outer}explode({source}) {g.fresh('l')} AS {element}"
    )
    return made_of(text, (shown_element, *shown), rows)


@construct
def unpivoted(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    (first, *others) = g.plain(rows, Kind.NUMBER)
    second = others[0] if others else first
    names = [g.fresh("u") for _ in range(2)]
    items, shown = g.some(rows, 2)
    inner = (
        f"SELECT {', '.join(items)}, CAST({named(rows, first)} AS BIGINT) AS {names[0]}, "
        f"CAST({named(rows, second)} + 1 AS BIGINT) AS {names[1]} FROM {rows.text}"
    )
    more = (Shown(g.fresh(), Kind.TEXT), Shown(g.fresh(), Kind.NUMBER))
    nulls = g.rng.choice(("", "INCLUDE NULLS "))
    text = f"SELECT * FROM ({inner}) UNPIVOT {nulls}({more[1].name} FOR {more[0].name} IN ({', '.join(names)}))"
    return made_of(text, (*shown, *more), rows)


@construct
def pipe(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    items, shown = g.some(rows)
    (number, *_) = g.plain(rows, Kind.NUMBER)
    extra = Shown(g.fresh(), Kind.NUMBER)
    text = (
        f"FROM {rows.text} |> WHERE {condition(g.rng, [rows])} |> EXTEND {named(rows, number)} + 1 AS {extra.name} "
        f"|> SELECT {', '.join(items)}, {extra.name}"
    )
    return made_of(text, (*shown, extra), rows)


@construct
def recursive(g: Generator) -> Made:
    rows = g.rows(Kind.NUMBER)
    name, shown = g.fresh("w"), (Shown(g.fresh(), Kind.NUMBER), Shown(g.fresh(), Kind.NUMBER))
    start = f"SELECT CAST({named(rows, g.plain(rows, Kind.NUMBER)[0])} AS BIGINT), 0 FROM {rows.text}"
    step = f"SELECT n + 1, depth + 1 FROM {name} WHERE n < {g.rng.choice(LITERALS[Kind.NUMBER])} AND depth < 3"
    text = (
        f"WITH RECURSIVE {name}(n, depth) AS ({start} UNION ALL {step}) "
        f"SELECT n AS {shown[0].name}, depth AS {shown[1].name} FROM {name}"
    )
    return made_of(text, shown, rows)
