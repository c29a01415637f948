"""The names Spark gives to columns without an alias: asked of Spark, over the same names and types."""

from __future__ import annotations

from contextlib import suppress

from anabranch.algebra.types import quoted_type
from anabranch.errors import QueryError
from anabranch.sql.build import Builder
from anabranch.sql.scope import Field
from anabranch.sql.statement_nodes import quoted
from anabranch.sql.syntax import Expr


def spark_name(builder: Builder, node: Expr) -> str:
    """The name of `SELECT node`; empty where Spark cannot tell it from the expression alone."""
    tables: dict[tuple[str, ...], list[Field]] = {}
    for each in builder.scope.fields:
        if not each.hidden:
            tables.setdefault(each.qualifier, []).append(each)
    sources = ", ".join(_source(qualifier, fields) for qualifier, fields in tables.items())
    item = builder.context.source.slice(node.start, node.end)
    with suppress(QueryError):
        schema = builder.context.analyzer.schema(f"SELECT {item}" + (f" FROM {sources}" if sources else ""))
        if len(schema) == 1:
            return schema[0].name
    return ""


def _source(qualifier: tuple[str, ...], fields: list[Field]) -> str:
    columns = ", ".join(f"CAST(NULL AS {quoted_type(each.column.type)}) AS {quoted(each.name)}" for each in fields)
    return f"(SELECT {columns})" + (f" AS {quoted(qualifier[-1])}" if qualifier else "")
