"""Statements of Spark that only look: EXPLAIN, DESCRIBE and SHOW, to which the lake's tables are known."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from anabranch.engine import Engine
from anabranch.errors import QueryError
from anabranch.pinned import Pinned
from anabranch.reads import Views, spark_errors
from anabranch.sql.statement_nodes import OtherStatement, SelectStatement
from anabranch.sql.statements import parse_statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

READ_ONLY = frozenset({"SET", "EXPLAIN", "SHOW", "DESCRIBE", "DESC"})
_EXPLAIN = re.compile(r"(EXPLAIN(?:\s+(?:EXTENDED|CODEGEN|COST|FORMATTED|LOGICAL))?)\s+(.*)", re.IGNORECASE | re.DOTALL)
_SHOW_TABLES = re.compile(r"SHOW\s+(TABLES|VIEWS)", re.IGNORECASE)
_DESCRIBE = re.compile(
    r"(?:DESCRIBE|DESC)\s+(?:TABLE\s+)?(?:EXTENDED\s+|FORMATTED\s+)?([\w.`]+)|SHOW\s+COLUMNS\s+(?:IN|FROM)\s+([\w.`]+)",
    re.IGNORECASE,
)


def run(engine: Engine, statement: OtherStatement) -> DataFrame:
    """Run the statement; nothing that would write somewhere else than to the lake is given to Spark."""
    if statement.keyword not in READ_ONLY:
        raise QueryError(
            "STATEMENT_NOT_SUPPORTED",
            f"{statement.keyword} statements are not understood",
            "lake.sql takes queries, INSERT, UPDATE, DELETE, MERGE, CREATE / DROP / ALTER TABLE, views, STREAM TABLE, "
            "EXPLAIN, DESCRIBE, SHOW and SET",
            "run other statements on the Spark session itself",
        )
    pinned = engine.pin()
    if explained := _EXPLAIN.fullmatch(statement.text):
        return _explain(engine, pinned, explained[1], explained[2])
    if shown := _SHOW_TABLES.fullmatch(statement.text):
        return _names(engine, pinned, shown[1].upper())
    if described := _DESCRIBE.fullmatch(statement.text):
        name = (described[1] or described[2]).replace("`", "")
        if pinned.find(name) is not None:
            return _columns(engine, pinned, name)
    with spark_errors(pinned):
        return engine.session.sql(statement.text)


def _explain(engine: Engine, pinned: Pinned, words: str, text: str) -> DataFrame:
    query = parse_statement(text)
    if not isinstance(query, SelectStatement):
        raise QueryError("NOT_A_QUERY", "EXPLAIN takes a query", text, "write EXPLAIN SELECT ...")
    with spark_errors(pinned), Views(engine, pinned, transaction=engine.transaction) as views:
        return engine.session.sql(f"{words} {query.query.with_views(views.view_of)}")


def _names(engine: Engine, pinned: Pinned, what: str) -> DataFrame:
    names = sorted(name for name, _ in pinned.views.values())
    if what == "TABLES":
        names = sorted([*names, *pinned.table_names])
    rows = {
        "namespace": pa.array(["main"] * len(names), pa.string()),
        "tableName": pa.array(names, pa.string()),
        "isTemporary": pa.array([False] * len(names), pa.bool_()),
    }
    return engine.session.createDataFrame(pa.table(rows))


def _columns(engine: Engine, pinned: Pinned, name: str) -> DataFrame:
    columns = pinned.columns(pinned.id_of(name))
    rows = {
        "col_name": pa.array([each.name for each in columns], pa.string()),
        "data_type": pa.array([each.type for each in columns], pa.string()),
        "comment": pa.array([None] * len(columns), pa.string()),
    }
    return engine.session.createDataFrame(pa.table(rows))
