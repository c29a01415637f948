"""`lake.sql`: one statement, told apart and handed to the part of the engine that does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from anabranch import definition_statements, manage, other_statements, refresh, row_statements
from anabranch.alter import UNCHANGED, Alteration, alter
from anabranch.engine import Engine
from anabranch.errors import NotFoundError
from anabranch.observe import tables as observed
from anabranch.observe.explain import explain
from anabranch.reads import run_select
from anabranch.sql import statement_nodes as statements
from anabranch.sql.statements import parse_statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def run_statement(engine: Engine, text: str) -> DataFrame:
    """Run one statement; statements that are no queries answer with what they did."""
    statement = parse_statement(text)
    match statement:
        case statements.SelectStatement():
            return run_select(engine, statement.query)
        case statements.OtherStatement():
            return other_statements.run(engine, statement)
        case statements.Insert() | statements.Update() | statements.Delete() | statements.Merge():
            return _answer(engine, {"snapshot": row_statements.run(engine, statement)})
        case (
            statements.CreateTable()
            | statements.DropTable()
            | statements.AddColumns()
            | statements.DropColumns()
            | statements.RenameColumn()
            | statements.CreateView()
            | statements.DropView()
        ):
            return _answer(engine, {"snapshot": definition_statements.run(engine, statement)})
        case _:
            return _stream_statement(engine, statement)


def _stream_statement(engine: Engine, statement: statements.StreamStatement) -> DataFrame:
    match statement:
        case statements.CreateStreamTable():
            return _answer(engine, {"snapshot": _create(engine, statement)})
        case statements.AlterStreamTable(name, schedule, clear_schedule, mode, query):
            wanted: Any = None if clear_schedule else (UNCHANGED if schedule is None else schedule)
            report = alter(engine, _dotted(name), Alteration(query, wanted, mode))
            return _answer(engine, {"snapshot": report.snapshot})
        case statements.PauseStreamTable(name):
            manage.hold(engine, (_dotted(name),), paused=True)
        case statements.ResumeStreamTable(name):
            manage.hold(engine, (_dotted(name),), paused=False)
        case statements.DropStreamTable(name, if_exists, cascade):
            try:
                manage.drop(engine, _dotted(name), cascade)
            except NotFoundError:
                if not if_exists:
                    raise
        case statements.RefreshStreamTable(names):
            return observed.report_frame(engine, refresh.refresh(engine, [_dotted(each) for each in names]))
        case statements.ShowStreamTables():
            return engine.session.createDataFrame(observed.status(engine))
        case statements.ExplainStreamTable(name):
            return _answer(engine, {"plan": str(explain(engine, _dotted(name)))})
    return _answer(engine, {"snapshot": engine.store.head().number})


def _create(engine: Engine, statement: statements.CreateStreamTable) -> int:
    name = _dotted(statement.name)
    pinned = engine.pin()
    found = pinned.find(name)
    if found in pinned.nodes and statement.if_not_exists:
        return pinned.version.number
    if found in pinned.nodes and statement.or_replace:
        schedule = UNCHANGED if statement.schedule is None else statement.schedule
        return alter(engine, name, Alteration(statement.query, schedule, statement.refresh_mode)).snapshot
    request = manage.Request(name, statement.query, statement.schedule, statement.refresh_mode or "AUTO")
    return manage.create(engine, request).snapshot


def _answer(engine: Engine, row: dict[str, Any]) -> DataFrame:
    return engine.session.createDataFrame(pa.table({name: [value] for name, value in row.items()}))


def _dotted(name: tuple[str, ...]) -> str:
    return ".".join(name)
