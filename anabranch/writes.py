"""Writing to sources: bulk loads, changes given as data, DML evaluated by Spark, several writes as one snapshot.

Every write is a transaction. Outside `lake.transaction()` it has one of its own, and is done again when somebody else
commits first, so that a conflict which doing it again would mend never reaches the user.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from anabranch.algebra.relation import Change, Column
from anabranch.engine import Engine
from anabranch.errors import ConflictError, QueryError, StateError
from anabranch.immediate import commit, writing
from anabranch.python_rows import arrow_rows
from anabranch.reads import spark_errors
from anabranch.spark.moved import signed, zset_sum
from anabranch.spark.quote import quoted
from anabranch.spark.session import is_remote
from anabranch.spark.types import struct_of
from anabranch.sql.dml import stored
from anabranch.store.protocol import TableInfo, Version
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
        commit(engine, opened)
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
        try:
            with writing(engine):
                return _attempt(engine, work)
        except ConflictError:
            if attempt == TRIES - 1:
                raise
            time.sleep(random.uniform(0, 0.02 * (attempt + 1)))
    raise AssertionError("the last try returns or raises")


def _attempt(engine: Engine, work: Callable[[Transaction], None]) -> Version:
    own = Transaction(engine.store)
    try:
        work(own)
        return commit(engine, own)
    except BaseException:
        own.rollback()
        raise


def append(engine: Engine, name: str, rows: Any) -> Version:
    """Add rows to a source."""

    def work(current: Transaction) -> None:
        source = source_of(engine, current, name)
        with spark_errors():
            here = None if _is_table(rows) else arrow_rows(_fitting_rows(source.columns, rows), source.columns)
            current.write(source.id, inserts=rows_for(engine, source, rows) if here is None else here)

    if not _is_table(rows) and not isinstance(rows, Sequence):
        rows = list(rows)  # an attempt may be repeated, an iterator not
    return write(engine, work)


def apply(engine: Engine, name: str, insert: Any, delete: Any) -> Version:
    """Apply a change given as rows; each row to delete takes one copy with it, and must be there."""

    def work(current: Transaction) -> None:
        source = source_of(engine, current, name)
        given = [(rows, weight) for rows, weight in ((insert, 1), (delete, -1)) if rows is not None]
        if not given:
            return
        with spark_errors(), engine.runner() as runner:
            terms = [signed(rows_for(engine, source, rows), weight) for rows, weight in given]
            leaf = Change(source.id, source.columns)
            runner.bind(leaf, zset_sum(terms))
            moved = runner.located(leaf, current.read(source.id, rowid=True), store=engine.store)
            current.write(source.id, deletes=moved.deleted)
            for rows in moved.inserts:
                current.write(source.id, inserts=rows)

    return write(engine, work)


def source_of(engine: Engine, current: Transaction, name: str) -> TableInfo:
    """The source a statement writes to, as the transaction sees it; a stream table is not one."""
    if not current.has_table(name):
        engine.pin().source(name)
    return current.table(name)


def rows_for(engine: Engine, source: TableInfo, rows: Any) -> DataFrame:
    """Given rows as a frame with the table's columns and types, by name where they have names."""
    frame = _frame(engine, source.columns, rows)
    given = {name.lower(): name for name in frame.columns}
    unknown = given.keys() - {each.name.lower() for each in source.columns}
    if unknown:
        raise QueryError(
            "COLUMN_NOT_FOUND",
            f"the rows have a column {given[min(unknown)]!r} that table {source.name!r} has not",
            f"existing columns: {', '.join(each.name for each in source.columns)}",
            "give rows with the table's columns",
        )
    types = {field.name.lower(): field.dataType.simpleString() for field in frame.schema.fields}
    outputs = []
    for column in source.columns:
        key = column.name.lower()
        text, type = (quoted(given[key]), types[key]) if key in given else ("NULL", "void")
        outputs.append(f"{stored(text, type, column)} AS {quoted(column.name)}")
    return frame.selectExpr(*outputs)


def _frame(engine: Engine, columns: tuple[Column, ...], rows: Any) -> DataFrame:
    """Rows of any kind as a frame of our session."""
    if hasattr(rows, "sparkSession"):
        return _in_our_session(engine, rows)
    if isinstance(rows, pa.Table | pa.RecordBatch):
        return engine.session.createDataFrame(pa.table(rows).combine_chunks())  # Spark stops at an empty chunk
    if hasattr(rows, "iloc"):
        return engine.session.createDataFrame(pa.Table.from_pandas(rows, preserve_index=False))
    return engine.session.createDataFrame(_fitting_rows(columns, rows), struct_of(columns))


def _is_table(rows: Any) -> bool:
    return hasattr(rows, "sparkSession") or isinstance(rows, pa.Table | pa.RecordBatch) or hasattr(rows, "iloc")


def _fitting_rows(columns: tuple[Column, ...], rows: Any) -> list[tuple[Any, ...]]:
    return [
        tuple(_fitting(value, column) for value, column in zip(_ordered(row, columns), columns, strict=True))
        for row in rows
    ]


def _fitting(value: Any, column: Column) -> Any:
    """A whole number where another kind of number is kept; Spark would refuse 10 for a DECIMAL or a DOUBLE."""
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if column.type.startswith("decimal"):
        return Decimal(value)
    return float(value) if column.type in ("float", "double") else value


def _ordered(row: Any, columns: tuple[Column, ...]) -> tuple[Any, ...]:
    """A row of values in the table's order; names that the table has not are refused, missing ones are NULL."""
    names = [each.name for each in columns]
    if isinstance(row, Mapping):
        known = {name.lower() for name in names}
        unknown = [name for name in row if name.lower() not in known]
        if unknown:
            raise QueryError(
                "COLUMN_NOT_FOUND",
                f"a row has a column {unknown[0]!r} that the table has not",
                f"existing columns: {', '.join(names)}",
            )
        values_of = {name.lower(): value for name, value in row.items()}
        return tuple(values_of.get(name.lower()) for name in names)
    values = tuple(row)
    if len(values) != len(names):
        raise QueryError(
            "COLUMNS_DO_NOT_FIT",
            f"a row has {len(values)} values and the table has {len(names)} columns",
            f"existing columns: {', '.join(names)}; the row: {values!r}",
        )
    return values


def _in_our_session(engine: Engine, rows: DataFrame) -> DataFrame:
    """A frame of another session, seen from ours."""
    if rows.sparkSession is engine.session:
        return rows
    name = f"__ab_given_{uuid.uuid4().hex}"
    rows.createOrReplaceGlobalTempView(name)
    seen = engine.session.table(f"global_temp.{name}")
    # Over Connect a frame is analysed when it runs, so its view has to stay.
    if not is_remote(engine.session):
        engine.session.catalog.dropGlobalTempView(name)
    return seen
