"""Which queries may be planned once and run again over other rows.

The text must mean the same each time: no chance, no clock, no function that somebody could define anew. The plan must
work everything out each time: Spark keeps what was shuffled, broadcast, cached or found by a subquery with the plan.
Both are decided by what is known to be safe; whatever is not known is not repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from anabranch.sql.clock import readings
from anabranch.sql.determinism import NONDETERMINISTIC, TIME, TIME_WITHOUT_ARGUMENTS, WITHOUT_PARENTHESES
from anabranch.sql.tokens import Kind, tokenize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPEATABLE_NODES = frozenset(
    (
        *("FileScan", "ColumnarToRow", "LocalTableScan", "Scan", "Range"),
        *("Project", "Filter", "Generate", "Expand", "Coalesce", "Union"),
        *("Sort", "SortMergeJoin", "CartesianProduct"),
        *("HashAggregate", "ObjectHashAggregate", "SortAggregate", "MergingSessions", "UpdatingSessions"),
        *("Window", "WindowGroupLimit", "CollectLimit", "GlobalLimit", "LocalLimit", "TakeOrderedAndProject"),
    )
)
"""Operators of Spark that start anew each time they are run."""
_NODE = re.compile(r"[\s:+-]*(?:\*\(\d+\) )?(\w+)")
_CUT = re.compile(r"more characters\s*\Z|Truncated plan of")
"""Spark says so where it shows only the start of a long plan."""
_CHANGES = NONDETERMINISTIC | TIME | TIME_WITHOUT_ARGUMENTS
_SYNTAX = frozenset(
    (
        *("all", "and", "any", "as", "between", "by", "case", "distinct", "else", "end", "except", "exists", "filter"),
        *("from", "group", "having", "in", "intersect", "join", "lateral", "like", "not", "on", "or", "over"),
        *("partition", "select", "sets", "some", "then", "union", "using", "values", "when", "where", "with"),
        *("array", "cast", "char", "coalesce", "dec", "decimal", "extract", "map", "numeric", "overlay", "position"),
        *("string", "struct", "substr", "substring", "trim", "try_cast", "varchar"),
    )
)
"""Words of the grammar before a parenthesis."""


def means_the_same_each_time(spark: SparkSession, text: str) -> bool:
    """Whether the text calls only functions of Spark's own whose value is given by their arguments."""
    called = set(_called(text))
    return not called & _CHANGES and not readings(text) and called <= _SYNTAX | _functions_of_spark(spark)


def starts_anew_each_time(frame: DataFrame) -> bool:
    """Whether every operator of the frame's physical plan is one that keeps nothing. Not to be asked over Connect."""
    plan: str = frame._jdf.queryExecution().executedPlan().toString()
    if _CUT.search(plan):
        return False
    nodes = (_NODE.match(line) for line in plan.splitlines() if line.strip())
    return all(node is not None and node.group(1) in REPEATABLE_NODES for node in nodes)


def _called(text: str) -> Iterator[str]:
    for token, following in pairwise(tokenize(text).tokens):
        word = token.text.lower()
        if token.kind in (Kind.WORD, Kind.QUOTED) and (following.text == "(" or word in WITHOUT_PARENTHESES):
            yield word


@lru_cache(maxsize=8)
def _functions_of_spark(spark: SparkSession) -> frozenset[str]:
    return frozenset(name.lower() for (name,) in spark.sql("SHOW SYSTEM FUNCTIONS").collect())
