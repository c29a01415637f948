"""CREATE, ALTER and DROP of tables and views."""

from __future__ import annotations

import re

from anabranch.algebra.relation import RESERVED_PREFIX, Column
from anabranch.definitions import VIEW
from anabranch.engine import Engine
from anabranch.errors import NotFoundError, QueryError, StateError
from anabranch.pinned import Pinned
from anabranch.reads import Views, spark_errors
from anabranch.spark.analyze import SparkAnalyzer
from anabranch.sql import statement_nodes as statements
from anabranch.store.protocol import MAIN, Commit, DocumentIs
from anabranch.store.transaction import Transaction
from anabranch.writes import source_of, write

_HAS_LENGTH = re.compile(r"\b(?:varchar|char|character)\s*\(", re.IGNORECASE)


def run(engine: Engine, statement: statements.Definition) -> int:
    """Run the statement; returns the snapshot."""
    if isinstance(statement, statements.CreateView | statements.DropView):
        engine.check_outside_transaction("defining a view")
    match statement:
        case statements.CreateView():
            return _create_view(engine, statement)
        case statements.DropView():
            return _drop_view(engine, statement)
        case _:
            return write(engine, lambda current: _table_statement(engine, current, statement)).number


def _table_statement(engine: Engine, current: Transaction, statement: statements.Definition) -> None:
    pinned = engine.pin()
    match statement:
        case statements.CreateTable():
            _create_table(engine, current, pinned, statement)
        case statements.DropTable(name, if_exists):
            if if_exists and not current.has_table(".".join(name)):
                return
            source = source_of(engine, current, ".".join(name))
            _check_not_read(pinned, source.id, source.name)
            current.drop_table(source.id)
        case statements.AddColumns(name, columns):
            source = source_of(engine, current, ".".join(name))
            for column in columns_of_definition(engine, columns):
                current.add_column(source.id, column)
        case statements.DropColumns(name, names, if_exists):
            source = source_of(engine, current, ".".join(name))
            known = {each.name.lower() for each in source.columns}
            for each in names:
                if each.lower() in known or not if_exists:
                    current.drop_column(source.id, each)
        case statements.RenameColumn(name, column, new_name):
            _check_names((Column(new_name, "string"),))
            current.rename_column(source_of(engine, current, ".".join(name)).id, column, new_name)


def _create_table(engine: Engine, current: Transaction, pinned: Pinned, statement: statements.CreateTable) -> None:
    name = ".".join(statement.name)
    if statement.options:
        raise QueryError(
            "CLAUSE_NOT_SUPPORTED",
            f"CREATE TABLE does not take {statement.options[0]}",
            "the lake chooses format and place itself",
            "leave the clause out",
        )
    if statement.name[:-1] and ".".join(statement.name[:-1]).lower() != MAIN:
        raise NotFoundError(
            "SCHEMA_NOT_FOUND",
            f"there is no schema {'.'.join(statement.name[:-1])!r}",
            f"all tables of a lake are in the schema {MAIN!r}",
            f"write CREATE TABLE {statement.name[-1]}",
        )
    if current.has_table(name) or pinned.find(name) is not None or name.lower() in pinned.views:
        if statement.if_not_exists:
            return
        if not (statement.or_replace and current.has_table(name)):
            raise StateError(
                "TABLE_EXISTS",
                f"there is a table {name!r} already",
                f"existing tables: {', '.join(pinned.table_names)}",
                "choose another name, or write CREATE TABLE IF NOT EXISTS",
            )
        replaced = source_of(engine, current, name)
        _check_not_read(pinned, replaced.id, replaced.name)
        current.drop_table(replaced.id)
    if statement.query is None:
        current.create_table(name, columns_of_definition(engine, statement.columns))
        return
    with spark_errors(pinned), Views(engine, pinned, transaction=current) as views:
        rows = engine.session.sql(statement.query.with_views(views.view_of))
        columns = tuple(Column(field.name, field.dataType.simpleString()) for field in rows.schema.fields)
        _check_names(columns)
        current.write(current.create_table(name, columns).id, inserts=rows)


def columns_of_definition(engine: Engine, given: tuple[statements.ColumnDefinition, ...]) -> tuple[Column, ...]:
    """Declared columns with the types as Spark writes them; what the lake does not keep is refused."""
    for each in given:
        for clause, value in (("NOT NULL", each.not_null), ("DEFAULT", each.default)):
            if value:
                raise QueryError(
                    "CLAUSE_NOT_SUPPORTED",
                    f"column {each.name!r} has {clause}, which the lake does not keep",
                    hint="leave it out and check the rows that are written",
                )
        if _HAS_LENGTH.search(each.type):
            raise QueryError(
                "TYPE_NOT_STORABLE",
                f"column {each.name!r} has the type {each.type}, whose length would be forgotten",
                hint="use STRING",
            )
    typed = ", ".join(f"CAST(NULL AS {each.type}) AS {statements.quoted(each.name)}" for each in given)
    columns = SparkAnalyzer(engine.session).schema(f"SELECT {typed}")
    _check_names(columns)
    return columns


def _check_names(columns: tuple[Column, ...]) -> None:
    seen: set[str] = set()
    for each in columns:
        if each.name.lower().startswith(RESERVED_PREFIX):
            raise QueryError(
                "RESERVED_NAME", f"column {each.name!r} starts with {RESERVED_PREFIX}, which is ours", hint="rename it"
            )
        if each.name.lower() in seen:
            raise QueryError("DUPLICATE_COLUMN", f"column {each.name!r} appears twice", hint="rename one of them")
        seen.add(each.name.lower())


def _check_not_read(pinned: Pinned, table: str, name: str) -> None:
    readers = pinned.graph.readers.get(table, ())
    if readers:
        raise StateError(
            "TABLE_IS_READ",
            f"table {name!r} is read by stream tables",
            f"these read it: {', '.join(pinned.nodes[each].name for each in readers)}",
            "drop them first with DROP STREAM TABLE",
        )


def _create_view(engine: Engine, statement: statements.CreateView) -> int:
    name = ".".join(statement.name)
    pinned = engine.pin()
    if statement.temporary or statement.columns:
        raise QueryError("CLAUSE_NOT_SUPPORTED", "views are permanent and take their columns from the query")
    existing = pinned.views.get(name.lower())
    if pinned.find(name) is not None or (existing and not statement.or_replace):
        if existing and statement.if_not_exists:
            return pinned.version.number
        raise StateError("TABLE_EXISTS", f"there is a table or view {name!r} already", hint="choose another name")
    engine.compile(statement.query, pinned)
    key = VIEW + (existing[0] if existing else name)
    requirement = DocumentIs(key, existing[1] if existing else None)
    return engine.store.commit(Commit((), (requirement,), {key: statement.query}, message=f"view {name}")).number


def _drop_view(engine: Engine, statement: statements.DropView) -> int:
    name = ".".join(statement.name)
    pinned = engine.pin()
    existing = pinned.views.get(name.lower())
    if existing is None:
        if statement.if_exists:
            return pinned.version.number
        names = ", ".join(given for given, _ in pinned.views.values())
        raise NotFoundError("VIEW_NOT_FOUND", f"there is no view {name!r}", f"existing views: {names or 'none'}")
    return engine.store.commit(Commit(documents={VIEW + existing[0]: None}, message=f"drop view {name}")).number
