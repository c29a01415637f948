"""Several results at once: queries over few rows that were prepared are run, the others in moderate groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa

from anabranch.spark.prepared import PreparedQueries
from anabranch.spark.session import FOR_FEW_ROWS, FOR_SMALL_CHANGES, tuned
from anabranch.spark.side_by_side import grouped, side_by_side
from anabranch.spark.tagged import tagged, taken_apart
from anabranch.spark.texts import Text
from anabranch.spark.types import columns_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_Job = Callable[[], dict[int, pa.Table]]
"""What is run at once: tables by the places of their texts; without one that has to be run otherwise."""
_number = count()


def collect_tagged(frames: Sequence[DataFrame]) -> list[pa.Table]:
    """The rows of every frame, in order."""
    if len(frames) <= 1:
        return [each.toArrow() for each in frames]
    spark, views = frames[0].sparkSession, []
    try:
        for frame in frames:
            views.append(f"__ab_tagged_{next(_number)}")
            frame.createOrReplaceTempView(views[-1])
        columns = (columns_of(frame.schema) for frame in frames)
        texts = [Text(f"SELECT * FROM {view}", each) for view, each in zip(views, columns, strict=True)]
        return collect_texts(spark, texts)
    finally:
        for view in views:
            spark.catalog.dropTempView(view)


def collect_many(
    spark: SparkSession, texts: Sequence[Text], hand_over: Callable[[str], None], prepared: PreparedQueries
) -> list[pa.Table]:
    """The rows of every query, in order: what is prepared is run, the rest by moderate groups, all side by side.

    `hand_over` lets Spark know the rows at hand that a view stands for.
    """
    tables: dict[int, pa.Table] = {}
    for few, settings in ((True, FOR_FEW_ROWS), (False, FOR_SMALL_CHANGES)):
        places = [place for place, each in enumerate(texts) if each.few is few]
        if places:
            with tuned(spark, settings):
                runs = prepared.runs(spark, {place: texts[place] for place in places})
                known = {place for run in runs for place in run.places}
                fresh = _fresh(spark, texts, [place for place in places if place not in known], hand_over)
                tables |= _done(spark, [*fresh, *runs])
                left = [place for place in places if place not in tables]
                tables |= _done(spark, _fresh(spark, texts, left, hand_over))
    return [tables[place] for place in range(len(texts))]


def _fresh(
    spark: SparkSession, texts: Sequence[Text], places: Sequence[int], hand_over: Callable[[str], None]
) -> list[_Job]:
    """Jobs for the texts at these places, whose rows at hand are handed over."""
    for view in dict.fromkeys(given.view for place in places for given in texts[place].given):
        hand_over(view)
    groups = grouped(places, [texts[place].size for place in places])
    return [partial(_collected, spark, {place: texts[place] for place in group}) for group in groups]


def _collected(spark: SparkSession, texts: Mapping[int, Text]) -> dict[int, pa.Table]:
    return dict(zip(texts, collect_texts(spark, list(texts.values())), strict=True))


def _done(spark: SparkSession, jobs: Sequence[_Job]) -> dict[int, pa.Table]:
    return {place: table for found in side_by_side(spark, lambda job: job(), jobs) for place, table in found.items()}


def collect_texts(spark: SparkSession, texts: Sequence[Text]) -> list[pa.Table]:
    """The rows of every query, in order, by one job."""
    tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or 1) if len(texts) > 1 else 1
    rows = spark.sql(tagged(texts, tasks)).toArrow()
    return taken_apart(rows, [each.columns for each in texts])
