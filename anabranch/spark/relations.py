"""Relations in a session of our own: bound to rows, worked out here or by Spark, collected, kept by executors."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from anabranch.algebra.relation import (
    LEAVES,
    RESERVED_PREFIX,
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
from anabranch.fuse.at_hand import can_tell_apart, consolidated
from anabranch.fuse.reduce import reduced
from anabranch.fuse.steps import Piece
from anabranch.spark.failure import TooLargeError, running
from anabranch.spark.local_rows import frame_of
from anabranch.spark.prepared import PreparedQueries
from anabranch.spark.quote import quoted
from anabranch.spark.render import Bound, Rendered, render
from anabranch.spark.rows import Later
from anabranch.spark.session import kept_by_executors
from anabranch.spark.texts import Given, Text
from anabranch.spark.together import collect_many
from anabranch.spark.types import struct_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEFAULT_LIMIT = 500_000
NO_LIMIT = 2**63
ROWS_PER_OPERATOR = 150
"""To work through so many rows at hand takes about as long as to plan an operator."""
WEIGHT_COLUMN = Column(WEIGHT, "bigint")
_number = itertools.count()


class Relations:
    """Relations in, DataFrames and Arrow tables out. Its views go when it is closed.

    `limit`: a result with more rows is not collected but stays with the executors; `prepared`: queries that were run
    before, by others.
    """

    def __init__(
        self,
        spark: SparkSession,
        lake: str = "",
        limit: int = DEFAULT_LIMIT,
        prepared: PreparedQueries | None = None,
    ) -> None:
        self.spark = spark
        self.limit = limit
        self._prepared = PreparedQueries() if prepared is None else prepared
        self._prefix = f"__ab_{re.sub(r'[^0-9a-zA-Z]', '_', lake)}_{os.getpid()}_"
        self._names: dict[Relation, Bound] = {}
        self._tables: dict[Relation, pa.Table] = {}
        self._given: dict[str, Given] = {}
        self._not_handed_over: dict[str, Given | Later] = {}
        self._loose: set[Relation] = set()  # known Z-sets that may name a row more than once
        self._rendered: dict[Relation, Rendered] = {}
        self._views: list[str] = []
        self._labels = 0
        self.table_scans = 0

    def __enter__(self) -> Self:
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
        self._given.clear()
        self._not_handed_over.clear()
        self._loose.clear()
        self._rendered.clear()

    def bind(self, relation: Relation, rows: DataFrame | Later, weighted: bool | None = None) -> None:
        """Read `relation` from the rows, which have its columns by name, and WEIGHT if it is a Z-set (a Change is)."""
        is_weighted = isinstance(relation, Change) if weighted is None else weighted
        self._forget_texts_with(relation)
        if isinstance(rows, Later):
            self._names[relation] = bound = Bound(self._new_view(), is_weighted)
            self._not_handed_over[bound.view] = rows
        else:
            self._names[relation] = Bound(self.view(rows), is_weighted)

    def bind_table(self, relation: Relation, table: pa.Table, weighted: bool | None = None) -> None:
        """The same for a small Arrow table. Spark gets it when something that reads it is run."""
        is_weighted = isinstance(relation, Change) if weighted is None else weighted
        rows = table.select([*relation.names, *([WEIGHT] if is_weighted else [])])
        self._forget_texts_with(relation)
        self._tables[relation] = rows
        self._names[relation] = Bound(self._given_view(relation.columns, rows, is_weighted), is_weighted, local=True)

    def _forget_texts_with(self, relation: Relation) -> None:
        """Of a leaf that was not bound before there are none."""
        if relation in self._names or not isinstance(relation, LEAVES):
            self._rendered.clear()

    def bind_like(self, relation: Relation, other: Relation) -> None:
        """Read `relation` from where the other one is read, which has its columns too."""
        self._names[relation] = self._names[other]

    def is_bound(self, relation: Relation) -> bool:
        return relation in self._names

    def is_empty(self, relation: Relation) -> bool:
        """Whether the relation's rows are here, and there are none."""
        return relation in self._tables and self._tables[relation].num_rows == 0

    def rendered(self, relation: Relation) -> Rendered:
        """The text that is run."""
        if relation not in self._rendered:
            self._rendered[relation] = render(relation, self._names)
        return self._rendered[relation]

    def _about_to_run(self, relation: Relation) -> None:
        """Make the views of rows in files, and count the tables that are read: one read twice is scanned twice."""
        for view in self._views_read(relation):
            if isinstance(self._not_handed_over.get(view), Later):
                self._hand_over(view)
        uses: dict[Relation, int] = {relation: 1}
        for each in reversed(list(iterate(relation))):
            if isinstance(each, Before | After) and not self.is_local(each):
                self.table_scans += uses.get(each, 0)
            for child in () if self.is_bound(each) else each.children:
                uses[child] = uses.get(child, 0) + uses.get(each, 0)

    def _views_read(self, relation: Relation) -> Iterator[str]:
        return (self._names[leaf].view for leaf in leaves(relation) if leaf in self._names)

    def _given_to(self, relation: Relation) -> tuple[Given, ...]:
        """The rows at hand that the relation reads."""
        return tuple(self._given[view] for view in dict.fromkeys(self._views_read(relation)) if view in self._given)

    def _hand_over(self, view: str) -> None:
        """Let Spark know the rows of a view, if it does not yet."""
        rows = self._not_handed_over.pop(view, None)
        if isinstance(rows, Given):
            self.view(self._gathered(rows), view)
        elif rows is not None:
            self.view(rows.frame, view)

    def is_bag(self, relation: Relation) -> bool:
        """Whether the relation's rows come without weights."""
        return not self.rendered(relation).weighted

    def frame(self, relation: Relation) -> DataFrame:
        """The relation as a DataFrame, with WEIGHT if it is a Z-set. No job runs yet."""
        self._about_to_run(relation)
        for given in self._given_to(relation):
            self._hand_over(given.view)
        return self._sql(self.rendered(relation).sql)

    def _handed_over(self, text: Text) -> str:
        """The query, what it reads known to Spark."""
        for given in text.given:
            self._hand_over(given.view)
        return text.sql

    def collect(self, relation: Relation, limit: int | None = None) -> pa.Table | None:
        """The rows, a Z-set consolidated and with WEIGHT; None if there are more than `limit`."""
        known = self.known(relation)
        return self._collected(self.frame(self._normal(relation)), limit) if known is None else known

    def collect_together(self, relations: Sequence[Relation]) -> list[pa.Table | None]:
        """The rows of several relations, in groups that run side by side; None for those that are too many to hold."""
        left = self.reduced(relations)
        rows: list[pa.Table | None] = [self.known(each) for each in left]
        places = [place for place, each in enumerate(rows) if each is None]
        found = self.collect_all([self._loose_text(left[place]) for place in places], NO_LIMIT)
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
                tables = collect_many(self.spark, texts, self._hand_over, self._prepared)
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

    def _reads_few_rows(self, relation: Relation) -> bool:
        """Whether all that the plan reads is at hand."""
        bound = (each for each in leaves(relation) if isinstance(each, Before | After | Change | Stored))
        return all(self.is_local(each) for each in bound)

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
        columns = relation.columns + ((WEIGHT_COLUMN,) if rendered.weighted else ())
        few = self._reads_few_rows(relation) and not _has_collation(rendered.sql, relation)
        return Text(rendered.sql, columns, self.size(relation), few, self._given_to(relation))

    def size(self, relation: Relation) -> int:
        """About how many operators Spark could plan in the time that it takes."""
        rows: int = sum(self._tables[leaf].num_rows for leaf in leaves(relation) if leaf in self._tables)
        return tree_size(relation) + rows // ROWS_PER_OPERATOR

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

    def no_rows(self, columns: tuple[Column, ...]) -> pa.Table:
        """A change without rows."""
        zone = str(self.spark.conf.get("spark.sql.session.timeZone"))
        return to_arrow_schema(struct_of((*columns, WEIGHT_COLUMN)), timezone=zone).empty_table()

    def _gathered(self, given: Given) -> DataFrame:
        """In one partition: operators over rows that are at hand then need no shuffle."""
        with running():
            return frame_of(self.spark, given.table, given.columns).coalesce(1)

    def local(self, columns: tuple[Column, ...], table: pa.Table, weighted: bool) -> DataFrame:
        """A small Arrow table as a frame."""
        weight = (WEIGHT_COLUMN,) if weighted else ()
        with running():
            return frame_of(self.spark, table.select([each.name for each in columns + weight]), columns + weight)

    def _given_view(self, columns: tuple[Column, ...], table: pa.Table, weighted: bool) -> str:
        """The name of a view of rows at hand. Spark gets them when something that reads it is run, if it needs them."""
        columns += (WEIGHT_COLUMN,) if weighted else ()
        view = self._new_view()
        given = Given(view, columns, table.select([each.name for each in columns]))
        self._given[view] = self._not_handed_over[view] = given
        return view

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


def _has_collation(text: str, relation: Relation) -> bool:
    """Whether strings are compared by a collation: Spark 4.2 does so wrongly in aggregates that it does not compile."""
    types = (each.type for leaf in leaves(relation) for each in leaf.columns)
    return "collat" in text.lower() or any(" collate " in each for each in types)
