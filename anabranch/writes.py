"""Writing to sources: bulk loads, changes given as data, DML evaluated by Spark, several writes as one snapshot.

Every write is a transaction. Outside `lake.transaction()` it has one of its own, and is done again when somebody else
commits first, so that a conflict which doing it again would mend never reaches the user.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import StructType

from anabranch.algebra.relation import Change, Column
from anabranch.engine import Engine
from anabranch.errors import ConflictError, QueryError, RefreshError, StateError
from anabranch.reads import spark_errors
from anabranch.spark.moved import signed
from anabranch.spark.quote import quoted
from anabranch.sql.dml import stored
from anabranch.store.protocol import ROWID, WEIGHT, TableInfo, Version
from anabranch.store.transaction import Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TRIES = 30


@contextmanager
def transaction(engine: Engine) -> Iterator[None]:
    """Several writes as one snapshot."""
    if engine.transaction is not None:
        raise StateError(
            "TRANSACTION_OPEN",
            "a transaction is open already",
            "transactions do not nest",
            "end the first one, or do all writes in it",
        )
    opened = Transaction(engine.store)
    engine.transaction = opened
    try:
        yield
        opened.commit()
    except BaseException:
        opened.rollback()
        raise
    finally:
        engine.transaction = None


def write(engine: Engine, work: Callable[[Transaction], None]) -> Version:
    """Do the work in the open transaction, or in one of its own that is tried again when others commit first."""
    if engine.transaction is not None:
        work(engine.transaction)
        return engine.transaction.pinned
    for attempt in range(TRIES):
        own = Transaction(engine.store)
        try:
            work(own)
            return own.commit()
        except ConflictError:
            own.rollback()
            if attempt == TRIES - 1:
                raise
            time.sleep(random.uniform(0, 0.02 * (attempt + 1)))
        except BaseException:
            own.rollback()
            raise
    raise AssertionError("the last try returns or raises")


def append(engine: Engine, name: str, rows: Any) -> Version:
    """Add rows to a source."""

    def work(current: Transaction) -> None:
        source = source_of(engine, current, name)
        current.write(source.id, inserts=rows_for(engine, source, rows))

    return write(engine, work)


def apply(engine: Engine, name: str, insert: Any, delete: Any) -> Version:
    """Apply a change given as rows; each row to delete takes one copy with it, and must be there."""

    def work(current: Transaction) -> None:
        source = source_of(engine, current, name)
        terms = [signed(rows_for(engine, source, rows), weight) for rows, weight in ((insert, 1), (delete, -1)) if rows is not None]
        if not terms:
            return
        with engine.runner() as runner:
            leaf = Change(source.id, source.columns)
            runner.bind(leaf, terms[0] if len(terms) == 1 else terms[0].unionAll(terms[1]))
            located = runner.located(leaf, current.read(source.id, rowid=True))
        current.write(source.id, deletes=located.deleted, inserts=located.inserted)

    return write(engine, work)


def source_of(engine: Engine, current: Transaction, name: str) -> TableInfo:
    """The source a statement writes to, as the transaction sees it."""
    return current.table(engine.pin().writable_name(name))


def rows_for(engine: Engine, source: TableInfo, rows: Any) -> DataFrame:
    """Given rows as a frame with the table's columns and types, by name where they have names."""
    frame = _frame(engine, source.columns, rows)
    by_name = {name.lower(): name for name in frame.columns}
    unknown = [name for name in frame.columns if name.lower() not in {each.name.lower() for each in source.columns}]
    if unknown:
        raise QueryError(
            "COLUMN_NOT_FOUND",
            f"the rows have a column {unknown[0]!r} that table {source.name!r} has not",
            f"existing columns: {', '.join(each.name for each in source.columns)}",
        )
    types = {field.name.lower(): field.dataType.simpleString() for field in frame.schema.fields}
    outputs = []
    for column in source.columns:
        given = by_name.get(column.name.lower())
        text, type = ("NULL", "void") if given is None else (quoted(given), types[column.name.lower()])
        outputs.append(f"{stored(text, type, column)} AS {quoted(column.name)}")
    return frame.selectExpr(*outputs)
