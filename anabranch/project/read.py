"""Reads a project folder: one stream table a file, or CREATE statements, as many as a file holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from anabranch.errors import NotFoundError, QueryError
from anabranch.project.desired import Desired, Place, WantedSource, WantedTable, WantedView, desired_of
from anabranch.project.find import PROJECT_FILE, Project
from anabranch.project.front_matter import Head, read_head
from anabranch.project.located import at
from anabranch.schedule.schedules import parse_schedule
from anabranch.settings import check
from anabranch.sql.statement_nodes import CreateStreamTable, CreateTable, CreateView, SelectStatement
from anabranch.sql.statements import parse_statement, statement_places

Wanted = WantedTable | WantedView | WantedSource
NO_SCHEDULE = ("", "none", "null", "manual")


def read_project(project: Project) -> Desired:
    """What the project's files say."""
    if project.pipeline is not None:
        from anabranch.project.pipeline import read_pipeline

        return read_pipeline(project)
    with at(Place(PROJECT_FILE)):
        for name, value in project.settings.items():
            check(name, value)
    found = [each for file in sql_files(project) for each in read_file(project, file)]
    return desired_of(project.name, found, project.settings)


def sql_files(project: Project) -> list[Path]:
    """The files that the project's patterns name, in a fixed order."""
    files = sorted({file for pattern in project.tables for file in project.folder.glob(pattern) if file.is_file()})
    if not files:
        raise NotFoundError(
            "PROJECT_IS_EMPTY",
            f"the project in {project.folder} has no files",
            f"{PROJECT_FILE} names: {', '.join(project.tables)}",
            "put a query into tables/<name>.sql; to drop all its tables, leave a file with a comment only",
        )
    return files


def read_file(project: Project, file: Path) -> Iterator[Wanted]:
    """What one file defines."""
    shown = str(file.relative_to(project.folder))
    text = file.read_text(encoding="utf-8")
    head = read_head(shown, text)
    body = "\n" * head.lines + "\n".join(text.splitlines()[head.lines :])
    with at(Place(shown)):
        places = statement_places(body)
    for start, end in places:
        place = Place(shown, body.count("\n", 0, start) + 1)
        with at(place, body[start:end]):
            yield _wanted(project, file, head, body[start:end], place, alone=len(places) == 1)


def _wanted(project: Project, file: Path, head: Head, text: str, place: Place, alone: bool) -> Wanted:
    statement = parse_statement(text)
    if head.settings and not alone:
        raise QueryError(
            "BAD_FRONT_MATTER",
            "settings at the head of a file belong to one statement, and here are several",
            hint="write them into the statements: CREATE STREAM TABLE n SCHEDULE '2s' AS ...",
        )
    match statement:
        case SelectStatement():
            if not alone:
                raise _not_alone()
            return _table(project, head, head.settings.get("name", file.stem), text, place)
        case CreateStreamTable(name, query):
            said = {"schedule": statement.schedule, "refresh_mode": statement.refresh_mode}
            offset = text.count("\n", 0, text.rfind(query))
            own = {key: value for key, value in said.items() if value is not None}
            return _table(project, head, _plain(name), query, Place(place.file, place.line + offset), own)
        case CreateView(name, query):
            return WantedView(_plain(name), query, place)
        case CreateTable(name, columns) if statement.query is None:
            return WantedSource(_plain(name), columns, place)
    raise QueryError(
        "NOT_A_DEFINITION",
        "a project's files define tables, this statement does something else",
        f"the statement is: {text[:80]}",
        "write a query, CREATE STREAM TABLE, CREATE VIEW, or CREATE TABLE with columns",
    )


def _table(
    project: Project, head: Head, name: str, query: str, place: Place, said: Mapping[str, str] | None = None
) -> WantedTable:
    """A stream table: what the statement says wins over the file's head, that over the project's defaults."""
    settings = {**project.defaults, **head.settings, **(said or {})}
    schedule = settings.get("schedule")
    if schedule is not None and schedule.lower() in NO_SCHEDULE:
        schedule = None
    mode = settings.get("refresh_mode", "AUTO").upper()
    if mode == "IMMEDIATE" and "schedule" not in {*head.settings, *(said or {})}:
        schedule = None
    with at(head.places.get("schedule", place)):
        parse_schedule(schedule)
    with at(head.places.get("refresh_mode", place)):
        _check_mode(mode)
    for key in ("diamond_consistency", "diamond_schedule_policy"):
        if key in settings:
            with at(head.places.get(key, place)):
                check(key, settings[key])
    consistency, policy = settings.get("diamond_consistency"), settings.get("diamond_schedule_policy")
    return WantedTable(name, query, place, schedule, mode, consistency, policy)


def _check_mode(mode: str) -> None:
    from anabranch.manage import read_mode

    read_mode(mode)


def _plain(name: tuple[str, ...]) -> str:
    return name[-1] if len(name) == 2 and name[0].lower() == "main" else ".".join(name)


def _not_alone() -> QueryError:
    return QueryError(
        "BARE_QUERY_NOT_ALONE",
        "a query without CREATE takes its name from the file, and this file has several statements",
        hint="give each a name with CREATE STREAM TABLE n AS ..., or a file of its own",
    )
