"""Generators: explode and its kin, in LATERAL VIEW, in FROM, in a SELECT list.

LATERAL VIEW OUTER explode(xs) v AS x  =  Generate(rows, explode(xs), outer, x)
"""

from __future__ import annotations

from anabranch.algebra.expression import Expression, Outer, Part, Ref
from anabranch.algebra.relation import Column, Generate
from anabranch.algebra.types import quoted_type
from anabranch.sql.build import Builder, joined
from anabranch.sql.context import Context, Rows
from anabranch.sql.from_syntax import LateralView
from anabranch.sql.scope import Field, Scope
from anabranch.sql.statement_nodes import quoted
from anabranch.sql.subqueries import apply_subqueries
from anabranch.sql.syntax import Call


def lateral_view(context: Context, rows: Rows, item: LateralView, parent: Scope | None) -> Rows:
    """The rows joined with what the generator makes of each."""
    builder = Builder(context, Scope(rows.fields, parent))
    relation = apply_subqueries(builder, rows.relation, [item.call])
    return generated(context, Rows(relation, rows.fields), builder, item.call, item.outer, item.alias, item.columns)


def generated(
    context: Context,
    rows: Rows,
    builder: Builder,
    call: Call,
    outer: bool,
    alias: str | None,
    names: tuple[str, ...],
) -> Rows:
    """Generate, its columns under the alias. `explode_outer(xs)` is the outer form of `explode(xs)`."""
    generator, forced = _inner_form(builder, call)
    schema = schema_over(context, generator)
    names = names or tuple(each.name for each in schema)
    columns = tuple(context.fresh(name, each.type) for name, each in zip(names, schema, strict=True))
    relation = Generate(rows.relation, generator, outer or forced, columns)
    qualifier = () if alias is None else (alias,)
    fields = tuple(Field(name, column, qualifier) for name, column in zip(names, columns, strict=True))
    return Rows(relation, rows.fields + fields)


def _inner_form(builder: Builder, call: Call) -> tuple[Expression, bool]:
    draft = builder.draft(call)
    if not call.function.endswith("_outer"):
        return Expression(draft.parts, "table", draft.deterministic), False
    plain = call.function.removesuffix("_outer")
    parts: list[Part] = [plain, *builder.span(call, call.start + 2 * len(call.name) - 1, call.end)]
    return Expression(joined(parts), "table", draft.deterministic), True


def schema_over(context: Context, draft: Expression) -> tuple[Column, ...]:
    """Spark's schema of `SELECT draft` over the columns it reads, each under its own name."""
    holes = sorted({part.name for part in draft.parts if isinstance(part, Ref | Outer)})
    given = [f"CAST(NULL AS {quoted_type(context.findings.types[name])}) AS {quoted(name)}" for name in holes] or ["1"]
    text = draft.text(lambda hole: quoted(hole.name))
    return context.analyzer.schema(f"SELECT {text} FROM (SELECT {', '.join(given)})")
