"""Types as text: everything that `simpleString` prints is read back."""

from __future__ import annotations

import pytest

from anabranch.algebra.relation import Column
from anabranch.errors import QueryError
from anabranch.spark.quote import literal, quoted
from anabranch.spark.types import columns_of, parse_type, struct_of, type_sql

PRINTED = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(38,18)", "decimal(10,0)", "string",
    "string collate UNICODE_CI", "binary", "date", "timestamp", "timestamp_ntz", "void", "interval", "variant",
    "interval day to second", "interval hour", "interval year to month", "interval month", "char(3)", "varchar(10)",
    "time(6)", "array<array<decimal(3,1)>>", "map<string,array<int>>", "struct<>", "struct<a:int>",
    "struct<a:struct<b:map<int,string>,c:array<struct<d:date>>>,e:decimal(5,2)>", "struct<a b:int,größe:string>",
)  # fmt: skip


@pytest.mark.parametrize("text", PRINTED)
def test_types_are_read_as_they_are_printed(text: str) -> None:
    assert parse_type(text).simpleString() == text


NOT_TYPES = ("", "nonsense", "array<int", "struct<a:int", "decimal(", "int int", "struct<a>", "interval day to month")


@pytest.mark.parametrize("text", NOT_TYPES)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(QueryError, match="TYPE_NOT_KNOWN"):
        parse_type(text)


def test_names_of_fields_are_quoted_in_sql() -> None:
    assert type_sql("struct<a b:struct<select:int>,c:array<string>>") == (
        "struct<`a b`:struct<`select`:int>,`c`:array<string>>"
    )
    assert type_sql("struct<`a:b``c`:int>") == "struct<`a:b``c`:int>"


def test_schemas_and_columns_are_the_same_thing() -> None:
    columns = (Column("a b", "decimal(12,2)"), Column("`", "array<struct<x:timestamp>>"))
    assert columns_of(struct_of(columns)) == columns


def test_quotes_are_doubled() -> None:
    assert quoted("a`b") == "`a``b`"
    assert literal("it's \\ here\n") == r"'it\'s \\ here\n'"
