"""Several results by one job: rows are tagged with the number of the query they belong to, and taken apart again.

    SELECT 0 AS tag, x AS s0, CAST(NULL AS string) AS s1 FROM (...)  UNION ALL  SELECT 1, z, y FROM (...)

Columns of one type share slots, so the result is as wide as the widest query, however many there are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.algebra.relation import Column
from anabranch.spark.prepared import PreparedQueries
from anabranch.spark.quote import quoted
from anabranch.spark.session import FOR_FEW_ROWS, FOR_SMALL_CHANGES, tuned
from anabranch.spark.side_by_side import grouped, side_by_side
from anabranch.spark.texts import Text
from anabranch.spark.types import columns_of, type_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TAG = "__ab_tag"
_SLOT = "__ab_s"
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
                jobs = list(_jobs(spark, texts, places, hand_over, prepared))
                results = side_by_side(spark, lambda job: job.run(), jobs)
                for job, found in zip(jobs, results, strict=True):
                    tables.update(zip(job.places, found, strict=True))
    return [tables[place] for place in range(len(texts))]


@dataclass(frozen=True)
class _Job:
    """What is run at once: the tables of the texts at these places."""

    places: Sequence[int]
    run: Callable[[], list[pa.Table]]


def _jobs(
    spark: SparkSession,
    texts: Sequence[Text],
    places: Sequence[int],
    hand_over: Callable[[str], None],
    prepared: PreparedQueries,
) -> Iterator[_Job]:
    """One for each text that is prepared, and one for each group of others, whose rows are handed over."""
    runs = dict(zip(places, prepared.runs(spark, [texts[place] for place in places]), strict=True))
    others = [place for place in places if runs[place] is None]
    for view in dict.fromkeys(given.view for place in others for given in texts[place].given):
        hand_over(view)
    for group in grouped(others, [texts[place].size for place in others]):
        yield _Job(group, partial(collect_texts, spark, [texts[place] for place in group]))
    for place, run in runs.items():
        if run is not None:
            yield _Job([place], partial(_alone, run))


def _alone(run: Callable[[], pa.Table]) -> list[pa.Table]:
    return [run()]


def collect_texts(spark: SparkSession, texts: Sequence[Text]) -> list[pa.Table]:
    """The rows of every query, in order, by one job."""
    if len(texts) <= 1:
        return [spark.sql(each.sql).toArrow() for each in texts]
    places = [list(_places(each.columns)) for each in texts]
    slots = {slot: type for each in places for slot, type in each}
    # Every task carries the whole plan, so few tasks that each do many branches beat a task for each branch.
    tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    union = " UNION ALL ".join(_tagged(*each, slots) for each in zip(count(), texts, places))
    rows = spark.sql(f"SELECT /*+ COALESCE({tasks}) */ * FROM ({union})").toArrow()
    return [_apart(rows, *each) for each in zip(count(), texts, places)]


def _places(columns: Sequence[Column]) -> Iterator[tuple[str, str]]:
    """For each column the slot that it goes into, and the slot's type."""
    used: defaultdict[str, int] = defaultdict(int)
    for each in columns:
        used[each.type] += 1
        yield f"{_SLOT}{used[each.type]} {each.type}", each.type


def _tagged(number: int, text: Text, places: Sequence[tuple[str, str]], slots: dict[str, str]) -> str:
    own = {slot: quoted(each.name) for (slot, _), each in zip(places, text.columns, strict=True)}
    values = (f"{own.get(slot) or f'CAST(NULL AS {type_sql(type)})'} AS {quoted(slot)}" for slot, type in slots.items())
    return f"SELECT {number} AS {_TAG}, {', '.join(values)} FROM ({text.sql})"


def _apart(rows: pa.Table, number: int, text: Text, places: Sequence[tuple[str, str]]) -> pa.Table:
    own = rows.filter(pc.equal(rows.column(_TAG), number))
    return pa.Table.from_arrays([own.column(slot) for slot, _ in places], names=[each.name for each in text.columns])
