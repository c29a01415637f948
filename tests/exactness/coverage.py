"""docs/coverage.md, made from the code: every construct's example is compiled, and the page says what came of it.

`python -m tests.exactness.coverage` writes the page; a test compares it with what the code says now.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.algebra.relation import Column
from anabranch.compile import Clock, Program, compile_query
from anabranch.delta.choose import EXPLANATIONS, notes_of
from anabranch.spark.analyze import SparkAnalyzer
from anabranch.sql.analyzer import TableBinding
from anabranch.sql.functions import AGGREGATES, APPROXIMATE
from anabranch.sql.refused import REFUSED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
EXAMPLES = Path(__file__).parent / "coverage.sql"
TABLES = {
    "sales": "id BIGINT, region STRING, product_id BIGINT, amount DECIMAL(12,2), sold_at TIMESTAMP, tags ARRAY<STRING>",
    "products": "id BIGINT, name STRING, price DOUBLE, parent BIGINT",
    "quarters": "region STRING, q1 INT, q2 INT",
}
HEAD = """# What is kept incrementally

Made from the code by `python -m tests.exactness.coverage`; a test keeps it so. Each example is compiled as the query
of a stream table.

*How it is kept* names the strategy of each stored part:

{strategies}

*Read as a whole* names operators for which a change has to read all of an input; without it, only rows with the keys
of the change are read. Constructs nest in each other at will.

| construct | example | how it is kept | read as a whole |
|---|---|---|---|
"""
TAIL = """
## Refused under DIFFERENTIAL

Under AUTO these run in full, and only the difference is written and handed on.

| construct | code | why | what to do |
|---|---|---|---|
{refusals}

## Aggregate functions

Counts, sums, averages of integers and decimals, and extremes are merged. All other aggregates work out the touched
groups anew: {recomputed}.

Refused, because their value depends on the order in which rows are read: {approximate}.
"""
MERGED = ("avg", "count", "max", "mean", "min", "sum")


def examples() -> list[tuple[str, str]]:
    """Constructs with an example each: a comment line, then the query."""
    found = []
    for block in EXAMPLES.read_text().strip().split("\n\n"):
        title, query = block.split("\n", 1)
        found.append((title.removeprefix("-- "), query.strip()))
    return found


def page(spark: SparkSession) -> str:
    """The page as the code has it now."""
    strategies = "\n".join(f"- {each.value}: {text}" for each, text in EXPLANATIONS.items())
    lines = [_line(title, query, compiled(spark, query)) for title, query in examples()]
    refusals = (f"| {each.construct} | `{each.code}` | {each.reason} | {each.hint} |" for each in REFUSED.values())
    recomputed = ", ".join(f"`{each}`" for each in sorted(AGGREGATES - APPROXIMATE - set(MERGED)))
    approximate = ", ".join(f"`{each}`" for each in sorted(APPROXIMATE))
    tail = TAIL.format(refusals="\n".join(refusals), recomputed=recomputed, approximate=approximate)
    return HEAD.format(strategies=strategies) + "\n".join(lines) + "\n" + tail


def compiled(spark: SparkSession, query: str) -> Program:
    bindings = {name: TableBinding(name, _columns(text)) for name, text in TABLES.items()}
    for name, binding in bindings.items():
        values = ", ".join(f"CAST(NULL AS {each.type}) AS {each.name}" for each in binding.columns)
        spark.sql(f"SELECT {values}").createOrReplaceTempView(name)
    clock = Clock("2024-02-29T12:00:00.000000+00:00", "UTC")
    return compile_query(query, lambda parts: bindings.get(parts[-1].lower()), SparkAnalyzer(spark), clock)


def _columns(text: str) -> tuple[Column, ...]:
    pairs = (each.split(" ") for each in text.replace("DECIMAL(12,2)", "DECIMAL(12;2)").split(", "))
    return tuple(Column(name, type.replace(";", ",").lower()) for name, type in pairs)


def _line(title: str, query: str, program: Program) -> str:
    text = " ".join(query.split()).replace("|", "\\|")
    if program.refusals:
        how, whole = "refused: " + ", ".join(f"`{each.code}`" for each in program.refusals), ""
    else:
        how = ", ".join(dict.fromkeys(part.strategy.value for part in program.parts))
        notes = notes_of(program.parts)
        whole = ", ".join(each.removeprefix("UNRESTRICTED_READ: ") for each in notes if each.startswith("UNRESTRICTED"))
    return f"| {title} | `{text}` | {how} | {whole} |"


def strategies_shown(text: str) -> set[str]:
    """The strategies that the page's examples are kept by."""
    lines = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {word for cells in lines for word in cells[-2].split(", ")}


if __name__ == "__main__":
    from anabranch.spark.session import local_session

    PAGE.write_text(page(local_session()))
