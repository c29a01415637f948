"""Large results: executors write Parquet files into the staging folder, and the driver only learns their names.

The files carry no field ids: the table may not exist yet. DuckLake maps their names to columns when it registers them.
Text that is not UTF-8 would be registered and then break readers, so it is checked while it is written.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from anabranch.algebra.relation import Column
from anabranch.errors import QueryError
from anabranch.spark.quote import literal, quoted
from anabranch.spark.types import columns_of, parse_type, type_sql
from anabranch.store.crashpoints import reach
from anabranch.store.protocol import StagedFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stage(rows: DataFrame, columns: tuple[Column, ...], folder: Path) -> StagedFiles:
    """Write the rows, in the table's columns, order and types, into a folder of their own below `folder`."""
    place = folder / uuid.uuid4().hex
    reach("stage.before_write")
    checked = rows.selectExpr(*_expressions(rows, columns))
    try:
        checked.write.option("compression", "zstd").mode("error").parquet(str(place))
    except PySparkException as error:
        if "INVALID_UTF8_STRING" in str(error):
            raise QueryError(
                "TEXT_NOT_UTF8",
                "the rows hold text that is not UTF-8",
                detail=str(error).splitlines()[0],
                hint="Store bytes as BINARY, or repair the text with make_valid_utf8.",
            ) from error
        raise
    reach("stage.after_write")
    return _collect(place)


def _expressions(rows: DataFrame, columns: tuple[Column, ...]) -> list[str]:
    given = {name.lower(): name for name in rows.columns}
    if len(given) != len(rows.columns) or set(given) != {each.name.lower() for each in columns}:
        raise QueryError(
            "COLUMNS_DO_NOT_FIT",
            "the rows do not have the table's columns",
            detail=f"Given: {', '.join(rows.columns)}. The table has: {', '.join(each.name for each in columns)}.",
        )
    types = {each.name.lower(): each.type for each in columns_of(rows.schema)}
    expressions = []
    for column in columns:
        value = quoted(given[column.name.lower()])
        if types[column.name.lower()] != column.type:
            value = f"CAST({value} AS {type_sql(column.type)})"
        expressions.append(f"{_checked(value, parse_type(column.type), 0)} AS {quoted(column.name)}")
    return expressions


def _checked(sql: str, data_type: DataType, depth: int) -> str:
    """The value itself; raises where a text in it is not UTF-8."""
    if not _holds_text(data_type):
        return sql
    item = f"__ab_{depth}"
    match data_type:
        case StringType():
            return f"validate_utf8({sql})"
        case ArrayType():
            return f"transform({sql}, {item} -> {_checked(item, data_type.elementType, depth + 1)})"
        case MapType():
            key = _checked(f"{item}.key", data_type.keyType, depth + 1)
            value = _checked(f"{item}.value", data_type.valueType, depth + 1)
            entry = f"named_struct('key', {key}, 'value', {value})"
            return f"map_from_entries(transform(map_entries({sql}), {item} -> {entry}))"
        case StructType():
            fields = ", ".join(
                f"{literal(each.name)}, {_checked(f'{sql}.{quoted(each.name)}', each.dataType, depth + 1)}"
                for each in data_type.fields
            )
            return f"IF({sql} IS NULL, NULL, named_struct({fields}))"
    return sql


def _holds_text(data_type: DataType) -> bool:
    match data_type:
        case StringType():
            return True
        case ArrayType():
            return _holds_text(data_type.elementType)
        case MapType():
            return _holds_text(data_type.keyType) or _holds_text(data_type.valueType)
        case StructType():
            return any(_holds_text(each.dataType) for each in data_type.fields)
    return False


def _collect(place: Path) -> StagedFiles:
    """Only files with rows count; the others go with the folder when it is cleaned."""
    paths: list[str] = []
    rows = 0
    for path in sorted(place.glob("*.parquet")):
        count = pq.read_metadata(path).num_rows
        if count:
            unique = path.with_name(f"staged-{place.name}-{len(paths)}.parquet")
            path.rename(unique)
            paths.append(str(unique))
            rows += count
    return StagedFiles(tuple(paths), rows)
