"""Our tables of functions name those of the Spark at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.sql.determinism import NONDETERMINISTIC, TIME
from anabranch.sql.functions import AGGREGATES, APPROXIMATE, GENERATORS, GROUPING, WINDOW_ONLY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def groups(spark: SparkSession) -> dict[str, set[str]]:
    registry: Any = spark._jsparkSession.sessionState().functionRegistry()
    found: dict[str, set[str]] = {}
    functions = registry.listFunction().iterator()
    while functions.hasNext():
        identifier = functions.next()
        info = registry.lookupFunction(identifier)
        if info.isDefined():
            found.setdefault(info.get().getGroup(), set()).add(identifier.funcName())
    return found


def test_tables_match_spark(spark: SparkSession) -> None:
    found = groups(spark)
    everything = set().union(*found.values())
    assert found["agg_funcs"] <= AGGREGATES | GROUPING
    assert found["window_funcs"] == WINDOW_ONLY
    assert found["generator_funcs"] <= GENERATORS
    assert everything >= AGGREGATES
    assert APPROXIMATE <= AGGREGATES
    assert everything >= TIME
    assert everything >= NONDETERMINISTIC
