"""Several results by one job: rows are tagged with the number of the frame they belong to, and taken apart again.

SELECT 0 AS tag, struct(x, y) AS f0, NULL AS f1 ... UNION ALL SELECT 1, NULL, struct(z) ...
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions
from pyspark.sql.types import StructField, StructType

from anabranch.spark.quote import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TAG = "__ab_tag"


def collect_tagged(frames: Sequence[DataFrame]) -> list[pa.Table]:
    """The rows of every frame, in order."""
    if len(frames) <= 1:
        return [each.toArrow() for each in frames]
    types = [nullable(each.schema) for each in frames]
    tagged = []
    for number, frame in enumerate(frames):
        values = [
            (functions.struct(*map(quoted, frame.columns)) if other == number else functions.lit(None))
            .cast(each)
            .alias(f"f{other}")
            for other, each in enumerate(types)
        ]
        tagged.append(frame.select(functions.lit(number).alias(_TAG), *values))
    together = reduce(lambda one, two: one.unionAll(two), tagged)
    # Every task carries the whole plan, so few tasks that each do many branches beat a task for each branch.
    tasks = int(frames[0].sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    return apart(together.coalesce(tasks).toArrow(), len(frames))


def nullable(schema: StructType) -> StructType:
    """The same columns, none of them said to be free of NULLs: in the rows of other frames they are NULL."""
    return StructType([StructField(field.name, field.dataType) for field in schema.fields])


def apart(rows: pa.Table, count: int) -> list[pa.Table]:
    """The tagged rows as one table for each tag."""
    tables: list[pa.Table] = []
    for number in range(count):
        own = rows.filter(pc.equal(rows.column(_TAG), number)).column(f"f{number}").combine_chunks()
        tables.append(pa.Table.from_arrays(own.flatten(), names=[field.name for field in own.type]))
    return tables
