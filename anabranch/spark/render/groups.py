"""Operators that look at several rows together."""

from __future__ import annotations

from collections import Counter

from anabranch.algebra.relation import (
    Aggregate,
    Consolidate,
    Distinct,
    Fixpoint,
    SortKey,
    Support,
    TopK,
    Window,
)
from anabranch.spark.identity import identity, needs_identity
from anabranch.spark.quote import quoted
from anabranch.spark.render.block import Block, Query, Shape, named, references
from anabranch.spark.render.leaves import converted
from anabranch.spark.render.scope import Scope, as_query
from anabranch.spark.render.weights import consolidated, distinct


def render_consolidate(relation: Consolidate, scope: Scope) -> Shape:
    """SELECT ..., SUM(weight) ... GROUP BY identity HAVING SUM(weight) <> 0"""
    return consolidated(scope.bare(relation.child), relation.columns)


def render_support(relation: Support, scope: Scope) -> Shape:
    """SELECT DISTINCT ..., whatever the weights."""
    return distinct(scope.bare(relation.child), relation.columns)


def render_distinct(relation: Distinct, scope: Scope) -> Shape:
    """SELECT DISTINCT ..."""
    block = scope.positive(relation.child)
    return distinct(block if block.is_bare else scope.close(block, relation.names), relation.columns)


def render_aggregate(relation: Aggregate, scope: Scope) -> Shape:
    """SELECT keys, calls ... GROUP BY keys"""
    calls = [each.call for each in relation.aggregations]
    block = scope.able(scope.bag(relation.child), relation.child, references(calls))
    if not all(block.cells[key].bare for key in relation.keys):
        block = scope.close(block, relation.child.names)
    keys = [block.cells[key].text for key in relation.keys]
    outputs = [named(text, key) for text, key in zip(keys, relation.keys, strict=True)]
    outputs += [named(block.fill(each.call), each.name) for each in relation.aggregations]
    if not outputs:
        outputs = [named("COUNT(*)", "__ab_nothing")]
    group_by = f" GROUP BY {', '.join(keys)}" if keys else ""
    return as_query(block, f"{block.head(outputs, gather=block.must_be_gathered)} {block.body}{group_by}")


def render_window(relation: Window, scope: Scope) -> Shape:
    """SELECT *, call OVER (...)"""
    demand = references([each.value for each in relation.calls]) + Counter(relation.child.names)
    block = scope.able(scope.bag(relation.child), relation.child, demand)
    outputs = [named(block.cells[name].text, name) for name in relation.child.names]
    outputs += [named(block.fill(each.value), each.name) for each in relation.calls]
    return as_query(block, f"{block.head(outputs)} {block.body}")


def render_top_k(relation: TopK, scope: Scope) -> Shape:
    """ORDER BY ... LIMIT ... OFFSET ..., per partition by row_number()."""
    block = scope.bag(relation.child)
    if not block.is_bare:
        block = scope.close(block, relation.names)
    outputs = [named(cell.text, name) for name, cell in block.cells.items()]
    order = _order(relation, block)
    if relation.partition:
        return _top_per_partition(relation, block, outputs, order, scope)
    limit = "" if relation.limit is None else f" LIMIT {relation.limit}"
    offset = f" OFFSET {relation.offset}" if relation.offset else ""
    ordered = f" ORDER BY {order}" if order else ""
    return as_query(block, f"{block.head(outputs)} {block.body}{ordered}{limit}{offset}")


def render_fixpoint(relation: Fixpoint, scope: Scope) -> Shape:
    """WITH RECURSIVE name(columns) AS (anchor UNION ALL step)"""
    anchor = scope.bag(relation.anchor)
    step = scope.open(relation.step)
    if step.weighted:
        raise ValueError("the step of a recursion has weights")
    cells = [
        named(converted(step.cells[old.name].text, old.type, new.type), new.name)
        for old, new in zip(relation.step.columns, relation.columns, strict=True)
    ]
    name, alias = scope.recursion(relation.name), scope.alias()
    columns = ", ".join(quoted(each) for each in relation.names)
    rounds = f"{anchor.text} UNION ALL {step.head(cells)} {step.body}"
    found = f"(WITH RECURSIVE {name}({columns}) AS ({rounds}) SELECT {columns} FROM {name}) AS {alias}"
    outer = (anchor.recursions | step.recursions) - {relation.name}
    return Query(f"SELECT {columns} FROM {found}", recursions=outer)


def _top_per_partition(relation: TopK, block: Block, outputs: list[str], order: str, scope: Scope) -> Query:
    keys = ", ".join(block.cells[name].text for name in relation.partition)
    ordered = f" ORDER BY {order}" if order else " ORDER BY 1"
    numbered = block.head([*outputs, f"row_number() OVER (PARTITION BY {keys}{ordered}) AS `__ab_position`"])
    last = "" if relation.limit is None else f" AND `__ab_position` <= {relation.offset + relation.limit}"
    alias = scope.alias()
    kept = ", ".join(f"{alias}.{quoted(name)}" for name in relation.names)
    where = f"`__ab_position` > {relation.offset}{last}"
    return as_query(block, f"SELECT {kept} FROM ({numbered} {block.body}) AS {alias} WHERE {where}")


def _order(relation: TopK, block: Block) -> str:
    """The sort keys; where Spark's order equates different values (-0.0 and 0.0) their identity decides in the end."""
    keys: list[str] = []
    ties: list[str] = []
    for each in relation.order:
        text, data_type = block.cells[each.name].text, relation.child.column(each.name).type
        exact = identity(text, data_type)
        keys.append(_sorted(exact if "map<" in data_type else text, each))
        if needs_identity(data_type) and "map<" not in data_type:
            ties.append(_sorted(exact, each))
    return ", ".join(keys + ties)


def _sorted(text: str, key: SortKey) -> str:
    return f"{text} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
