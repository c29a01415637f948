"""Run relations in a session of our own: bind leaves to DataFrames, collect results, keep what is read again."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Union

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from anabranch.algebra.relation import (
    ROWID,
    WEIGHT,
    After,
    Before,
    Change,
    Column,
    Consolidate,
    Relation,
    Stored,
    iterate,
)
from anabranch.algebra.walk import leaves, tree_size
from anabranch.errors import RefreshError
from anabranch.spark.failure import TooLargeError, running
from anabranch.spark.local_rows import frame_of
from anabranch.spark.located import Located, check_deletes, no_rowids
from anabranch.spark.moved import Moved, signed
from anabranch.spark.quote import quoted
from anabranch.spark.render import Bound, Rendered, render
from anabranch.spark.rowids import (
    ROWIDS,
    count_deleted,
    inserted_rows,
    located_by_carrying,
    rowids_by_scan,
    with_rowids,
)
from anabranch.spark.session import kept_by_executors
from anabranch.spark.staged import Stager
from anabranch.spark.together import Text, collect_many
from anabranch.spark.types import struct_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = Union["DataFrame", pa.Table]
"""Rows of a stored table, with ROWID: few of them are at hand, many stay in files."""

DEFAULT_LIMIT = 500_000
_NO_LIMIT = 2**63
_WEIGHT_COLUMN = Column(WEIGHT, "bigint")
_number = itertools.count()


class Runner:
    """Relations in, DataFrames and Arrow tables out. Its views go when it is closed.

    `limit`: a result with more rows is not collected but stays with the executors.
    """

    def __init__(self, spark: SparkSession, lake: str = "", limit: int = DEFAULT_LIMIT) -> None:
        self.spark = spark
        self.limit = limit
        self._prefix = f"__ab_{re.sub(r'[^0-9a-zA-Z]', '_', lake)}_{os.getpid()}_"
        self._names: dict[Relation, Bound] = {}
        self._tables: dict[Relation, pa.Table] = {}
        self._rendered: dict[Relation, Rendered] = {}
        self._views: list[str] = []
        self._labels = 0
        self.table_scans = 0

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop the views."""
        for view in self._views:
            self.spark.catalog.dropTempView(view)
        self._views.clear()
        self._names.clear()
        self._tables.clear()
        self._rendered.clear()

    # ---- what relations stand for

    def bind(self, relation: Relation, frame: DataFrame, weighted: bool | None = None, local: bool = False) -> None:
        """Read `relation` from the frame, which has its columns by name, and WEIGHT if it is a Z-set (a Change is)."""
        is_weighted = isinstance(relation, Change) if weighted is None else weighted
        self._names[relation] = Bound(self.view(frame), is_weighted, local)
        self._rendered.clear()

    def bind_table(self, relation: Relation, table: pa.Table, weighted: bool | None = None) -> None:
        """The same for a small Arrow table; a Z-set is consolidated."""
        is_weighted = isinstance(relation, Change) if weighted is None else weighted
        self.bind(relation, self._gathered(relation.columns, table, is_weighted), is_weighted, local=True)
        self._tables[relation] = table

    def is_bound(self, relation: Relation) -> bool:
        return relation in self._names

    # ---- results

    def rendered(self, relation: Relation) -> Rendered:
        """The text that is run."""
        if relation not in self._rendered:
            self._rendered[relation] = render(relation, self._names)
        return self._rendered[relation]

    def count_scans(self, relation: Relation) -> None:
        """Count the tables that are scanned when this is run: a table read twice is scanned twice."""
        uses: dict[Relation, int] = {relation: 1}
        for each in reversed(list(iterate(relation))):
            if isinstance(each, Before | After) and not self.is_local(each):
                self.table_scans += uses.get(each, 0)
            for child in () if self.is_bound(each) else each.children:
                uses[child] = uses.get(child, 0) + uses.get(each, 0)

    def is_bag(self, relation: Relation) -> bool:
        """Whether the relation's rows come without weights."""
        return not self.rendered(relation).weighted

    def frame(self, relation: Relation) -> DataFrame:
        """The relation as a DataFrame, with WEIGHT if it is a Z-set. No job runs yet."""
        self.count_scans(relation)
        return self._sql(self.rendered(relation).sql)

    def collect(self, relation: Relation, limit: int | None = None) -> pa.Table | None:
        """The rows, a Z-set consolidated and with WEIGHT; None if there are more than `limit`."""
        known = self._tables.get(relation)
        return self._collected(self.frame(self._normal(relation)), limit) if known is None else known

    def collect_together(self, relations: Sequence[Relation], limit: int | None = None) -> list[pa.Table] | None:
        """The rows of several relations, in groups that run side by side; None if they are more than `limit`."""
        return self.collect_all([self.text(self._normal(each)) for each in relations], limit)

    def collect_all(self, texts: Sequence[Text], limit: int | None = None) -> list[pa.Table] | None:
        """The rows of every query; None if they are more than `limit`."""
        try:
            with running():
                tables = collect_many(self.spark, texts)
        except TooLargeError:
            return None
        return None if sum(each.num_rows for each in tables) > self._most(limit) else tables

    def materialise_as(self, leaves: Sequence[tuple[Relation, str | None]], relation: Relation, weighted: bool) -> None:
        """Compute now; the executors keep the rows, and each leaf stands for those in which its flag is true."""
        rows = self._kept(self.frame(self._normal(relation)))
        for leaf, flag in leaves:
            self.bind(leaf, rows if flag is None else rows.where(flag), weighted)

    def new_label(self) -> str:
        """A short text that this runner has not given before."""
        self._labels += 1
        return f"{self._labels}_"

    def is_local(self, relation: Relation) -> bool:
        """Whether the relation's rows are here, not in files."""
        return relation in self._tables

    # ---- changes of stored tables

    def located(
        self, change: Relation, stored: Rows, limit: int | None = None, store: Stager | None = None, part: str = ""
    ) -> Moved:
        """What to commit to a stored table whose rows, with ROWID, are `stored`; ROW_NOT_THERE if one is not.

        A change of more than `limit` rows is written by executors through the store. `part`: the stored table's own
        name, if the change reads it as `Stored` and may take the rowids from there.
        """
        most = _NO_LIMIT if store is None else limit
        carried = self.carried(change, stored, part) if part else None
        if carried is not None:
            rows = self._collected(self._sql(carried.sql), most)
            found = None if rows is None else Located.of(rows)
        else:
            table = self._collected(self._weighted(change), most) if self._is_unknown(change) else self._tables[change]
            found = None if table is None else self._looked_up(change.columns, table, stored)
        if found is not None:
            return self.moved(change.columns, found)
        if store is None:
            raise RefreshError("CHANGE_TOO_LARGE", "the change is larger than the driver may collect")
        return self._written(change, stored, store)

    def carried(self, change: Relation, stored: Rows, part: str) -> Text | None:
        """The change with the rowids it deletes, as `Located.of` takes it, if its shape allows."""
        terms = None if self.is_bound(change) else with_rowids(change, part, self.is_bag)
        if terms is None:
            return None
        self._bind_with_rowid(terms, stored)
        rendered = self.rendered(terms)
        self.count_scans(terms)
        weighted = rendered.sql if rendered.weighted else f"SELECT *, 1L AS {quoted(WEIGHT)} FROM ({rendered.sql})"
        text = located_by_carrying(f"({weighted})", change.columns)
        columns = (*change.columns, _WEIGHT_COLUMN, Column(ROWIDS, "array<bigint>"))
        return Text(text, columns, tree_size(terms), self._reads_few_rows(terms))

    def rowids(self, columns: tuple[Column, ...], gone: pa.Table, stored: Rows) -> Text:
        """The query for the rowids of a few rows that go."""
        is_here = isinstance(stored, pa.Table)
        view = self.view(self._gathered(columns, gone, True))
        sql = rowids_by_scan(view, self._stored_view(columns, stored), columns, broadcast=not is_here)
        return Text(sql, (Column(ROWID, "bigint"),), few=is_here)

    def _reads_few_rows(self, relation: Relation) -> bool:
        """Whether all that the plan reads is at hand."""
        bound = (each for each in leaves(relation) if isinstance(each, Before | After | Change | Stored))
        return all(self.is_local(each) for each in bound)

    def filled(
        self, relation: Relation, columns: tuple[Column, ...], limit: int, store: Stager, estimate: int | None = None
    ) -> Moved:
        """What to commit to a new table that gets these rows; more than `limit` are written by executors."""
        table = None
        if estimate is None or estimate <= limit:
            table = self.collect(relation, limit)
        if table is not None:
            weight = pa.array([1] * table.num_rows, pa.int64())
            change = table if WEIGHT in table.column_names else table.append_column(WEIGHT, weight)
            return self.moved(columns, Located.checked(change, no_rowids()))
        with running():
            text = inserted_rows(self.view(self.frame(self._normal(relation))), columns, self.is_bag(relation))
            staged = store.stage(self.spark.sql(text), columns)
        reader = self.spark.read.schema(struct_of(columns))
        return Moved(lambda: signed(reader.parquet(*staged.paths), 1), no_rowids(), (staged,))

    # ---- helpers

    def _is_unknown(self, change: Relation) -> bool:
        return change not in self._tables or self.is_bag(change)

    def _looked_up(self, columns: tuple[Column, ...], change: pa.Table, stored: Rows) -> Located:
        """The change with its rowids, found by reading the stored table if anything is deleted at all."""
        gone = change.filter(pc.less(change.column(WEIGHT), 0))
        if gone.num_rows == 0:
            return Located.checked(change, no_rowids())
        return Located.checked(change, self._rowids(self.rowids(columns, gone, stored).sql))

    def _written(self, change: Relation, stored: Rows, store: Stager) -> Moved:
        """A large change: it stays with the executors, which write what is inserted; only rowids come here."""
        rows = self._kept(self._weighted(change))
        view = self.view(rows)
        columns = change.columns
        deletes = self._rowids(rowids_by_scan(view, self._stored_view(columns, stored), columns, broadcast=False))
        with running():
            (wanted,) = self.spark.sql(count_deleted(view)).collect()[0]
            check_deletes(wanted, deletes)
            staged = store.stage(self.spark.sql(inserted_rows(view, change.columns)), change.columns)
        return Moved(lambda: rows, deletes, (staged,) if staged.rows else ())

    def _rowids(self, text: str) -> pa.Array:
        with running():
            found = self.spark.sql(text).toArrow()
        return pa.concat_arrays(found.column(ROWID).chunks) if found.num_rows else no_rowids()

    def moved(self, columns: tuple[Column, ...], found: Located) -> Moved:
        """What to commit, and the change as rows for those who read it before that."""
        inserts = (found.inserts,) if found.inserts.num_rows else ()
        return Moved(lambda: self.local(columns, found.change, True), found.deletes, inserts, found.change)

    def _normal(self, relation: Relation) -> Relation:
        """A Z-set in its normal form, a bag as it is."""
        if isinstance(relation, Consolidate) or self.is_bag(relation):
            return relation
        return Consolidate(relation)

    def _weighted(self, change: Relation) -> DataFrame:
        return self.frame(summed_up(change))

    def text(self, relation: Relation) -> Text:
        """The query that gives the relation's rows, to be run now."""
        rendered = self.rendered(relation)
        self.count_scans(relation)
        columns = relation.columns + ((_WEIGHT_COLUMN,) if rendered.weighted else ())
        return Text(rendered.sql, columns, tree_size(relation), self._reads_few_rows(relation))

    def _sql(self, text: str) -> DataFrame:
        with running():
            return self.spark.sql(text)

    def _collected(self, frame: DataFrame, limit: int | None) -> pa.Table | None:
        try:
            with running():
                table = frame.toArrow()
        except TooLargeError:
            return None
        return None if table.num_rows > self._most(limit) else table

    def _kept(self, frame: DataFrame) -> DataFrame:
        """The frame, computed now and kept by the executors."""
        with running():
            return kept_by_executors(frame)

    def _most(self, limit: int | None) -> int:
        return self.limit if limit is None else limit

    def _bind_with_rowid(self, terms: Relation, stored: Rows) -> None:
        for leaf in leaves(terms):
            if isinstance(leaf, Stored) and ROWID in leaf.names and not self.is_bound(leaf):
                if isinstance(stored, pa.Table):
                    self.bind_table(leaf, stored)
                else:
                    self.bind(leaf, stored)

    def _stored_view(self, columns: tuple[Column, ...], stored: Rows) -> str:
        if isinstance(stored, pa.Table):
            return self.view(self._gathered((*columns, Column(ROWID, "bigint")), stored, False))
        return self.view(stored)

    def no_rows(self, columns: tuple[Column, ...]) -> pa.Table:
        """A change without rows."""
        zone = str(self.spark.conf.get("spark.sql.session.timeZone"))
        return to_arrow_schema(struct_of((*columns, _WEIGHT_COLUMN)), timezone=zone).empty_table()

    def _gathered(self, columns: tuple[Column, ...], table: pa.Table, weighted: bool) -> DataFrame:
        """In one partition: operators over rows that are at hand then need no shuffle."""
        return self.local(columns, table, weighted).coalesce(1)

    def local(self, columns: tuple[Column, ...], table: pa.Table, weighted: bool) -> DataFrame:
        """A small Arrow table as a frame."""
        weight = (_WEIGHT_COLUMN,) if weighted else ()
        with running():
            return frame_of(self.spark, table.select([each.name for each in columns + weight]), columns + weight)

    def view(self, frame: DataFrame) -> str:
        """The frame under a name, until the runner is closed."""
        name = f"{self._prefix}{next(_number)}"
        frame.createOrReplaceTempView(name)
        self._views.append(name)
        return name


def summed_up(change: Relation) -> Relation:
    """The change as a consolidated Z-set, even if it is a bag."""
    return change if isinstance(change, Consolidate) else Consolidate(change)
