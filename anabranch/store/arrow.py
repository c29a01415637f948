"""Rows as Arrow tables, exactly in a table's types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from anabranch.algebra.relation import Column
from anabranch.errors import QueryError
from anabranch.spark.types import parse_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLAIN: dict[type[DataType], pa.DataType] = {
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    StringType: pa.string(),
    BinaryType: pa.binary(),
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us", "UTC"),
    TimestampNTZType: pa.timestamp("us"),
}


def arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type of a Spark type that a table can hold."""
    match data_type:
        case DecimalType():
            return pa.decimal128(data_type.precision, data_type.scale)
        case ArrayType():
            return pa.list_(arrow_type(data_type.elementType))
        case MapType():
            return pa.map_(arrow_type(data_type.keyType), arrow_type(data_type.valueType))
        case StructType():
            return pa.struct([pa.field(field.name, arrow_type(field.dataType)) for field in data_type.fields])
    return _PLAIN[type(data_type)]


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """The Arrow schema of a table's columns."""
    return pa.schema([pa.field(column.name, arrow_type(parse_type(column.type))) for column in columns])


def conform(rows: pa.Table, columns: tuple[Column, ...]) -> pa.Table:
    """The rows in the table's column order and types; what does not fit is refused, nothing is rounded."""
    given = {name.lower(): position for position, name in enumerate(rows.column_names)}
    wanted = [column.name.lower() for column in columns]
    if len(given) != len(rows.column_names) or set(given) != set(wanted):
        raise QueryError(
            "COLUMNS_DO_NOT_FIT",
            "the rows do not have the table's columns",
            detail=f"Given: {', '.join(rows.column_names)}. The table has: {', '.join(each.name for each in columns)}.",
        )
    schema = arrow_schema(columns)
    arrays = []
    for name, target in zip(wanted, schema, strict=True):
        array = rows.column(given[name])
        arrays.append(array if array.type == target.type else _cast(array, target))
    conformed = pa.Table.from_arrays(arrays, schema=schema)
    _check_text(conformed)
    return conformed


def to_frame(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """The rows as a DataFrame of exactly this schema."""
    return spark.createDataFrame(rows.combine_chunks(), schema)  # Spark stops at an empty chunk


def _cast(array: pa.ChunkedArray, target: pa.Field) -> pa.ChunkedArray:
    try:
        return array.cast(target.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise QueryError(
            "VALUE_DOES_NOT_FIT",
            f"values of type {array.type} do not fit column {target.name!r} of type {target.type}",
            detail=str(error),
        ) from error


def _check_text(rows: pa.Table) -> None:
    """Text that is not UTF-8 would be stored and break every reader."""
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise QueryError(
                "TEXT_NOT_UTF8",
                f"column {name!r} holds values that cannot be stored",
                detail=str(error),
                hint="Store bytes as BINARY, or repair the text with make_valid_utf8.",
            ) from error
