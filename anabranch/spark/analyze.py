"""Ask Spark's analyzer for types. Analysis runs no job; answers are kept by text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation import RESERVED_PREFIX, Column
from anabranch.errors import QueryError
from anabranch.spark.quiet import quietly
from anabranch.spark.quote import quoted
from anabranch.spark.types import columns_of, type_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEPT_ANSWERS = 10_000


@lru_cache(maxsize=4)
def _system_functions(spark: SparkSession) -> frozenset[str]:
    return frozenset(row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect())


class SparkAnalyzer:
    """Types and schemas as Spark sees them, under the settings of one session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._schemas: dict[str, StructType] = {}

    def types(self, expressions: Sequence[Expression], columns: Sequence[Column]) -> list[str]:
        """The types of expressions over an input with these columns: scalars, aggregates, windows, generators.

        `Outer` holes are looked up among the columns, too. A generator of several columns has a struct of them.
        """
        if not expressions:
            return []
        texts = [each.text(lambda hole: quoted(hole.name)) for each in expressions]
        given = _input(columns)
        for question in (_together(texts, given), _apart(texts, given)):
            with suppress(PySparkException):
                return [field.dataType.simpleString() for field in self._schema(question).fields]
        return [self._type_alone(text, given) for text in texts]

    def schema(self, sql: str) -> tuple[Column, ...]:
        """The columns of a query."""
        try:
            return columns_of(self._schema(sql))
        except PySparkException as failure:
            raise query_error(failure) from None

    def body_of(self, function: str) -> str:
        """How a function that somebody defined is defined; empty for Spark's own, and for what is none, like CAST."""
        if function in _system_functions(self._spark):
            return ""
        with suppress(PySparkException), quietly():
            lines = self._spark.sql(f"DESCRIBE FUNCTION EXTENDED {quoted(function)}").collect()
            return "\n".join(row[0] for row in lines).partition("Body:")[2]
        return ""

    def constant(self, text: str) -> object:
        """The value of a constant expression, which the analyzer works out itself: VALUES holds nothing else."""
        with suppress(PySparkException), quietly():
            return self._spark.sql(f"VALUES ({text})").collect()[0][0]
        return None

    def _type_alone(self, text: str, given: str) -> str:
        try:
            fields = self._schema(f"SELECT {text} FROM {given}").fields
        except PySparkException as failure:
            raise query_error(failure, text) from None
        if len(fields) == 1:
            return str(fields[0].dataType.simpleString())
        return str(StructType(fields).simpleString())

    def _schema(self, sql: str) -> StructType:
        known = self._schemas.get(sql)
        if known is None:
            with quietly():
                known = self._spark.sql(sql).schema
            if len(self._schemas) >= _KEPT_ANSWERS:
                self._schemas.clear()
            self._schemas[sql] = known
        return known


def _input(columns: Sequence[Column]) -> str:
    """An input with these columns, none of them constant to the analyzer."""
    if not columns:
        return "(SELECT 1)"
    return (
        "(SELECT " + ", ".join(f"CAST(NULL AS {type_sql(each.type)}) AS {quoted(each.name)}" for each in columns) + ")"
    )


def _together(texts: Sequence[str], given: str) -> str:
    """One SELECT of all: for scalars and windows, or for aggregates, but not for a mixture."""
    return "SELECT " + ", ".join(f"{text} AS `{number}`" for number, text in enumerate(texts)) + f" FROM {given}"


def _apart(texts: Sequence[str], given: str) -> str:
    """One SELECT each, side by side, so that aggregates, scalars and generators do not meet."""
    each_alone = (f"(SELECT {text} AS `{number}` FROM given)" for number, text in enumerate(texts))
    return f"WITH given AS (SELECT * FROM {given}) SELECT * FROM " + ", ".join(each_alone)


def query_error(failure: PySparkException, expression: str | None = None) -> QueryError:
    """Spark's complaint without its stack: condition, first line, place."""
    condition = failure.getCondition() or "QUERY_NOT_UNDERSTOOD"
    text = _message_of(failure)
    message = re.sub(r"^\[[\w.]+\]\s*", "", text.split("\n")[0])
    message = re.sub(r"\s*(?:SQLSTATE: .*|; line \d+ pos \d+.*|\(line \d+, pos \d+\))$", "", message)
    message = re.sub(r"\[(`[^\]]*)\]", _without_our_own, message)
    if expression is not None:
        return QueryError(condition, message, f"in {expression}")
    place = re.search(r"line (\d+),? pos (\d+)", text)
    return QueryError(condition, message, f"line {place.group(1)}, position {place.group(2)}" if place else "")


def _without_our_own(suggested: re.Match[str]) -> str:
    """A list of columns that Spark suggests, without those that only we know."""
    return "[" + ", ".join(each for each in suggested[1].split(", ") if RESERVED_PREFIX not in each) + "]"


def _message_of(failure: PySparkException) -> str:
    """The message alone; `str` may append a Java stack."""
    return re.split(r"\n(?:JVM stacktrace|\s+at )", str(failure))[0].strip()
