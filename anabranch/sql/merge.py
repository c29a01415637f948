"""MERGE -> the SELECT of its actions, and the SELECT that checks no row is hit twice.

target FULL JOIN source ON condition, each joined row given to the first clause whose condition holds:
both sides there: WHEN MATCHED; source alone: WHEN NOT MATCHED; target alone: WHEN NOT MATCHED BY SOURCE
"""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.algebra.relation import Column
from anabranch.errors import QueryError
from anabranch.sql.dml import ROWID, SchemaOf, Target, assigned, stored_values
from anabranch.sql.statement_nodes import (
    Assignment,
    DeleteClause,
    Fragment,
    InsertClause,
    Merge,
    UpdateClause,
    ViewOf,
    quoted,
)

ACTION = "__ab_action"
PRESENT = "__ab_from_source"
SOURCE = "__ab_source"


@dataclass(frozen=True)
class MergeQueries:
    """`actions`: __ab_rowid, __ab_action, the columns. `violations` counts target rows hit by several source rows."""

    actions: str
    violations: str | None


@dataclass(frozen=True)
class _Clause:
    """One WHEN as SQL text: when it acts, what it does, the new values by column."""

    condition: str
    action: str
    values: dict[str, str]


def merge_queries(statement: Merge, target: Target, view_of: ViewOf, schema_of: SchemaOf) -> MergeQueries:
    """The actions in Spark's order of clauses. More than zero violations is MERGE_CARDINALITY_VIOLATION."""
    alias = statement.alias or statement.target[-1]
    source_alias = statement.source_alias or SOURCE
    source_rows = statement.source.with_views(view_of)
    source_columns = schema_of(f"SELECT * FROM {source_rows}")
    source = f"(SELECT *, TRUE AS {PRESENT} FROM {source_rows}) AS {quoted(source_alias)}"
    on = statement.on.with_views(view_of)
    joined = f" FROM {target.view} AS {quoted(alias)} FULL OUTER JOIN {source} ON {on}"
    builder = _Builder(target, alias, source_alias, source_columns, joined, view_of, schema_of)
    clauses = builder.clauses(statement)
    fires = " OR ".join(f"({each.condition})" for each in clauses)
    actions = " ".join(f"WHEN {each.condition} THEN '{each.action}'" for each in clauses)
    columns = ", ".join(builder.column(each, clauses) for each in target.columns)
    distinct = "DISTINCT " if _one_plain_delete(statement) and len(clauses) == 1 else ""
    text = (
        f"SELECT {distinct}{quoted(alias)}.{ROWID} AS {ROWID}, CASE {actions} END AS {ACTION}, {columns}"
        f"{joined} WHERE {fires}"
    )
    return MergeQueries(
        text, None if _one_plain_delete(statement) else _violations(statement, target, alias, source, on)
    )


def _one_plain_delete(statement: Merge) -> bool:
    """Spark allows several matches where every one of them deletes, and where nothing is done with them."""
    match statement.matched:
        case () | (DeleteClause(condition=None),):
            return True
    return False


def _violations(statement: Merge, target: Target, alias: str, source: str, on: str) -> str:
    rowid = f"{quoted(alias)}.{ROWID}"
    return (
        f"SELECT count(*) AS violations FROM (SELECT {rowid} FROM {target.view} AS {quoted(alias)} JOIN {source} "
        f"ON {on} GROUP BY {rowid} HAVING count(*) > 1)"
    )


@dataclass(frozen=True)
class _Builder:
    target: Target
    alias: str
    source_alias: str
    source_columns: tuple[Column, ...]
    joined: str
    view_of: ViewOf
    schema_of: SchemaOf

    def clauses(self, statement: Merge) -> list[_Clause]:
        here, there = f"{quoted(self.alias)}.{ROWID}", f"{quoted(self.source_alias)}.{PRESENT}"
        both = f"{here} IS NOT NULL AND {there} IS NOT NULL"
        return [
            *(self._clause(each, both) for each in statement.matched),
            *(self._clause(each, f"{here} IS NULL") for each in statement.not_matched),
            *(self._clause(each, f"{there} IS NULL") for each in statement.not_matched_by_source),
        ]

    def _clause(self, clause: UpdateClause | DeleteClause | InsertClause, presence: str) -> _Clause:
        condition = self._condition(clause.condition, presence)
        match clause:
            case DeleteClause():
                return _Clause(condition, "delete", {})
            case UpdateClause():
                return _Clause(condition, "update", self._values(clause.assignments))
            case InsertClause():
                return _Clause(condition, "insert", self._values(clause.assignments))

    def _condition(self, condition: Fragment | None, presence: str) -> str:
        return presence if condition is None else f"{presence} AND ({condition.with_views(self.view_of)})"

    def _values(self, assignments: tuple[Assignment, ...] | None) -> dict[str, str]:
        if assignments is None:
            values = self._all_by_name()
        else:
            values = assigned(assignments, self.target, self.alias, self.view_of)
        return stored_values(values, self.target, self.joined, self.schema_of)

    def _all_by_name(self) -> dict[str, str]:
        names = {each.name.lower(): each.name for each in self.source_columns}
        missing = [each.name for each in self.target.columns if each.name.lower() not in names]
        if missing:
            raise QueryError(
                "COLUMN_NOT_FOUND",
                f"the source of MERGE has no column {missing[0]!r}",
                f"existing columns: {', '.join(names.values())}",
                "name the columns to set instead of *",
            )
        source = quoted(self.source_alias)
        return {each.name: f"{source}.{quoted(names[each.name.lower()])}" for each in self.target.columns}

    def column(self, column: Column, clauses: list[_Clause]) -> str:
        """The column's new value: an update keeps what it does not set, an insert leaves it NULL."""
        kept = f"{quoted(self.alias)}.{quoted(column.name)}"
        cases = []
        for each in clauses:
            value = each.values.get(column.name, "NULL" if each.action == "insert" else kept)
            cases.append(f"WHEN {each.condition} THEN {value}")
        return f"CASE {' '.join(cases)} END AS {quoted(column.name)}"
