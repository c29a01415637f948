"""A relation as one Spark SQL text: `WITH r0 AS (...), r1 AS (...) SELECT ...`.

Each relation is a bag (duplicates repeated) or a Z-set (a column `__ab_weight`). Change, Negate and Consolidate make
Z-sets; linear operators and joins keep them; operators that need a bag have a Z-set summed up and written out first.
Equal relations give equal text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.algebra.relation import (
    WEIGHT,
    After,
    Aggregate,
    Before,
    Change,
    Column,
    Consolidate,
    Distinct,
    Empty,
    Expand,
    Filter,
    Fixpoint,
    Generate,
    Join,
    Negate,
    Project,
    Recursion,
    Relation,
    Scan,
    Stored,
    Support,
    TableFunction,
    TopK,
    UnionAll,
    Values,
    Weigh,
    Window,
)
from anabranch.algebra.types import quoted_type
from anabranch.spark.quote import quoted
from anabranch.spark.render.block import Shape, named
from anabranch.spark.render.groups import (
    render_aggregate,
    render_consolidate,
    render_distinct,
    render_fixpoint,
    render_support,
    render_top_k,
    render_window,
)
from anabranch.spark.render.joins import render_join
from anabranch.spark.render.leaves import render_empty, render_table_function, render_unbound, render_values
from anabranch.spark.render.linear import (
    render_expand,
    render_filter,
    render_generate,
    render_negate,
    render_project,
    render_union,
    render_weigh,
)
from anabranch.spark.render.scope import Names, Rendered, Scope

RULES: dict[type[Relation], Callable[[Any, Scope], Shape]] = {
    Scan: render_unbound,
    Before: render_unbound,
    After: render_unbound,
    Change: render_unbound,
    Stored: render_unbound,
    Empty: render_empty,
    Values: render_values,
    TableFunction: render_table_function,
    Recursion: lambda relation, scope: scope.open(relation),
    Filter: render_filter,
    Project: render_project,
    UnionAll: render_union,
    Negate: render_negate,
    Expand: render_expand,
    Generate: render_generate,
    Join: render_join,
    Distinct: render_distinct,
    Aggregate: render_aggregate,
    Window: render_window,
    TopK: render_top_k,
    Fixpoint: render_fixpoint,
    Consolidate: render_consolidate,
    Support: render_support,
    Weigh: render_weigh,
}


def render(root: Relation, names: Names, broadcast_keys: bool = True) -> Rendered:
    """The text that computes `root`, reading the views of `names`; any relation named there is read, not computed.

    `broadcast_keys`: hint that the keys of a change are few. Turn it off for a change of millions.
    """
    scope = Scope(root, names, broadcast_keys)
    for relation in scope.unbound():
        rule = RULES.get(type(relation))
        if rule is None:
            raise ValueError(f"{type(relation).__name__} is not lowered")
        scope.current = relation
        scope.shapes[relation] = rule(relation, scope)
    shape = scope.peek(root)
    entries = ", ".join(f"{name} AS ({text})" for name, text in scope.entries)
    with_list = f"WITH {entries} " if entries else ""
    return Rendered(with_list + _nullable(shape, root.columns), shape.weighted, root.columns)


def _nullable(shape: Shape, columns: tuple[Column, ...]) -> str:
    """The text, any field of a struct allowed to be NULL: PySpark cannot collect a struct that is NULL otherwise."""
    structs = [each for each in columns if "struct<" in each.type]
    if not structs:
        return shape.text
    values = {each: f"CAST({quoted(each.name)} AS {quoted_type(each.type)})" for each in structs}
    outputs = [named(values.get(each, quoted(each.name)), each.name) for each in columns]
    if shape.weighted:
        outputs.append(quoted(WEIGHT))
    return f"SELECT {', '.join(outputs)} FROM ({shape.text})"
