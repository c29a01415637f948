"""Run changes of stored tables: what to commit, rowids included, however large it is."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.algebra.relation import (
    ROWID,
    WEIGHT,
    Column,
    Relation,
    Stored,
)
from anabranch.algebra.walk import leaves
from anabranch.errors import RefreshError
from anabranch.spark.failure import running
from anabranch.spark.located import Located, check_deletes, no_rowids
from anabranch.spark.moved import Moved, signed
from anabranch.spark.quote import quoted
from anabranch.spark.relations import NO_LIMIT, WEIGHT_COLUMN, Relations
from anabranch.spark.rowids import (
    ROWIDS,
    count_deleted,
    inserted_rows,
    located_by_carrying,
    rowids_by_scan,
    with_rowids,
)
from anabranch.spark.rows import Rows, frame_in
from anabranch.spark.session import WITHOUT_CONSTRAINTS, tuned
from anabranch.spark.staged import Stager
from anabranch.spark.texts import Text
from anabranch.spark.types import struct_of


class Runner(Relations):
    """Relations in, changes of stored tables out."""

    def located(
        self, change: Relation, stored: Rows, limit: int | None = None, store: Stager | None = None, part: str = ""
    ) -> Moved:
        """What to commit to a stored table whose rows, with ROWID, are `stored`; ROW_NOT_THERE if one is not.

        A change of more than `limit` rows is written by executors through the store. `part`: the stored table's own
        name, if the change reads it as `Stored` and may take the rowids from there.
        """
        with tuned(self.spark, WITHOUT_CONSTRAINTS):
            return self._located(change, stored, limit, store, part)

    def _located(self, change: Relation, stored: Rows, limit: int | None, store: Stager | None, part: str) -> Moved:
        most = NO_LIMIT if store is None else limit
        carried = self.carried(change, stored, part) if part else None
        if carried is not None:
            rows = self._collected(self._sql(self._handed_over(carried)), most)
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
        columns = (*change.columns, WEIGHT_COLUMN, Column(ROWIDS, "array<bigint>"))
        return Text(text, columns, self.size(terms), self._reads_few_rows(terms), self._given_to(terms))

    def rowids(self, columns: tuple[Column, ...], gone: pa.Table, stored: Rows) -> Text:
        """The query for the rowids of a few rows that go."""
        is_here = isinstance(stored, pa.Table)
        views = self._given_view(columns, gone, True), self._stored_view(columns, stored)
        sql = rowids_by_scan(*views, columns, broadcast=not is_here)
        given = tuple(self._given[view] for view in views if view in self._given)
        return Text(sql, (Column(ROWID, "bigint"),), few=is_here, given=given)

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

    def _looked_up(self, columns: tuple[Column, ...], change: pa.Table, stored: Rows) -> Located:
        """The change with its rowids, found by reading the stored table if anything is deleted at all."""
        gone = change.filter(pc.less(change.column(WEIGHT), 0))
        if gone.num_rows == 0:
            return Located.checked(change, no_rowids())
        return Located.checked(change, self._rowids(self._handed_over(self.rowids(columns, gone, stored))))

    def _written(self, change: Relation, stored: Rows, store: Stager) -> Moved:
        """A large change: it stays with the executors, which write what is inserted; only rowids come here."""
        rows = self._kept(self._weighted(change))
        view = self.view(rows)
        columns = change.columns
        stored_view = self._stored_view(columns, stored)
        self._hand_over(stored_view)
        deletes = self._rowids(rowids_by_scan(view, stored_view, columns, broadcast=False))
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

    def _bind_with_rowid(self, terms: Relation, stored: Rows) -> None:
        for leaf in leaves(terms):
            if isinstance(leaf, Stored) and ROWID in leaf.names and not self.is_bound(leaf):
                if isinstance(stored, pa.Table):
                    self.bind_table(leaf, stored)
                else:
                    self.bind(leaf, stored)

    def _stored_view(self, columns: tuple[Column, ...], stored: Rows) -> str:
        if isinstance(stored, pa.Table):
            return self._given_view((*columns, Column(ROWID, "bigint")), stored, False)
        return self.view(frame_in(stored))
