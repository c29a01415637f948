"""The sources of the random queries: at most four values a column, every kind of column, names that join."""

from __future__ import annotations

from tests.exactness.model import Field, Schema
from tests.exactness.shapes import Kind, Shown

NUMBERS = ("1", "2", "3", "4")
WORDS = ("'p'", "'q'", "'pq'", "''")
AMOUNTS = ("0.50", "1.25", "-2.00", "3.75")
MEASURES = ("0.5D", "-1.5D", "2.0D", "-0.0D")
DAYS = ("DATE'2024-01-31'", "DATE'2024-02-29'", "DATE'2024-03-01'", "DATE'2024-12-31'")
MINUTES = tuple(f"TIMESTAMP'2024-02-29 23:{minute}:00'" for minute in ("40", "47", "51", "59"))
LISTS = ("array(1, 2)", "array()", "array(3, NULL)", "array(2, 2)")

SCHEMAS = {
    each.name: each
    for each in (
        Schema(
            "sales",
            (
                Field("item", "INT", NUMBERS),
                Field("word", "STRING", WORDS),
                Field("amount", "DECIMAL(8,2)", AMOUNTS),
                Field("day", "DATE", DAYS),
            ),
        ),
        Schema(
            "items",
            (
                Field("item", "INT", NUMBERS),
                Field("word", "STRING", WORDS),
                Field("size", "BIGINT", NUMBERS),
                Field("tags", "ARRAY<INT>", LISTS),
            ),
        ),
        Schema(
            "events",
            (
                Field("place", "INT", NUMBERS),
                Field("measure", "DOUBLE", MEASURES),
                Field("at", "TIMESTAMP", MINUTES),
                Field("word", "STRING", WORDS),
            ),
        ),
    )
}
KINDS = {
    "INT": Kind.NUMBER,
    "BIGINT": Kind.NUMBER,
    "STRING": Kind.TEXT,
    "DECIMAL(8,2)": Kind.AMOUNT,
    "DOUBLE": Kind.MEASURE,
    "DATE": Kind.DAY,
    "TIMESTAMP": Kind.TIME,
    "ARRAY<INT>": Kind.LIST,
}
TABLES = {
    schema.name: tuple(Shown(each.name, KINDS[each.type]) for each in schema.fields) for schema in SCHEMAS.values()
}
