"""Reading: a table at a snapshot, and any Spark SQL query with every lake table at one snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.engine import Engine
from anabranch.errors import NotFoundError
from anabranch.inputs import TickInputs
from anabranch.pinned import Pinned, pin
from anabranch.store.protocol import Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def table(engine: Engine, name: str, at: Version | None = None) -> DataFrame:
    """The rows of a source or stream table, as readers see them."""
    if at is None and engine.transaction is not None:
        pinned = pin(engine.store, engine.transaction.pinned)
        if pinned.find(name) not in pinned.nodes:
            return engine.transaction.read(name)
    else:
        _check_snapshot(engine, at)
        pinned = pin(engine.store, at)
    return rows_of(engine, pinned, pinned.id_of(name))


def rows_of(engine: Engine, pinned: Pinned, table: str) -> DataFrame:
    """The visible rows of a table by id, at the pinned snapshot."""
    if table in pinned.nodes:
        return TickInputs(engine.store, pinned).node_rows(pinned.nodes[table], pinned.version)
    return engine.store.read(table, pinned.version)


def _check_snapshot(engine: Engine, at: Version | None) -> None:
    if at is None:
        return
    kept = [each.version for each in engine.store.snapshots()]
    if at not in kept:
        raise NotFoundError(
            "SNAPSHOT_NOT_FOUND",
            f"snapshot {at} is not kept",
            f"kept snapshots: {kept[0]} to {kept[-1]}",
            "lake.history() tells which tick made which snapshot",
        )
