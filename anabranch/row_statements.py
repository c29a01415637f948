"""INSERT, UPDATE, DELETE and MERGE: Spark evaluates them as SELECTs, the result is written as rows out and in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.engine import Engine
from anabranch.errors import QueryError
from anabranch.reads import Views, spark_errors
from anabranch.spark.analyze import SparkAnalyzer
from anabranch.spark.garbage import let_go_of_java
from anabranch.spark.quote import quoted
from anabranch.spark.session import WITHOUT_CONSTRAINTS, tuned
from anabranch.sql.dml import Target, delete_query, insert_query, update_query
from anabranch.sql.merge import ACTION, merge_queries
from anabranch.sql.statement_nodes import Change, Delete, Insert, Merge, Update
from anabranch.store.protocol import ROWID, TableInfo
from anabranch.store.transaction import Transaction
from anabranch.writes import source_of, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def run(engine: Engine, statement: Change) -> int:
    """Run the statement; returns the snapshot."""

    def work(current: Transaction) -> None:
        source = source_of(engine, current, ".".join(statement.target))
        pinned = engine.pin()
        quick = tuned(engine.session, WITHOUT_CONSTRAINTS)
        with spark_errors(pinned), quick, Views(engine, pinned, transaction=current) as views:
            _change(engine, current, source, statement, views)

    try:
        return write(engine, work).number
    finally:
        let_go_of_java()


def _change(engine: Engine, current: Transaction, source: TableInfo, statement: Change, views: Views) -> None:
    schema_of = SparkAnalyzer(engine.session).schema
    target = Target(source.columns, views.of_frame(current.read(source.id, rowid=True)))
    match statement:
        case Insert():
            rows = engine.session.sql(insert_query(statement, target, views.view_of, schema_of))
            current.write(source.id, inserts=rows)
        case Delete():
            gone = engine.session.sql(delete_query(statement, target, views.view_of))
            current.write(source.id, deletes=gone.select(ROWID))
        case Update():
            _replace(current, source, engine.session.sql(update_query(statement, target, views.view_of, schema_of)))
        case Merge():
            queries = merge_queries(statement, target, views.view_of, schema_of)
            if queries.violations is not None and engine.session.sql(queries.violations).collect()[0][0]:
                raise QueryError(
                    "MERGE_CARDINALITY_VIOLATION",
                    f"a row of {source.name!r} is matched by more than one row of the source",
                    "each target row may be updated or deleted once",
                    "make the source's rows unique by the keys of the ON condition",
                )
            _replace(current, source, engine.session.sql(queries.actions))


def _replace(current: Transaction, source: TableInfo, actions: DataFrame) -> None:
    """Rows out by rowid, and the new rows in. The SELECT is run once, so that both see the same rows."""
    kept = current.keep(actions)
    columns = [quoted(each.name) for each in source.columns]
    inserted = kept.where(f"{ACTION} <> 'delete'") if ACTION in kept.columns else kept
    current.write(
        source.id, deletes=kept.where(f"{ROWID} IS NOT NULL").select(ROWID), inserts=inserted.select(*columns)
    )
