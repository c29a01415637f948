"""Rows of a statement, for people and for programs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from anabranch.cli.terminal import out
from anabranch.reads import spark_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ONE_TEXT = ("plan",)
"""Results of one text, shown as it is."""


def print_result(rows: DataFrame, limit: int, as_json: bool = False) -> None:
    """At most `limit` rows, and whether there are more."""
    with spark_errors():
        found = rows.limit(limit + 1).collect()
    shown, columns = found[:limit], rows.columns
    if as_json:
        values = [[_plain(value) for value in row] for row in shown]
        line = {"columns": columns, "rows": values, "more": len(found) > limit}
        sys.stdout.write(json.dumps(line, default=str, ensure_ascii=False) + "\n")
        return
    if tuple(columns) == ONE_TEXT and len(shown) == 1:
        out.print(str(shown[0][0]), markup=False, soft_wrap=True)
        return
    table = Table(header_style="bold")
    for field in rows.schema.fields:
        is_number = field.dataType.typeName() in ("long", "integer", "short", "byte", "double", "float", "decimal")
        table.add_column(escape(field.name), justify="right" if is_number else "left", overflow="fold")
    for row in shown:
        table.add_row(*("[dim]NULL[/dim]" if value is None else escape(str(value)) for value in row))
    out.print(table)
    more = f", and more: --limit shows at most {limit}" if len(found) > limit else ""
    out.print(f"[dim]{len(shown)} row{'' if len(shown) == 1 else 's'}{more}[/dim]")


def _plain(value: object) -> object:
    """Nested rows as they are in JSON."""
    as_dict = getattr(value, "asDict", None)
    return as_dict(recursive=True) if as_dict is not None else value
