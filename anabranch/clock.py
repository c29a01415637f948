"""Time as a source of a lake: one time zone, one instant a tick, and queries that see that instant as now."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.definitions import StreamTable
from anabranch.pinned import TIME_ZONE, Pinned
from anabranch.sql.clock import fixed
from anabranch.sql.determinism import WITHOUT_PARENTHESES
from anabranch.store.protocol import Document, DocumentIs, Requirement

SESSION_TIME_ZONE = "spark.sql.session.timeZone"


def texts_at(pinned: Pinned, node: StreamTable, clock: str | None) -> tuple[str, Mapping[str, str]]:
    """A stream table's query and the views in it, the clock fixed."""
    if clock is None:
        return node.query, node.views
    columns = {column.name.lower() for table in node.inputs for column in pinned.columns(table)}
    zone = node.session[SESSION_TIME_ZONE]
    texts = {name: fixed(text, clock, zone, WITHOUT_PARENTHESES - columns) for name, text in node.views.items()}
    return fixed(node.query, clock, zone, WITHOUT_PARENTHESES - columns), texts


def zone_documents(pinned: Pinned, node: StreamTable) -> dict[str, Document]:
    """The first stream table that reads the clock decides in which time zone the lake's days begin."""
    if node.clock is None or pinned.time_zone is not None:
        return {}
    return {TIME_ZONE: node.session[SESSION_TIME_ZONE]}


def zone_requirements(pinned: Pinned, node: StreamTable) -> tuple[Requirement, ...]:
    """That nobody else decided on the time zone meanwhile."""
    return () if node.clock is None else (DocumentIs(TIME_ZONE, pinned.time_zone),)
