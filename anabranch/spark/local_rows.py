"""Arrow tables as DataFrames: as `createDataFrame` makes them, with a sixth of its calls to the JVM.

A tick hands over hundreds of small tables, and PySpark asks the JVM forty times for each. Where its own way does more
than hand over (time zones, another encoding, Spark Connect) it is left to PySpark.
"""

from __future__ import annotations

import os
import tempfile
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from anabranch.algebra.relation import Column
from anabranch.spark.session import is_remote
from anabranch.spark.types import struct_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_of(spark: SparkSession, table: pa.Table, columns: tuple[Column, ...]) -> DataFrame:
    """The table, which has these columns in this order, as a frame."""
    table = table.combine_chunks()  # Spark stops reading at a chunk without rows
    if is_remote(spark) or not _is_plain(spark, columns):
        return spark.createDataFrame(_with_chunks(table), struct_of(columns))
    from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

    schema, text = _schemas(columns)
    read, to_frame = _calls(spark)
    handle, path = tempfile.mkstemp(prefix="anabranch-rows-")
    try:
        with os.fdopen(handle, "wb") as file, pa.ipc.new_stream(file, schema) as writer:
            writer.write_table(table.cast(schema))
        return ClassicFrame(to_frame(read(path), text, spark._jsparkSession), spark)
    finally:
        os.unlink(path)


def _is_plain(spark: SparkSession, columns: tuple[Column, ...]) -> bool:
    return not any("timestamp" in each.type for each in columns) and _is_usual(spark)


@lru_cache(maxsize=8)
def _is_usual(spark: SparkSession) -> bool:
    """Whether rows are handed over as files that anybody may read, with strings of the usual size."""
    return (
        not spark.sparkContext._encryption_enabled
        and spark.conf.get("spark.sql.execution.arrow.useLargeVarTypes") == "false"
    )


@lru_cache(maxsize=1_000)
def _schemas(columns: tuple[Column, ...]) -> tuple[pa.Schema, str]:
    struct = struct_of(columns)
    return to_arrow_schema(struct, error_on_duplicated_field_names_in_struct=True, timezone="UTC"), struct.json()


@lru_cache(maxsize=8)
def _calls(spark: SparkSession) -> tuple[Any, Any]:
    """Methods of the JVM, looked up once."""
    jvm: Any = spark._jvm
    utils = jvm.org.apache.spark.sql.api.python.PythonSQLUtils
    return utils.readArrowStreamFromFile, utils.toDataFrame


def _with_chunks(table: pa.Table) -> pa.Table:
    """The same table; one without rows may have no chunks at all, which PySpark does not take."""
    if table.num_rows:
        return table
    return pa.Table.from_arrays([pa.array([], each.type) for each in table.schema], schema=table.schema)
