"""WITH RECURSIVE: anchor UNION ALL step -> Fixpoint."""

from __future__ import annotations

from anabranch.algebra.relation import Fixpoint, Output, Project, Recursion
from anabranch.sql.context import Context, Rows
from anabranch.sql.from_syntax import Table
from anabranch.sql.parse import nodes
from anabranch.sql.query_syntax import Body, Cte, Query, SetBody
from anabranch.sql.refused import refused
from anabranch.sql.scope import Field, Scope
from anabranch.sql.set_operations import combine


def is_recursive(cte: Cte) -> bool:
    """Whether the query reads the name it defines."""
    return _reads(cte.query, cte.name)


def _reads(root: object, name: str) -> bool:
    return any(
        isinstance(each, Table) and len(each.parts) == 1 and each.parts[0].lower() == name.lower()
        for each in nodes(root)
    )


def recursive_rows(context: Context, cte: Cte, parent: Scope | None) -> Rows:
    """The fixpoint of a recursive common table expression."""
    query = cte.query
    body = query.body
    plain = not (query.order or query.limit or query.offset or query.ctes)
    if not (isinstance(body, SetBody) and body.operator == "UNION" and body.all and plain):
        raise refused("RECURSION_SHAPE", cte.name)
    if _reads(body.left, cte.name):
        raise refused("RECURSION_SHAPE", cte.name)
    anchor = _rows(context, body.left, parent)
    names = cte.columns or tuple(each.name for each in anchor.fields)
    anchor = context.renamed(anchor, (), names)
    recursion = Recursion(_identity(context, cte), anchor.relation.columns)
    inner = context.with_cte(cte.name, Rows(recursion, anchor.fields))
    step = _rows(inner, body.right, parent)
    # the casts of a UNION ALL, were one needed; Spark wants equal types
    union = combine(context, "UNION", True, False, anchor, step)
    if [each.type for each in union.relation.columns] != [each.type for each in anchor.relation.columns]:
        raise refused("RECURSION_SHAPE", f"{cte.name} changes its types")
    outputs = tuple(
        Output(mine.name, theirs.column.value)
        for mine, theirs in zip(anchor.relation.columns, step.fields, strict=True)
    )
    fixpoint = Fixpoint(recursion.name, anchor.relation, Project(step.relation, outputs))
    fields = tuple(Field(name, each.column) for name, each in zip(names, anchor.fields, strict=True))
    return Rows(fixpoint, fields)


def _rows(context: Context, body: Body, parent: Scope | None) -> Rows:
    return context.rows_of(Query(body.start, body.end, body), parent)


def _identity(context: Context, cte: Cte) -> str:
    return context.fresh(f"recursion_{cte.name}", "").name
