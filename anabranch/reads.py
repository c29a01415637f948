"""Reading: a table at a snapshot, and any Spark SQL query with every lake table at one snapshot.

A query keeps its text. Only the names of lake tables in it are replaced, by views that stand for their rows at the
snapshot; a name that is no table of the lake is left to Spark.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from anabranch.clock import texts_at
from anabranch.definitions import StreamTable
from anabranch.engine import Engine
from anabranch.errors import AnabranchError, NotFoundError, QueryError
from anabranch.inputs import TickInputs
from anabranch.pinned import Pinned, pin
from anabranch.spark.analyze import query_error
from anabranch.spark.failure import Py4JError, PySparkException, statement_error
from anabranch.spark.quiet import quietly
from anabranch.spark.session import is_remote
from anabranch.sql.statement_nodes import Fragment, QualifiedName, SelectStatement
from anabranch.sql.statements import parse_statement
from anabranch.store.protocol import Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from anabranch.store.transaction import Transaction

RowsOf = Callable[[str], "DataFrame"]
_number = itertools.count()


def table(engine: Engine, name: str, at: Version | None = None) -> DataFrame:
    """The rows of a source or stream table, as readers see them."""
    if at is not None:
        check_snapshot(engine, at)
    elif engine.transaction is not None and engine.transaction.has_table(name):
        return engine.transaction.read(name)
    pinned = pin(engine.store, at)
    if name.lower() in pinned.views:
        return run_select(engine, _query_of(pinned.view_texts[name.lower()]), at)
    return rows_of(engine, pinned, pinned.id_of(name))


def rows_of(engine: Engine, pinned: Pinned, table: str) -> DataFrame:
    """The visible rows of a table by id, at the pinned snapshot."""
    if table in pinned.nodes:
        return TickInputs(engine.store, pinned).node_rows(pinned.nodes[table], pinned.version)
    return engine.store.read(table, pinned.version)


def run_select(engine: Engine, query: Fragment, at: Version | None = None) -> DataFrame:
    """A query's rows, all tables of the lake at one snapshot; inside a transaction its own writes are seen."""
    current = engine.transaction if at is None else None
    pinned = pin(engine.store, at if current is None else current.pinned)
    with spark_errors(pinned), Views(engine, pinned, transaction=current) as views:
        return engine.session.sql(query.with_views(views.view_of))


def run_over(
    engine: Engine, pinned: Pinned, node: StreamTable, rows_of_table: RowsOf, clock: str | None = None
) -> DataFrame:
    """A defining query as it is, over the given rows of its tables, at what it sees as now."""
    query, view_texts = texts_at(pinned, node, clock)
    with Views(engine, pinned, rows_of_table, view_texts=view_texts) as views:
        rows = engine.session.sql(_query_of(query).with_views(views.view_of))
        return rows if clock is None else rows.toDF(*(each.name for each in node.columns))


class Views:
    """Names of lake tables -> views of their rows in our session. The views go when the block ends."""

    def __init__(
        self,
        engine: Engine,
        pinned: Pinned,
        rows_of_table: RowsOf | None = None,
        transaction: Transaction | None = None,
        view_texts: Mapping[str, str] | None = None,
    ) -> None:
        self._engine = engine
        self._pinned = pinned
        self._rows_of = rows_of_table or (lambda table: rows_of(engine, pinned, table))
        self._transaction = transaction
        self._view_texts = pinned.view_texts if view_texts is None else view_texts
        self._made: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Over Connect a frame is analysed when it runs, so its views have to stay.
        if not is_remote(self._engine.session):
            for view in self._made.values():
                self._engine.session.catalog.dropTempView(view)

    def view_of(self, parts: QualifiedName) -> str | None:
        """The text that stands for a table; None where the lake has no table of that name."""
        name = ".".join(parts)
        if self._transaction is not None and self._transaction.has_table(name):
            transaction = self._transaction
            return self._view(f"transaction/{name.lower()}", lambda: transaction.read(name))
        if name.lower() in self._view_texts:
            return "(" + _query_of(self._view_texts[name.lower()]).with_views(self.view_of) + ")"
        found = self._pinned.find(name)
        return None if found is None else self._view(found, lambda: self._rows_of(found))

    def of_frame(self, rows: DataFrame) -> str:
        """A view of any rows."""
        return self._view(f"frame/{len(self._made)}", lambda: rows)

    def _view(self, key: str, rows: Callable[[], DataFrame]) -> str:
        if key not in self._made:
            self._made[key] = f"__ab_view_{next(_number)}"
            rows().createOrReplaceTempView(self._made[key])
        return self._made[key]


@contextmanager
def spark_errors(pinned: Pinned | None = None) -> Iterator[None]:
    """Spark's errors as ours: the same condition and message, without the Java stack."""
    try:
        with quietly():
            yield
    except PySparkException as error:
        raise _named(query_error(error), pinned) from None
    except QueryError as error:
        raise _named(error, pinned) from None
    except Py4JError as error:
        raise statement_error(error) from None


def _named(error: QueryError, pinned: Pinned | None) -> AnabranchError:
    """Where a table is missing Spark knows the name and the place, and the lake knows what there is."""
    if pinned is None or error.code != "TABLE_OR_VIEW_NOT_FOUND":
        return error
    found = re.search(r"`.*`", error.message)
    name = found.group().replace("`", "") if found else "?"
    existing = f"existing tables: {', '.join(pinned.table_names) or 'none'}"
    return NotFoundError(
        "TABLE_NOT_FOUND",
        f"there is no table {name!r}",
        f"{error.detail}; {existing}" if error.detail else existing,
        "check the name, or create the table first",
    )


def check_snapshot(engine: Engine, at: Version) -> None:
    """Whether a snapshot can be read."""
    kept = [each.version for each in engine.store.snapshots()]
    if at not in kept:
        raise NotFoundError(
            "SNAPSHOT_NOT_FOUND",
            f"snapshot {at} is not kept",
            f"kept snapshots: {kept[0]} to {kept[-1]}",
            "lake.history() tells which tick made which snapshot",
        )


def _query_of(text: str) -> Fragment:
    statement = parse_statement(text)
    if not isinstance(statement, SelectStatement):
        raise QueryError("NOT_A_QUERY", "a query is needed, this is another statement", text, "write SELECT ...")
    return statement.query
