"""INSERT, UPDATE, DELETE and MERGE -> plain SELECTs that say which rows go and which come.

The target is read through a view that has its columns and `__ab_rowid`. Every SELECT yields the target's columns in
their order, cast as Spark's ANSI store assignment does:

    insert:  <columns>
    delete:  __ab_rowid
    update:  __ab_rowid, <columns>
    merge:   __ab_rowid, __ab_action ('update', 'delete', 'insert'), <columns>
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anabranch.algebra.relation import Column
from anabranch.algebra.types import assignable, quoted_type
from anabranch.errors import QueryError
from anabranch.sql.statement_nodes import Assignment, Delete, Fragment, Insert, Update, ViewOf, quoted

ROWID = "__ab_rowid"

SchemaOf = Callable[[str], tuple[Column, ...]]
"""Spark's schema of a query text."""


@dataclass(frozen=True)
class Target:
    """The table a statement changes: its columns, and the text that reads it with `__ab_rowid`."""

    columns: tuple[Column, ...]
    view: str

    def column(self, name: str) -> Column:
        for each in self.columns:
            if each.name.lower() == name.lower():
                return each
        raise QueryError(
            "COLUMN_NOT_FOUND",
            f"column {name!r} is not in the table",
            f"existing columns: {', '.join(each.name for each in self.columns)}",
        )


def insert_query(statement: Insert, target: Target, view_of: ViewOf, schema_of: SchemaOf) -> str:
    """The rows to insert. Columns that are not named get NULL."""
    prefix = "" if statement.prefix is None else statement.prefix.with_views(view_of) + " "
    query = prefix + statement.query.with_views(view_of)
    given = schema_of(query)
    names = _inserted_columns(statement, target, given)
    source = ", ".join(f"__ab_{place}" for place in range(len(given)))
    values = {name.lower(): (f"__ab_{place}", given[place].type) for place, name in enumerate(names)}
    outputs = []
    for column in target.columns:
        text, type = values.get(column.name.lower(), ("NULL", "void"))
        outputs.append(f"{stored(text, type, column)} AS {quoted(column.name)}")
    return f"SELECT {', '.join(outputs)} FROM ({query}) AS __ab_rows({source})"


def _inserted_columns(statement: Insert, target: Target, given: Sequence[Column]) -> tuple[str, ...]:
    if statement.by_name:
        names = tuple(each.name for each in given)
    else:
        names = statement.columns or tuple(each.name for each in target.columns)
    if len(names) != len(given):
        raise QueryError(
            "INSERT_COLUMN_ARITY_MISMATCH",
            f"{len(names)} columns are to be filled and the query gives {len(given)}",
            f"table columns: {', '.join(names)}; query columns: {', '.join(each.name for each in given)}",
            "name the columns to fill, or give a value for each",
        )
    check_distinct([target.column(name).name for name in names])
    return names


def check_distinct(names: Sequence[str]) -> None:
    """A column may be assigned once."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise QueryError("DUPLICATE_ASSIGNMENT", f"column {twice[0]!r} is assigned more than once")


def stored(text: str, type: str, column: Column) -> str:
    """The value as it is stored in the column, or the refusal of Spark's store assignment."""
    if type == column.type and "struct<" not in type:  # of a struct that may be NULL, PySpark wants fields that may be
        return text
    if not assignable(type, column.type):
        raise QueryError(
            "INCOMPATIBLE_ASSIGNMENT",
            f"a value of type {type} cannot be stored in column {column.name!r} of type {column.type}",
            "Spark's ANSI store assignment allows no such conversion",
            f"write CAST(... AS {column.type})",
        )
    return f"CAST({text} AS {quoted_type(column.type)})"


def delete_query(statement: Delete, target: Target, view_of: ViewOf) -> str:
    """The row ids to delete."""
    alias = quoted(statement.alias or statement.target[-1])
    return f"SELECT {alias}.{ROWID} FROM {target.view} AS {alias}{where(statement.condition, view_of)}"


def where(condition: Fragment | None, view_of: ViewOf) -> str:
    return "" if condition is None else f" WHERE {condition.with_views(view_of)}"


def update_query(statement: Update, target: Target, view_of: ViewOf, schema_of: SchemaOf) -> str:
    """The row ids to replace and the new rows."""
    alias = quoted(statement.alias or statement.target[-1])
    tail = f" FROM {target.view} AS {alias}{where(statement.condition, view_of)}"
    values = assigned(statement.assignments, target, statement.alias or statement.target[-1], view_of)
    outputs = stored_values(values, target, f" FROM {target.view} AS {alias}", schema_of)
    columns = [
        f"{outputs.get(each.name, f'{alias}.{quoted(each.name)}')} AS {quoted(each.name)}" for each in target.columns
    ]
    return f"SELECT {alias}.{ROWID} AS {ROWID}, {', '.join(columns)}{tail}"


def assigned(assignments: Sequence[Assignment], target: Target, alias: str, view_of: ViewOf) -> dict[str, str]:
    """The new values by column, as text."""
    values: dict[str, str] = {}
    for each in assignments:
        parts = each.column
        name = parts[1] if len(parts) == 2 and parts[0].lower() == alias.lower() else parts[0]
        if len(parts) > 2 or (len(parts) == 2 and name == parts[0]):
            raise QueryError(
                "NESTED_ASSIGNMENT",
                f"a field inside a column cannot be assigned: {'.'.join(parts)}",
                hint=f"assign the whole column {parts[0]!r}, for example with named_struct",
            )
        column = target.column(name)
        if column.name in values:
            check_distinct([column.name, column.name])
        values[column.name] = "NULL" if each.value is None else each.value.with_views(view_of)
    return values


def stored_values(values: dict[str, str], target: Target, tail: str, schema_of: SchemaOf) -> dict[str, str]:
    """The new values cast to their columns; one look at Spark's types for all of them."""
    if not values:
        return {}
    select = ", ".join(f"{text} AS __ab_{place}" for place, text in enumerate(values.values()))
    types = schema_of(f"SELECT {select}{tail}")
    return {
        name: stored(f"({text})", given.type, target.column(name))
        for (name, text), given in zip(values.items(), types, strict=True)
    }
