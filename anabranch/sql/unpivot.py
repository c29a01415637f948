"""UNPIVOT: every row once per source column.

UNPIVOT (v FOR n IN (a, b))  =  the rows (..., 'a', a) and (..., 'b', b), those with v NULL left out
"""

from __future__ import annotations

from anabranch.algebra.expression import Expression, expression
from anabranch.algebra.relation import Expand, Filter
from anabranch.algebra.types import quoted_type
from anabranch.sql.build import Builder
from anabranch.sql.context import Context, Rows
from anabranch.sql.from_syntax import Unpivot
from anabranch.sql.pivot import pivot_schema
from anabranch.sql.scope import Field, Scope
from anabranch.sql.syntax import Expr, Name


def unpivot_rows(context: Context, rows: Rows, item: Unpivot) -> Rows:
    """The rows, with a name column and value columns in place of the source columns."""
    builder = Builder(context, Scope(rows.fields))
    sources = [context.typed([builder.draft(each) for each in columns]) for columns, _ in item.sources]
    used = {name for values in sources for value in values for name in value.columns}
    kept = [each for each in rows.fields if not each.hidden and each.column.name not in used]
    schema = pivot_schema(context, rows, context.source.slice(item.clause, item.clause_end))
    added = [context.fresh(each.name, each.type) for each in schema[len(kept) :]]
    columns = (*(each.column for each in kept), *added)
    projections = []
    for values, (nodes, alias) in zip(sources, item.sources, strict=True):
        name = alias or "_".join(_source_name(node) for node in nodes)
        label = Expression(("'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'",), "string")
        cells = [_as_type(value, column.type) for value, column in zip(values, added[1:], strict=True)]
        projections.append((*(each.column.value for each in kept), label, *cells))
    relation = Expand(rows.relation, tuple(projections), columns)
    fields = tuple(Field(shown.name, column) for shown, column in zip(schema, columns, strict=True))
    if item.include_nulls:
        return Rows(relation, fields)
    tests = " OR ".join(["{} IS NOT NULL"] * (len(added) - 1))
    present = expression(tests, "boolean", *(each.value for each in added[1:]))
    return Rows(Filter(relation, (present,)), fields)


def _source_name(node: Expr) -> str:
    return node.parts[-1] if isinstance(node, Name) else "column"


def _as_type(value: Expression, type: str) -> Expression:
    if value.type == type:
        return value
    return expression(f"CAST({{}} AS {quoted_type(type)})", type, value)
