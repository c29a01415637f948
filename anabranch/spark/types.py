"""Types as text and back, without asking Spark.

The text is what `DataType.simpleString()` prints; that leaves odd names of struct fields bare, so `type_sql` quotes
them for use in a `CAST`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CalendarIntervalType,
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VarcharType,
    VariantType,
    YearMonthIntervalType,
)

from anabranch.algebra.relation import Column
from anabranch.errors import QueryError
from anabranch.spark.quote import quoted

_PLAIN: dict[str, Callable[[], DataType]] = {
    "bigint": LongType,
    "binary": BinaryType,
    "boolean": BooleanType,
    "byte": ByteType,
    "date": DateType,
    "dec": DecimalType,
    "decimal": DecimalType,
    "double": DoubleType,
    "float": FloatType,
    "int": IntegerType,
    "integer": IntegerType,
    "interval": CalendarIntervalType,
    "long": LongType,
    "numeric": DecimalType,
    "real": FloatType,
    "short": ShortType,
    "smallint": ShortType,
    "string": StringType,
    "timestamp": TimestampType,
    "timestamp_ltz": TimestampType,
    "timestamp_ntz": TimestampNTZType,
    "tinyint": ByteType,
    "variant": VariantType,
    "void": NullType,
}
_DAY_TIME = ("day", "hour", "minute", "second")
_YEAR_MONTH = ("year", "month")


@lru_cache(maxsize=4096)
def parse_type(text: str) -> DataType:
    """The type that this text names.

    >>> parse_type("array<decimal(12,2)>").simpleString()
    'array<decimal(12,2)>'
    """
    data_type, rest = _parse(text)
    if rest.strip():
        raise _unknown(text)
    return data_type


@lru_cache(maxsize=4096)
def type_sql(text: str) -> str:
    """The type as it stands in a CAST, names of struct fields quoted.

    >>> type_sql("struct<a b:int>")
    'struct<`a b`:int>'
    """
    return _sql(parse_type(text))


def struct_of(columns: tuple[Column, ...]) -> StructType:
    """The schema of a DataFrame with these columns."""
    return StructType([StructField(each.name, parse_type(each.type)) for each in columns])


def columns_of(schema: StructType) -> tuple[Column, ...]:
    """The columns of a DataFrame's schema."""
    return tuple(Column(field.name, field.dataType.simpleString()) for field in schema.fields)


def _sql(data_type: DataType) -> str:
    match data_type:
        case ArrayType():
            return f"array<{_sql(data_type.elementType)}>"
        case MapType():
            return f"map<{_sql(data_type.keyType)},{_sql(data_type.valueType)}>"
        case StructType():
            inside = ",".join(f"{quoted(field.name)}:{_sql(field.dataType)}" for field in data_type.fields)
            return f"struct<{inside}>" if inside else "struct<>"
    return data_type.simpleString()


def _parse(text: str) -> tuple[DataType, str]:
    """The type at the start of the text, and what follows it."""
    text = text.lstrip()
    word = re.match(r"[A-Za-z_]+", text)
    if word is None:
        raise _unknown(text)
    name, rest = word.group().lower(), text[word.end() :].lstrip()
    match name:
        case "array" if rest.startswith("<"):
            element, rest = _parse(rest[1:])
            return ArrayType(element), _after(rest, ">")
        case "map" if rest.startswith("<"):
            key, rest = _parse(rest[1:])
            value, rest = _parse(_after(rest, ","))
            return MapType(key, value), _after(rest, ">")
        case "struct" if rest.startswith("<"):
            return _parse_struct(rest[1:])
        case "interval" if rest and rest[0].isalpha():
            return _parse_interval(rest)
        case "string" if collation := re.match(r"collate\s+([\w.]+)", rest, re.IGNORECASE):
            return StringType(collation.group(1)), rest[collation.end() :]
    return _parse_plain(name, rest)


def _parse_plain(name: str, rest: str) -> tuple[DataType, str]:
    numbers: list[int] = []
    if arguments := re.match(r"\(\s*(\d+)\s*(?:,\s*(-?\d+)\s*)?\)", rest):
        numbers = [int(each) for each in arguments.groups() if each is not None]
        rest = rest[arguments.end() :]
    match name, numbers:
        case (("decimal" | "dec" | "numeric"), [_, *_]):
            return DecimalType(*numbers), rest
        case "char", [length]:
            return CharType(length), rest
        case "varchar", [length]:
            return VarcharType(length), rest
        case "time", []:
            return TimeType(), rest
        case "time", [precision]:
            return TimeType(precision), rest
        case _, [] if name in _PLAIN:
            return _PLAIN[name](), rest
    raise _unknown(name)


def _parse_struct(text: str) -> tuple[DataType, str]:
    fields: list[StructField] = []
    rest = text.lstrip()
    while not rest.startswith(">"):
        if fields:
            rest = _after(rest, ",")
        name, rest = _parse_field_name(rest.lstrip())
        data_type, rest = _parse(rest)
        fields.append(StructField(name, data_type))
        rest = rest.lstrip()
        if not rest:
            raise _unknown(f"struct<{text}")
    return StructType(fields), rest[1:]


def _parse_field_name(text: str) -> tuple[str, str]:
    if quoted_name := re.match(r"`((?:[^`]|``)+)`\s*:", text):
        return quoted_name.group(1).replace("``", "`"), text[quoted_name.end() :]
    name, separator, rest = text.partition(":")
    if not separator:
        raise _unknown(text)
    return name, rest


def _parse_interval(text: str) -> tuple[DataType, str]:
    unit = re.match(r"(\w+)(?:\s+to\s+(\w+))?", text, re.IGNORECASE)
    assert unit is not None
    first = unit.group(1).lower()
    last = (unit.group(2) or first).lower()
    rest = text[unit.end() :]
    if first in _DAY_TIME and last in _DAY_TIME:
        return DayTimeIntervalType(_DAY_TIME.index(first), _DAY_TIME.index(last)), rest
    if first in _YEAR_MONTH and last in _YEAR_MONTH:
        return YearMonthIntervalType(_YEAR_MONTH.index(first), _YEAR_MONTH.index(last)), rest
    raise _unknown(text)


def _after(text: str, token: str) -> str:
    text = text.lstrip()
    if not text.startswith(token):
        raise _unknown(text)
    return text[len(token) :]


def _unknown(text: str) -> QueryError:
    return QueryError("TYPE_NOT_KNOWN", f"the type {text!r} is not known", hint="Use a type of Spark SQL.")
