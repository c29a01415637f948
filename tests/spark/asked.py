"""Asks for texts over rows as ticks do, for tests of prepared queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from anabranch.algebra.relation import Column
from anabranch.spark.local_rows import frame_of
from anabranch.spark.prepared import PreparedQueries
from anabranch.spark.session import private_session
from anabranch.spark.texts import Given, Text
from anabranch.spark.together import collect_many

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Asked:
    """Texts over rows, asked one after the other as ticks do."""

    def __init__(self, spark: SparkSession) -> None:
        settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.session.timeZone": "UTC"}
        self.spark = private_session(spark, settings)
        self.prepared = PreparedQueries()
        self.handed_over = 0
        self._views = 0

    def __call__(self, sql: str, *rows: tuple[tuple[Column, ...], pa.Table]) -> pa.Table:
        return self.together([self.text(sql, *rows)])[0]

    def text(
        self,
        sql: str,
        *rows: tuple[tuple[Column, ...], pa.Table],
        columns: tuple[Column, ...] = (Column("x", "bigint"),),
    ) -> Text:
        """`{0}` in the text is the first of the rows; no two texts have the same views."""
        given = tuple(Given(self._view(), own, table) for own, table in rows)
        return Text(sql.format(*(f"`{each.view}`" for each in given)), columns, few=True, given=given)

    def together(self, texts: Sequence[Text]) -> list[pa.Table]:
        by_view = {each.view: each for text in texts for each in text.given}

        def hand_over(view: str) -> None:
            self.handed_over += 1
            rows = frame_of(self.spark, by_view[view].table, by_view[view].columns)
            rows.coalesce(1).createOrReplaceTempView(view)

        return collect_many(self.spark, texts, hand_over, self.prepared)

    def _view(self) -> str:
        self._views += 1
        return f"__ab_test_{id(self)}_{self._views}"


def numbers(*values: int | None, name: str = "x") -> tuple[tuple[Column, ...], pa.Table]:
    return (Column(name, "bigint"),), pa.table({name: pa.array(values, pa.int64())})
