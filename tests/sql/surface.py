"""A surface relation as Spark SQL text, in the plainest way: every operator is a derived table.

Names are unique in the whole query, so a column of an enclosing row is written like any other.
"""

from __future__ import annotations

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation import (
    Aggregate,
    Apply,
    ApplyKind,
    Column,
    Distinct,
    Empty,
    Expand,
    Filter,
    Fixpoint,
    Generate,
    Join,
    JoinKind,
    LateralJoin,
    Project,
    Recursion,
    Relation,
    Scan,
    SetOperation,
    TableFunction,
    TopK,
    UnionAll,
    Values,
    Window,
)
from anabranch.algebra.types import quoted_type
from anabranch.sql.statement_nodes import quoted

JOINS = {
    JoinKind.INNER: "INNER JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.FULL: "FULL JOIN",
    JoinKind.SEMI: "LEFT SEMI JOIN",
    JoinKind.ANTI: "LEFT ANTI JOIN",
}


def text_of(value: Expression) -> str:
    return value.text(lambda hole: quoted(hole.name))


def names_of(columns: tuple[Column, ...]) -> str:
    return ", ".join(quoted(each.name) for each in columns)


def surface_sql(relation: Relation) -> str:
    """A SELECT of the relation's columns in order."""
    match relation:
        case Scan():
            return f"SELECT {names_of(relation.columns)} FROM {quoted(relation.table)}"
        case Empty():
            nulls = (f"CAST(NULL AS {quoted_type(each.type)}) AS {quoted(each.name)}" for each in relation.columns)
            return f"SELECT {', '.join(nulls)} WHERE false"
        case Values():
            rows = (
                "SELECT "
                + ", ".join(f"{text_of(v)} AS {quoted(c.name)}" for v, c in zip(row, relation.columns, strict=True))
                for row in relation.rows
            )
            return " UNION ALL ".join(rows)
        case TableFunction():
            return f"SELECT * FROM {text_of(relation.call)} AS f({names_of(relation.columns)})"
        case Recursion():
            return f"SELECT * FROM {quoted(relation.name)}"
        case Filter():
            where = " AND ".join(f"({text_of(each)})" for each in relation.predicates)
            return f"SELECT * FROM {_in(relation.child)} WHERE {where}"
        case Project():
            items = ", ".join(f"{text_of(each.value)} AS {quoted(each.name)}" for each in relation.outputs)
            return f"SELECT {items} FROM {_in(relation.child)}"
        case UnionAll():
            return " UNION ALL ".join(f"({surface_sql(each)})" for each in relation.inputs)
        case Expand():
            rows = (
                "SELECT "
                + ", ".join(f"{text_of(v)} AS {quoted(c.name)}" for v, c in zip(row, relation.columns, strict=True))
                + f" FROM {_in(relation.child)}"
                for row in relation.projections
            )
            return " UNION ALL ".join(rows)
        case Generate():
            outer = "OUTER " if relation.outer else ""
            names = names_of(relation.generated)
            return f"SELECT * FROM {_in(relation.child)} LATERAL VIEW {outer}{text_of(relation.generator)} g AS {names}"
        case Join():
            on = " AND ".join(f"({text_of(each)})" for each in relation.on) or "true"
            return f"SELECT * FROM {_in(relation.left)} {JOINS[relation.kind]} {_in(relation.right)} ON {on}"
        case Distinct():
            return f"SELECT DISTINCT * FROM {_in(relation.child)}"
        case Aggregate():
            keys = [quoted(each) for each in relation.keys]
            items = [*keys, *(f"{text_of(each.call)} AS {quoted(each.name)}" for each in relation.aggregations)]
            group = f" GROUP BY {', '.join(keys)}" if keys else ""
            return f"SELECT {', '.join(items)} FROM {_in(relation.child)}{group}"
        case Window():
            calls = ", ".join(f"{text_of(each.value)} AS {quoted(each.name)}" for each in relation.calls)
            return f"SELECT *, {calls} FROM {_in(relation.child)}"
        case TopK():
            return _top(relation)
        case Fixpoint():
            head = f"{quoted(relation.name)}({names_of(relation.columns)})"
            rounds = f"{surface_sql(relation.anchor)} UNION ALL {surface_sql(relation.step)}"
            return f"WITH RECURSIVE {head} AS ({rounds}) SELECT * FROM {quoted(relation.name)}"
        case SetOperation():
            word = f"{relation.kind.name}{' ALL' if relation.all else ''}"
            return f"({surface_sql(relation.left)}) {word} ({surface_sql(relation.right)})"
        case Apply():
            return _apply(relation)
        case LateralJoin():
            on = " AND ".join(f"({text_of(each)})" for each in relation.on) or "true"
            right = f"LATERAL ({surface_sql(relation.right)}) AS q2"
            return f"SELECT * FROM {_in(relation.left)} {JOINS[relation.kind]} {right} ON {on}"
    raise AssertionError(type(relation).__name__)


def _in(relation: Relation) -> str:
    """With an alias: Spark reads `(...) WHERE (x)` as a table named WHERE with a column x."""
    return f"({surface_sql(relation)}) AS q"


def _top(relation: TopK) -> str:
    keys = ", ".join(
        f"{quoted(each.name)} {'DESC' if each.descending else 'ASC'} NULLS {'FIRST' if each.nulls_first else 'LAST'}"
        for each in relation.order
    )
    limit = "" if relation.limit is None else f" LIMIT {relation.limit}"
    return f"SELECT * FROM {_in(relation.child)} ORDER BY {keys}{limit} OFFSET {relation.offset}"


def _apply(relation: Apply) -> str:
    inner = surface_sql(relation.inner)
    match relation.kind:
        case ApplyKind.SCALAR:
            value = f"({inner})"
        case ApplyKind.EXISTS:
            value = f"EXISTS ({inner})"
        case ApplyKind.IN:
            value = _membership(relation, inner)
    return f"SELECT *, {value} AS {quoted(relation.output.name)} FROM {_in(relation.child)}"


def _membership(relation: Apply, inner: str) -> str:
    """IN with its third truth value, which Spark's own IN has in no position where one could see it."""
    pairs = zip(relation.probe, relation.inner.names, strict=True)
    same = " AND ".join(f"({text_of(probe)}) = {quoted(name)}" for probe, name in pairs)
    found = f"EXISTS (SELECT 1 FROM ({inner}) AS q3 WHERE {same})"
    unknown = f"EXISTS (SELECT 1 FROM ({inner}) AS q3 WHERE ({same}) IS NULL)"
    return f"CASE WHEN {found} THEN true WHEN {unknown} THEN NULL ELSE false END"
