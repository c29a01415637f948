"""What Spark raises while it runs: without noise, and without the Java stack."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError as Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException as PySparkException

from anabranch.errors import QueryError, RefreshError
from anabranch.spark.quiet import quietly
from anabranch.spark.render.weights import NEGATIVE_WEIGHT

_LONGEST = 500


class TooLargeError(Exception):
    """A result is larger than the driver may collect."""


@contextmanager
def running() -> Iterator[None]:
    """Inside, errors of the query are raised as PySpark has them, quietly; errors of the cluster as RefreshError."""
    try:
        with quietly():
            yield
    except (PySparkException, Py4JError) as failure:
        if "maxResultSize" in str(failure):
            raise TooLargeError from None
        if isinstance(failure, PySparkException):
            raise
        raise refresh_error(failure) from None


def refresh_error(failure: Exception) -> RefreshError:
    """Spark's complaint in one line."""
    text = str(failure).strip()
    if NEGATIVE_WEIGHT in text:
        return RefreshError(
            NEGATIVE_WEIGHT,
            "a row would occur less than zero times",
            "An operator that needs whole rows met a negative count: its input and the change do not fit together.",
            "Refresh the stream table in full.",
        )
    condition = failure.getCondition() if isinstance(failure, PySparkException) else None
    found = re.search(r"\[([A-Z][\w.]+)\] ([^\n]*)", text)
    code = condition or (found.group(1) if found else "SPARK_FAILED")
    causes = re.findall(r"^(?:: |Caused by: )([\w.$]+(?:Exception|Error)[^\n]*)", text, re.MULTILINE)
    message = found.group(2) if found else causes[-1] if causes else text.split("\n")[0]
    message = re.sub(r"\s*SQLSTATE: .*$", "", message)
    return RefreshError(code, message[:_LONGEST])


def statement_error(failure: Exception) -> QueryError:
    """The same for a statement that a user runs."""
    described = refresh_error(failure)
    return QueryError(described.code, described.message)
