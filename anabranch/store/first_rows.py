"""A look at a table's first rows through DuckDB, for people: it starts no Spark job and reads no more than it shows."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from anabranch.errors import StorageError
from anabranch.store.connection import LAKE, Connection, identifier
from anabranch.store.protocol import TableName, Version


def first_rows(connection: Connection, name: TableName, at: Version, limit: int) -> pa.Table:
    """Some rows of a table or view at a snapshot, in no order."""
    place = f"{LAKE}.{identifier(name.schema)}.{identifier(name.name)}"
    query = f"SELECT * FROM {place} AT (VERSION => {at.number}) LIMIT {limit}"
    try:
        return connection.arrow_anew(query)
    except duckdb.Error as error:
        raise StorageError(
            "ROWS_NOT_READ",
            f"the rows of {name.name} cannot be read at snapshot {at}",
            detail=str(error),
            hint="Try again in a moment; lake.table(...) reads them with Spark.",
        ) from error
