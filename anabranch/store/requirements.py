"""Checks what a commit relies on, at the snapshot it will be built upon."""

from __future__ import annotations

from anabranch.errors import ConflictError
from anabranch.store.catalog import Catalog
from anabranch.store.documents import DocumentReader
from anabranch.store.protocol import Action, DocumentIs, Requirement, TableUnchanged, Version, Write
from anabranch.store.versions import Versions


def check_requirements(
    catalog: Catalog,
    documents: DocumentReader,
    versions: Versions,
    base: Version,
    requirements: tuple[Requirement, ...],
    actions: tuple[Action, ...],
) -> None:
    """Raise a conflict that says what was expected and what is there."""
    for requirement in requirements:
        match requirement:
            case TableUnchanged(table, since):
                _check_unchanged(catalog, versions, base, table, since)
            case DocumentIs(key, value):
                _check_document(key, value, documents.at(base).get(key))
    for action in actions:
        if not isinstance(action, Write) or not isinstance(action.table, str) or action.since is None:
            continue
        _check_columns(catalog, base, action.table, action.since)
        if action.deletes is not None and len(action.deletes):
            _check_unchanged(catalog, versions, base, action.table, action.since)
            _check_not_compacted(catalog, base, action.table, action.since)


def _check_unchanged(catalog: Catalog, versions: Versions, base: Version, key: str, since: Version) -> None:
    table = catalog.table(key, base)
    if table is None:
        raise _failed(f"the table with id {key} has been dropped", f"Expected it as of snapshot {since}.")
    found = versions.of(table, base)
    if found > since:
        raise _failed(
            f"table {table.info.schema}.{table.info.name} has changed",
            f"Expected no change after snapshot {since}, found one in snapshot {found}.",
        )


def _check_not_compacted(catalog: Catalog, base: Version, key: str, since: Version) -> None:
    table = catalog.table(key, base)
    entries = catalog.log.changes_between(since.number, base.number)
    if table is None or entries is None or any(table.number in entry.compacted for entry in entries):
        raise _failed(
            "the table was compacted, which may give its rows new ids",
            f"The rows were found in snapshot {since}; the newest is {base}.",
        )


def _check_columns(catalog: Catalog, base: Version, key: str, since: Version) -> None:
    """Rows that were made for other columns do not fit any more."""
    table = catalog.table(key, base)
    if table is None:
        raise _failed(f"the table with id {key} has been dropped", f"Expected it as of snapshot {since}.")
    expected = catalog.table(key, since)
    if expected is None or expected.info.columns != table.info.columns:
        raise _failed(
            f"table {table.info.schema}.{table.info.name} has other columns now",
            f"Found: {', '.join(f'{each.name} {each.type}' for each in table.info.columns)}.",
        )


def _check_document(key: str, expected: str | None, found: str | None) -> None:
    if expected != found:
        raise _failed(f"document {key!r} has changed", f"Expected {_shown(expected)}, found {_shown(found)}.")


def _shown(value: str | None) -> str:
    if value is None:
        return "none"
    return repr(value if len(value) <= 200 else value[:200] + "...")


def _failed(message: str, detail: str) -> ConflictError:
    return ConflictError("REQUIREMENT_FAILED", message, detail=detail, hint="Read again and try again.")
