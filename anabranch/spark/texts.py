"""Queries as text, with the rows at hand that they read."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from anabranch.algebra.relation import Column


@dataclass(frozen=True, eq=False)
class Given:
    """Rows at hand that texts read under the name of a view. They are handed over to Spark if it has to know them."""

    view: str
    columns: tuple[Column, ...]
    table: pa.Table


@dataclass(frozen=True)
class Text:
    """A query in Spark SQL and the columns of its result.

    `size`: about how many operators it has, rows at hand counted as operators that take as long; `given`: the rows at
    hand; `few`: it reads nothing else.
    """

    sql: str
    columns: tuple[Column, ...]
    size: int = 1
    few: bool = False
    given: tuple[Given, ...] = ()
