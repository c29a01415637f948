"""A look at a table's first rows through DuckDB, for people: it starts no Spark job and reads no more than it shows."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from anabranch.errors import StorageError
from anabranch.store.connection import LAKE, Connection, identifier
from anabranch.store.protocol import TableName, Version


def first_rows(connection: Connection, name: TableName, at: Version, limit: int) -> pa.Table:
    """Some rows of a table or view at a snapshot, in no order."""
    return _read(connection, f"SELECT * FROM {_at(name, at)} LIMIT {limit}", name, at)


def count_rows(connection: Connection, name: TableName, at: Version) -> int:
    """How many rows a table or view shows at a snapshot."""
    return int(_read(connection, f"SELECT count(*) FROM {_at(name, at)}", name, at).column(0)[0].as_py())


def _at(name: TableName, at: Version) -> str:
    return f"{LAKE}.{identifier(name.schema)}.{identifier(name.name)} AT (VERSION => {at.number})"


def _read(connection: Connection, query: str, name: TableName, at: Version) -> pa.Table:
    try:
        return connection.arrow_anew(query)
    except duckdb.Error as error:
        raise StorageError(
            "ROWS_NOT_READ",
            f"the rows of {name.name} cannot be read at snapshot {at}",
            detail=str(error),
            hint="Try again in a moment; lake.table(...) reads them with Spark.",
        ) from error
