"""Short ways to write plans and tables in tests."""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.algebra.expression import Expression, Outer, Ref, column, equals, expression
from anabranch.algebra.interpret import Environment, Table, ZSet, interpret, total
from anabranch.algebra.relation import (
    Apply,
    ApplyKind,
    Column,
    Filter,
    Join,
    Output,
    Project,
    Relation,
    Scan,
    iterate,
)
from anabranch.lower.lower import lower


def table(name: str, *columns: str, type: str = "bigint") -> Relation:
    """A table whose columns are named after it: `table("t", "k", "v")` has `t_k` and `t_v`."""
    scan = Scan(name, tuple(Column(each, type) for each in columns))
    return Project(scan, tuple(Output(f"{name}_{each}", column(each, type)) for each in columns))


def tables(**rows: Iterable[tuple[object, ...]]) -> Environment:
    """`tables(t_kv=[(1, 2)])`: the table t with columns k and v; a row given twice counts twice."""
    made = {}
    for named, given in rows.items():
        name, columns = named.split("_")
        made[name] = Table(tuple(columns), total((row, 1) for row in given))
    return Environment(tables=made)


def sql(text: str, type: str = "boolean") -> Expression:
    """An expression whose columns stand in backquotes: `x` of the input, `outer.x` of the enclosing row."""
    parts: list[str | Ref | Outer] = []
    for place, piece in enumerate(text.split("`")):
        if place % 2 == 0:
            parts.append(piece)
        elif piece.startswith("outer."):
            parts.append(Outer(piece.removeprefix("outer.")))
        else:
            parts.append(Ref(piece))
    return Expression(tuple(each for each in parts if each != ""), type)


def outer(name: str, type: str = "bigint") -> Expression:
    return Expression((Outer(name),), type)


def same(left: str, right: str | Expression, null_safe: bool = False) -> Expression:
    """`left = right`, the right being a column's name or an expression."""
    return equals(column(left, "bigint"), column(right, "bigint") if isinstance(right, str) else right, null_safe)


def where(relation: Relation, *predicates: Expression) -> Relation:
    return Filter(relation, predicates)


def select(relation: Relation, **outputs: Expression) -> Relation:
    return Project(relation, tuple(Output(name, value) for name, value in outputs.items()))


def exists(child: Relation, inner: Relation, output: str = "found") -> Apply:
    return Apply(child, inner, ApplyKind.EXISTS, Column(output, "boolean"))


def scalar(child: Relation, inner: Relation, output: str = "value") -> Apply:
    return Apply(child, inner, ApplyKind.SCALAR, Column(output, inner.columns[0].type))


def is_in(child: Relation, inner: Relation, *probe: Expression, output: str = "found") -> Apply:
    return Apply(child, inner, ApplyKind.IN, Column(output, "boolean"), probe)


def bigint(text: str) -> Expression:
    return expression(text, "bigint")


def agree(relation: Relation, environment: Environment) -> ZSet:
    """What the plan means before lowering, checked to be what it means after."""
    meant = interpret(relation, environment)
    assert interpret(lower(relation), environment) == meant
    return meant


def kinds(relation: Relation) -> list[str]:
    """The operators of a plan by name, joins with their kind, sorted."""
    return sorted(
        f"{each.kind.value} join" if isinstance(each, Join) else type(each).__name__ for each in iterate(relation)
    )
