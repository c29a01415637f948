"""A `spark` and DataFrames that only write down the SQL they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anabranch.errors import QueryError
from anabranch.spark.quote import quoted


@dataclass(frozen=True)
class RecordedFrame:
    """A DataFrame as a query text. What is not plain SQL is refused by its name."""

    query: str

    def select(self, *columns: Any) -> RecordedFrame:
        return RecordedFrame(f"SELECT {', '.join(_names(columns, 'select'))} FROM {self._nested}")

    def selectExpr(self, *expressions: str) -> RecordedFrame:  # noqa: N802  Spark's name
        return RecordedFrame(f"SELECT {', '.join(_texts(expressions, 'selectExpr'))} FROM {self._nested}")

    def filter(self, condition: Any) -> RecordedFrame:
        (text,) = _texts((condition,), "filter")
        return RecordedFrame(f"SELECT * FROM {self._nested} WHERE {text}")

    where = filter

    def distinct(self) -> RecordedFrame:
        return RecordedFrame(f"SELECT DISTINCT * FROM {self._nested}")

    def union(self, other: RecordedFrame) -> RecordedFrame:
        return RecordedFrame(f"SELECT * FROM {self._nested} UNION ALL SELECT * FROM {other._nested}")

    unionAll = union  # noqa: N815  Spark's name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _not_recorded(f"DataFrame.{name}")

    def __getitem__(self, name: Any) -> Any:
        raise _not_recorded(f"DataFrame[{name!r}]")

    @property
    def _nested(self) -> str:
        return f"({self.query})"


@dataclass(frozen=True)
class RecordingSession:
    """The `spark` that a pipeline's file sees."""

    file: str

    def sql(self, sqlQuery: str, args: Any = None, **kwargs: Any) -> RecordedFrame:  # noqa: N803  Spark's name
        if args or kwargs:
            raise _not_recorded("spark.sql with arguments")
        return RecordedFrame(sqlQuery.strip().rstrip(";"))

    def table(self, tableName: str) -> RecordedFrame:  # noqa: N803  Spark's name
        return RecordedFrame("SELECT * FROM " + ".".join(quoted(each) for each in tableName.split(".")))

    def range(self, start: int, end: int | None = None, step: int = 1, numPartitions: Any = None) -> RecordedFrame:  # noqa: N803
        first, last = (0, start) if end is None else (start, end)
        return RecordedFrame(f"SELECT id FROM range({first}, {last}, {step})")

    @property
    def read(self) -> _Reader:
        return _Reader(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _not_recorded(f"spark.{name}")


@dataclass(frozen=True)
class _Reader:
    session: RecordingSession

    def table(self, tableName: str) -> RecordedFrame:  # noqa: N803  Spark's name
        return self.session.table(tableName)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _not_recorded(f"spark.read.{name}")


def _names(columns: tuple[Any, ...], method: str) -> list[str]:
    given = columns[0] if len(columns) == 1 and isinstance(columns[0], list) else columns
    return [each if each == "*" else quoted(each) for each in _texts(tuple(given), method)]


def _texts(given: tuple[Any, ...], method: str) -> list[str]:
    for each in given:
        if not isinstance(each, str):
            raise _not_recorded(f"DataFrame.{method} with {type(each).__name__}")
    return list(given)


def _not_recorded(what: str) -> QueryError:
    return QueryError(
        "PIPELINE_NOT_SUPPORTED",
        f"{what} cannot be taken over: it is no SQL text",
        "taken over are spark.sql, spark.table, spark.range, and of DataFrames select and selectExpr of names and "
        "texts, filter and where with a text, distinct and union",
        "write the query as text: return spark.sql('SELECT ...')",
    )
