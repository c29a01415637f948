"""Run relations in a session of our own: bind leaves to DataFrames, collect results, keep what is read again."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from anabranch.algebra.relation import (
    RESERVED_PREFIX,
    ROWID,
    WEIGHT,
    After,
    Before,
    Change,
    Column,
    Consolidate,
    Empty,
    Relation,
    Stored,
    iterate,
)
from anabranch.algebra.walk import leaves, tree_size
from anabranch.errors import RefreshError
from anabranch.fuse.at_hand import can_tell_apart, consolidated
from anabranch.fuse.reduce import reduced
from anabranch.fuse.steps import Piece
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
from anabranch.spark.rows import Later, Rows, frame_in
from anabranch.spark.session import kept_by_executors
from anabranch.spark.staged import Stager
from anabranch.spark.together import Text, collect_many
from anabranch.spark.types import struct_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
        self._not_handed_over: dict[Relation, pa.Table | Later] = {}
        self._loose: set[Relation] = set()  # known Z-sets that may name a row more than once
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
        self._not_handed_over.clear()
        self._rendered.clear()

    # ---- what relations stand for

    def bind(self, relation: Relation, rows: DataFrame | Later, weighted: bool | None = None) -> None:
        """Read `relation` from the rows, which have its columns by name, and WEIGHT if it is a Z-set (a Change is)."""
        is_weighted = isinstance(relation, Change) if weighted is None else weighted
        if isinstance(rows, Later):
            self._names[relation] = Bound(self._new_view(), is_weighted)
            self._not_handed_over[relation] = rows
        else:
            self._names[relation] = Bound(self.view(rows), is_weighted)
        self._rendered.clear()

    def bind_table(self, relation: Relation, table: pa.Table, weighted: bool | None = None) -> None:
        """The same for a small Arrow table. Spark gets it when something that reads it is run."""
        is_weighted = isinstance(relation, Change) if weighted is None else weighted
        rows = table.select([*relation.names, *([WEIGHT] if is_weighted else [])])
        self._names[relation] = Bound(self._new_view(), is_weighted, local=True)
        self._tables[relation] = self._not_handed_over[relation] = rows
        self._rendered.clear()

    def bind_like(self, relation: Relation, other: Relation) -> None:
        """Read `relation` from where the other one is read, which has its columns too."""
        self._names[relation] = self._names[other]
        if other in self._not_handed_over:
            self._not_handed_over[relation] = self._not_handed_over[other]

    def is_bound(self, relation: Relation) -> bool:
        return relation in self._names

    def is_empty(self, relation: Relation) -> bool:
        """Whether the relation's rows are here, and there are none."""
        return relation in self._tables and self._tables[relation].num_rows == 0

    # ---- results

    def rendered(self, relation: Relation) -> Rendered:
        """The text that is run."""
        if relation not in self._rendered:
            self._rendered[relation] = render(relation, self._names)
        return self._rendered[relation]

    def _about_to_run(self, relation: Relation) -> None:
        """Hand over the rows that are read, and count the tables that are: one read twice is scanned twice."""
        for leaf in leaves(relation):
            rows = self._not_handed_over.pop(leaf, None)
            bound = self._names.get(leaf)
            if bound is not None and rows is not None:
                here = isinstance(rows, pa.Table)
                self.view(self._gathered(leaf.columns, rows, bound.weighted) if here else rows.frame, bound.view)
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
        self._about_to_run(relation)
        return self._sql(self.rendered(relation).sql)

    def collect(self, relation: Relation, limit: int | None = None) -> pa.Table | None:
        """The rows, a Z-set consolidated and with WEIGHT; None if there are more than `limit`."""
        known = self.known(relation)
        return self._collected(self.frame(self._normal(relation)), limit) if known is None else known

    def collect_together(self, relations: Sequence[Relation]) -> list[pa.Table | None]:
        """The rows of several relations, in groups that run side by side; None for those that are too many to hold."""
        left = self.reduced(relations)
        rows: list[pa.Table | None] = [self.known(each) for each in left]
        places = [place for place, each in enumerate(rows) if each is None]
        found = self.collect_all([self._loose_text(left[place]) for place in places], _NO_LIMIT)
        held = 0
        for table, place in sorted(zip(found or (), places, strict=False), key=lambda each: each[0].num_rows):
            held += table.num_rows
            if held <= self.limit:
                rows[place] = consolidated(table) if self._is_summed_up_here(left[place]) else table
        return rows

    def _loose_text(self, relation: Relation) -> Text:
        """The query for the rows; a Z-set is summed up here, where that is possible."""
        return self.text(relation if self._is_summed_up_here(relation) else self._normal(relation))

    def _is_summed_up_here(self, relation: Relation) -> bool:
        is_zset = not isinstance(relation, Consolidate) and not self.is_bag(relation)
        return is_zset and can_tell_apart(relation.columns)

    def known(self, relation: Relation) -> pa.Table | None:
        """As `collect`, if that takes no job."""
        if isinstance(relation, Empty):
            return self.no_rows(relation.columns)
        rows = self._tables.get(relation)
        return consolidated(rows) if rows is not None and relation in self._loose else rows

    def known_change(self, change: Relation) -> pa.Table | None:
        """The change as a consolidated Z-set, even if it is a bag, if that takes no job."""
        rows = self.known(change)
        if rows is None or WEIGHT in rows.column_names:
            return rows
        return consolidated(rows) if can_tell_apart(change.columns) else None

    def reduced(self, relations: Sequence[Relation]) -> tuple[Relation, ...]:
        """The same relations, what needs no expression worked out as far as rows are at hand."""
        return reduced(relations, self._at_hand, self._new_leaf, self.limit)

    def _at_hand(self, relation: Relation) -> pa.Table | None:
        """The rows of a leaf; those that a part has stored stay in the plan if their rowids must be read from there."""
        if not relation.columns or (isinstance(relation, Stored) and not can_tell_apart(relation.columns)):
            return None
        return self._tables.get(relation)

    def _new_leaf(self, relation: Relation, rows: pa.Table) -> Relation:
        leaf = Change(f"{RESERVED_PREFIX}hand_{self.new_label()}", relation.columns)
        self.bind_table(leaf, rows, WEIGHT in rows.column_names)
        if WEIGHT in rows.column_names:
            self._loose.add(leaf)
        return leaf

    def collect_all(self, texts: Sequence[Text], limit: int | None = None) -> list[pa.Table] | None:
        """The rows of every query; None if they are more than `limit`."""
        try:
            with running():
                tables = collect_many(self.spark, texts)
        except TooLargeError:
            return None
        return None if sum(each.num_rows for each in tables) > self._most(limit) else tables

    def materialise_as(self, pieces: Sequence[Piece], relation: Relation, weighted: bool) -> None:
        """Compute now; the executors keep the rows, and each leaf stands for its piece of them."""
        rows = self._kept(self.frame(self._normal(relation)))
        for piece in pieces:
            own = rows
            for flag in piece.flags:
                own = own.where(quoted(flag))
            named = (
                f"{quoted(name)} AS {quoted(new)}" for name, new in zip(piece.columns, piece.leaf.names, strict=True)
            )
            weight = [quoted(WEIGHT)] if weighted else []
            self.bind(piece.leaf, own.selectExpr(*named, *weight), weighted)

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
            known = self.known_change(change)
            table = self._collected(self._weighted(change), most) if known is None else known
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
        self._about_to_run(terms)
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
        self._about_to_run(relation)
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
        return self.view(frame_in(stored))

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

    def view(self, frame: DataFrame, name: str = "") -> str:
        """The frame under a name, until the runner is closed."""
        name = name or self._new_view()
        frame.createOrReplaceTempView(name)
        self._views.append(name)
        return name

    def _new_view(self) -> str:
        return f"{self._prefix}{next(_number)}"


def summed_up(change: Relation) -> Relation:
    """The change as a consolidated Z-set, even if it is a bag."""
    return change if isinstance(change, Consolidate) else Consolidate(change)
