"""Run relations in a session of our own: bind leaves to DataFrames, collect results, keep what is read again."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

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
from anabranch.errors import AnabranchError, RefreshError
from anabranch.spark.failure import TooLargeError, running
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
from anabranch.spark.session import FOR_FEW_ROWS, FOR_SMALL_CHANGES, kept_by_executors, tuned
from anabranch.spark.side_by_side import grouped, side_by_side
from anabranch.spark.staged import Stager
from anabranch.spark.together import Text, collect_texts
from anabranch.spark.types import struct_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEFAULT_LIMIT = 500_000
_NO_LIMIT = 2**63
GUARD_TRIPPED = "GUARD_TRIPPED"
FEW_ROWS = 50_000
"""Fewer rows are worked through faster than code for them is compiled."""
LARGEST_GROUP = 120
"""So many operators are planned as one query: more take longer than in proportion, and every task carries them all."""

_WEIGHT_COLUMN = Column(WEIGHT, "bigint")
_number = itertools.count()


@dataclass(frozen=True)
class Request:
    """A change of a stored table to be worked out: as in `Runner.located`; `guard` must turn out to have no rows.

    `stored_rows`: about how many rows the stored table has, if that is known.
    """

    change: Relation
    stored: DataFrame
    part: str = ""
    guard: Relation | None = None
    stored_rows: int | None = None


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

    # ---- what relations stand for

    def bind(self, relation: Relation, frame: DataFrame, weighted: bool | None = None, local: bool = False) -> None:
        """Read `relation` from the frame, which has its columns by name, and WEIGHT if it is a Z-set (a Change is)."""
        is_weighted = isinstance(relation, Change) if weighted is None else weighted
        self._names[relation] = Bound(self._view(frame), is_weighted, local)

    def bind_table(self, relation: Relation, table: pa.Table, weighted: bool | None = None) -> None:
        """The same for a small Arrow table; a Z-set is consolidated."""
        is_weighted = isinstance(relation, Change) if weighted is None else weighted
        # In one partition: operators over rows that are at hand then need no shuffle.
        rows = self._local(relation.columns, table, is_weighted).coalesce(1)
        self.bind(relation, rows, is_weighted, local=True)
        self._tables[relation] = table

    def is_bound(self, relation: Relation) -> bool:
        return relation in self._names

    # ---- results

    def rendered(self, relation: Relation) -> Rendered:
        """The text that is run."""
        return render(relation, self._names)

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
        few = all(self._reads_few_rows(each) for each in relations)
        groups = grouped(relations, tree_size, LARGEST_GROUP)
        tables: list[pa.Table] = []
        try:
            with tuned(self.spark, FOR_FEW_ROWS if few else FOR_SMALL_CHANGES):
                for found in side_by_side(self.spark, self._collect_group, groups):
                    tables += found
        except TooLargeError:
            return None
        return None if sum(each.num_rows for each in tables) > self._most(limit) else tables

    def _collect_group(self, relations: Sequence[Relation]) -> list[pa.Table]:
        with running():
            return collect_texts(self.spark, [self._text(self._normal(each)) for each in relations])

    def materialise(self, relation: Relation, estimate: int | None = None) -> pa.Table | None:
        """Compute now, read ever after. `estimate` of the rows: spares trying to collect what is too large.

        Returns the rows if they are few enough to be kept here; more of them stay with the executors.
        """
        if self.is_bound(relation):
            return self._tables.get(relation)
        weighted = not self.is_bag(relation)
        table = self.collect(relation) if estimate is None or estimate <= self.limit else None
        if table is not None:
            self.bind_table(relation, table, weighted)
            return table
        self.bind(relation, self._kept(self.frame(self._normal(relation))), weighted)
        return None

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
        self, change: Relation, stored: DataFrame, limit: int | None = None, store: Stager | None = None, part: str = ""
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
            return self._moved(change.columns, found)
        if store is None:
            raise RefreshError("CHANGE_TOO_LARGE", "the change is larger than the driver may collect")
        return self._written(change, stored, store)

    def carried(self, change: Relation, stored: DataFrame, part: str) -> Text | None:
        """The change with the rowids it deletes, as `Located.of` takes it, if its shape allows."""
        terms = None if self.is_bound(change) else with_rowids(change, part, self.is_bag)
        if terms is None:
            return None
        self._bind_with_rowid(terms, stored)
        rendered = self.rendered(terms)
        self.count_scans(terms)
        weighted = rendered.sql if rendered.weighted else f"SELECT *, 1L AS {quoted(WEIGHT)} FROM ({rendered.sql})"
        text = located_by_carrying(f"({weighted})", change.columns)
        return Text(text, (*change.columns, _WEIGHT_COLUMN, Column(ROWIDS, "array<bigint>")))

    def located_together(self, requests: Sequence[Request]) -> list[Moved | AnabranchError] | None:
        """`located` for many small changes, in groups of a moderate size that run side by side.

        A guard that has rows, and a row that is not there, are that request's own error. None: too large to collect.
        """
        groups = grouped(requests, _work_of, LARGEST_GROUP)
        results: list[Moved | AnabranchError] = []
        few = all(self._changes_few_rows(each) for each in requests)
        with tuned(self.spark, FOR_FEW_ROWS if few else FOR_SMALL_CHANGES):
            for found in side_by_side(self.spark, self._located_group, groups):
                if found is None:
                    return None
                results += found
        return results

    def _changes_few_rows(self, request: Request) -> bool:
        """Whether all that the request reads is at hand, or small."""
        plans = [request.change] if request.guard is None else [request.change, request.guard]
        is_small = request.stored_rows is not None and request.stored_rows <= FEW_ROWS
        return is_small and all(self._reads_few_rows(each) for each in plans)

    def _reads_few_rows(self, relation: Relation) -> bool:
        """Whether all that the plan reads is at hand; the stored table itself is left out of account."""
        bound = (each for each in leaves(relation) if isinstance(each, Before | After | Change))
        return all(self.is_local(each) for each in bound)

    def _located_group(self, requests: Sequence[Request]) -> list[Moved | AnabranchError] | None:
        """The same by one job for the changes, and one more if rows have to be looked up."""
        carried = [self.carried(each.change, each.stored, each.part) for each in requests]
        texts = [
            self._text(_summed_up(each.change)) if text is None else text
            for each, text in zip(requests, carried, strict=True)
        ]
        guards = [each.guard for each in requests if each.guard is not None]
        try:
            with running():
                tables = collect_texts(self.spark, [*texts, *(self._first_row(guard) for guard in guards)])
        except TooLargeError:
            return None
        if sum(each.num_rows for each in tables) > self.limit:
            return None
        tripped = {guard for guard, rows in zip(guards, tables[len(texts) :], strict=True) if rows.num_rows}
        changes = tables[: len(texts)]
        looked_up = [place for place, text in enumerate(carried) if text is None]
        rowids = dict(zip(looked_up, self._rowids_together(requests, changes, looked_up), strict=True))
        return [
            self._result(each, changes[place], rowids.get(place), each.guard in tripped)
            for place, each in enumerate(requests)
        ]

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
            return self._moved(columns, Located.checked(change, no_rowids()))
        with running():
            text = inserted_rows(self._view(self.frame(self._normal(relation))), columns, self.is_bag(relation))
            staged = store.stage(self.spark.sql(text), columns)
        reader = self.spark.read.schema(struct_of(columns))
        return Moved(lambda: signed(reader.parquet(*staged.paths), 1), no_rowids(), (staged,))

    # ---- helpers

    def _result(
        self, request: Request, change: pa.Table, rowids: pa.Array | None, tripped: bool
    ) -> Moved | AnabranchError:
        if tripped:
            return RefreshError(GUARD_TRIPPED, "the change needs a larger read")
        try:
            found = Located.of(change) if rowids is None else Located.checked(change, rowids)
        except AnabranchError as error:
            return error
        return self._moved(request.change.columns, found)

    def _rowids_together(
        self, requests: Sequence[Request], changes: Sequence[pa.Table], places: Sequence[int]
    ) -> list[pa.Array]:
        """The rowids of the rows that go, for those whose changes delete any."""
        texts: dict[int, Text] = {}
        for place in places:
            gone = changes[place].filter(pc.less(changes[place].column(WEIGHT), 0))
            if gone.num_rows:
                columns = requests[place].change.columns
                view = self._view(self._local(columns, gone, weighted=True))
                sql = rowids_by_scan(view, self._view(requests[place].stored), columns, few=True)
                texts[place] = Text(sql, (Column(ROWID, "bigint"),))
        with running():
            found = dict(zip(texts, collect_texts(self.spark, list(texts.values())), strict=True))
        return [found[place].column(ROWID).combine_chunks() if place in found else no_rowids() for place in places]

    def _is_unknown(self, change: Relation) -> bool:
        return change not in self._tables or self.is_bag(change)

    def _looked_up(self, columns: tuple[Column, ...], change: pa.Table, stored: DataFrame) -> Located:
        """The change with its rowids, found by reading the stored table if anything is deleted at all."""
        gone = change.filter(pc.less(change.column(WEIGHT), 0))
        if gone.num_rows == 0:
            return Located.checked(change, no_rowids())
        view = self._view(self._local(columns, gone, weighted=True))
        return Located.checked(change, self._rowids(view, stored, columns, few=True))

    def _written(self, change: Relation, stored: DataFrame, store: Stager) -> Moved:
        """A large change: it stays with the executors, which write what is inserted; only rowids come here."""
        rows = self._kept(self._weighted(change))
        view = self._view(rows)
        deletes = self._rowids(view, stored, change.columns, few=False)
        with running():
            (wanted,) = self.spark.sql(count_deleted(view)).collect()[0]
            check_deletes(wanted, deletes)
            staged = store.stage(self.spark.sql(inserted_rows(view, change.columns)), change.columns)
        return Moved(lambda: rows, deletes, (staged,) if staged.rows else ())

    def _rowids(self, change: str, stored: DataFrame, columns: tuple[Column, ...], few: bool) -> pa.Array:
        with running():
            found = self.spark.sql(rowids_by_scan(change, self._view(stored), columns, few)).toArrow()
        return pa.concat_arrays(found.column(ROWID).chunks) if found.num_rows else no_rowids()

    def _moved(self, columns: tuple[Column, ...], found: Located) -> Moved:
        inserts = (found.inserts,) if found.inserts.num_rows else ()
        return Moved(lambda: self._local(columns, found.change, True), found.deletes, inserts, found.change)

    def _normal(self, relation: Relation) -> Relation:
        """A Z-set in its normal form, a bag as it is."""
        if isinstance(relation, Consolidate) or self.is_bag(relation):
            return relation
        return Consolidate(relation)

    def _weighted(self, change: Relation) -> DataFrame:
        """The change as a consolidated Z-set, even if it is a bag."""
        return self.frame(_summed_up(change))

    def _text(self, relation: Relation) -> Text:
        rendered = self.rendered(relation)
        self.count_scans(relation)
        return Text(rendered.sql, relation.columns + ((_WEIGHT_COLUMN,) if rendered.weighted else ()))

    def _first_row(self, relation: Relation) -> Text:
        text = self._text(relation)
        return replace(text, sql=f"SELECT * FROM ({text.sql}) LIMIT 1")

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

    def _bind_with_rowid(self, terms: Relation, stored: DataFrame) -> None:
        for leaf in leaves(terms):
            if isinstance(leaf, Stored) and ROWID in leaf.names and not self.is_bound(leaf):
                self.bind(leaf, stored)

    def _local(self, columns: tuple[Column, ...], table: pa.Table, weighted: bool) -> DataFrame:
        weight = (_WEIGHT_COLUMN,) if weighted else ()
        with running():
            picked = _with_chunks(table.select([each.name for each in columns + weight]))
            return self.spark.createDataFrame(picked, struct_of(columns + weight))

    def _view(self, frame: DataFrame) -> str:
        name = f"{self._prefix}{next(_number)}"
        frame.createOrReplaceTempView(name)
        self._views.append(name)
        return name


def _with_chunks(table: pa.Table) -> pa.Table:
    """The same table; one without rows may have no chunks at all, which PySpark does not take."""
    if table.num_rows:
        return table
    return pa.Table.from_arrays([pa.array([], each.type) for each in table.schema], schema=table.schema)


def _work_of(request: Request) -> int:
    """How many operators Spark has to plan for the request."""
    return tree_size(request.change) + (0 if request.guard is None else tree_size(request.guard))


def _summed_up(change: Relation) -> Relation:
    return change if isinstance(change, Consolidate) else Consolidate(change)
