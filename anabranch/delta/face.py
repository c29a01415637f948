"""From the operator that is kept (the core) to the rows readers see: the Filters and Projects above it.

    stored row = visible columns + hidden columns [+ flag]

Hidden columns travel through the chain untouched. Where rows that a Filter drops must stay stored (they may come back
without being read again), the Filter becomes a flag, and expressions above it are not evaluated on flagged-off rows:
the query would not evaluate them either, and they may raise.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.algebra.expression import Expression, expression
from anabranch.algebra.relation import Filter, Output, Project, Relation
from anabranch.delta.parts import FLAG

Chain = tuple[Filter | Project, ...]


def peel(relation: Relation) -> tuple[Relation, Chain]:
    """The core below the deterministic Filters and Projects at the top, and these, innermost first."""
    chain: list[Filter | Project] = []
    while isinstance(relation, Filter | Project) and _is_deterministic(relation):
        chain.insert(0, relation)
        relation = relation.child
    return relation, tuple(chain)


def source_of(chain: Chain, name: str) -> str | None:
    """The core's column that a visible column shows unchanged, if it does."""
    for step in reversed(chain):
        if isinstance(step, Project):
            value = next(each.value for each in step.outputs if each.name == name)
            if not value.is_column:
                return None
            name = next(iter(value.columns))
    return name


def shown_as(chain: Chain, visible: Sequence[str], core_column: str) -> str | None:
    """The visible column that shows a core's column unchanged, if one does."""
    return next((name for name in visible if source_of(chain, name) == core_column), None)


def with_face(rows: Relation, chain: Chain, hidden: Sequence[str]) -> Relation:
    """The chain applied to rows that carry the core's columns and the hidden ones; Filters drop rows."""
    for step in chain:
        if isinstance(step, Filter):
            rows = Filter(rows, step.predicates)
        else:
            rows = Project(rows, (*step.outputs, *_passed(rows, hidden)))
    return rows


def with_flagged_face(rows: Relation, chain: Chain, hidden: Sequence[str]) -> Relation:
    """The chain applied to rows that carry a flag as well; Filters switch it off, and off it stays."""
    flag = rows.column(FLAG).value
    for step in chain:
        if isinstance(step, Filter):
            others = _passed(rows, [name for name in rows.names if name != FLAG])
            rows = Project(rows, (*others, Output(FLAG, _and_all(flag, step.predicates))))
        else:
            shown = tuple(Output(each.name, _where(flag, each.value)) for each in step.outputs)
            rows = Project(rows, (*shown, *_passed(rows, [*hidden, FLAG])))
    return rows


def has_filter(chain: Chain) -> bool:
    return any(isinstance(step, Filter) for step in chain)


def _passed(rows: Relation, names: Sequence[str]) -> tuple[Output, ...]:
    return tuple(Output(name, rows.column(name).value) for name in names)


def _and_all(flag: Expression, predicates: Sequence[Expression]) -> Expression:
    tests = " AND ".join("{}" for _ in predicates)
    return expression(f"CASE WHEN {{}} THEN coalesce({tests}, false) ELSE false END", "boolean", flag, *predicates)


def _where(flag: Expression, value: Expression) -> Expression:
    return value if value.is_column else expression("CASE WHEN {} THEN {} END", value.type, flag, value)


def _is_deterministic(relation: Filter | Project) -> bool:
    values = relation.predicates if isinstance(relation, Filter) else [each.value for each in relation.outputs]
    return all(value.deterministic for value in values)
