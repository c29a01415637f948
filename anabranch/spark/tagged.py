"""Several queries as one: rows are tagged with the number of the query they belong to, and taken apart again.

    SELECT 0 AS tag, x AS s0, CAST(NULL AS string) AS s1 FROM (...)  UNION ALL  SELECT 1, z, y FROM (...)

Columns of one type share places, so the result is as wide as the widest query, however many there are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.algebra.relation import Column
from anabranch.spark.quote import quoted
from anabranch.spark.texts import Text
from anabranch.spark.types import type_sql

_TAG = "__ab_tag"
_PLACE = "__ab_s"


def tagged(texts: Sequence[Text], tasks: int) -> str:
    """One text for all of them. Every task carries the whole plan: few that each do much beat one for each query."""
    if len(texts) == 1:
        return texts[0].sql
    types = {place: type for each in texts for place, type in _places(each.columns)}
    union = " UNION ALL ".join(_branch(number, each, types) for number, each in enumerate(texts))
    return f"SELECT /*+ COALESCE({tasks}) */ * FROM ({union})"


def taken_apart(rows: pa.Table, results: Sequence[tuple[Column, ...]]) -> list[pa.Table]:
    """The rows of each query; `results` are their columns."""
    if len(results) == 1:
        return [rows]
    tags = rows.column(_TAG)
    return [_own(rows.filter(pc.equal(tags, number)), columns) for number, columns in enumerate(results)]


def _places(columns: Sequence[Column]) -> Iterator[tuple[str, str]]:
    """For each column the place that it goes into, and its type."""
    used: defaultdict[str, int] = defaultdict(int)
    for each in columns:
        used[each.type] += 1
        yield f"{_PLACE}{used[each.type]} {each.type}", each.type


def _branch(number: int, text: Text, types: dict[str, str]) -> str:
    own = {place: quoted(each.name) for (place, _), each in zip(_places(text.columns), text.columns, strict=True)}
    values = (
        f"{own.get(place) or f'CAST(NULL AS {type_sql(type)})'} AS {quoted(place)}" for place, type in types.items()
    )
    return f"SELECT {number} AS {_TAG}, {', '.join(values)} FROM ({text.sql})"


def _own(rows: pa.Table, columns: Sequence[Column]) -> pa.Table:
    arrays = [rows.column(place) for place, _ in _places(columns)]
    return pa.Table.from_arrays(arrays, names=[each.name for each in columns])
