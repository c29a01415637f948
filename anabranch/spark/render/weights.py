"""From weights to rows and back.

    consolidate:  SELECT x, SUM(w) FROM z GROUP BY identity(x) HAVING SUM(w) <> 0

Rows are told apart by byte identity; of the values that are identical, any is the value.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.algebra.relation import WEIGHT, Column
from anabranch.spark.identity import identity, needs_identity
from anabranch.spark.render.block import Block, Query, named

NEGATIVE_WEIGHT = "NEGATIVE_WEIGHT"


def consolidated(block: Block, columns: Sequence[Column], only_positive: bool = False) -> Query:
    """One row for each different row of a block of bare cells, with the sum of its weights, zeros dropped."""
    total = f"SUM({block.weight.text})" if block.weight else "COUNT(*)"
    having = f"{total} <> 0"
    if only_positive:
        having = f"CASE WHEN {total} < 0 THEN raise_error('{NEGATIVE_WEIGHT}') ELSE {total} > 0 END"
    outputs, keys = grouped(block, columns, exact=True)
    head = block.head([*outputs, named(total, WEIGHT)], gather=block.must_be_gathered)
    return Query(f"{head} {block.body}{_group_by(keys)} HAVING {having}", True, block.recursions, block.local)


def distinct(block: Block, columns: Sequence[Column]) -> Query:
    """Each row once, as Spark's DISTINCT compares; maps, which it refuses, by identity."""
    if not any("map<" in each.type for each in columns):
        outputs = [named(block.cells[each.name].text, each.name) for each in columns]
        head = block.head(outputs, " DISTINCT", block.must_be_gathered)
        return Query(f"{head} {block.body}", recursions=block.recursions, local=block.local)
    outputs, keys = grouped(block, columns, exact=False)
    head = block.head(outputs, gather=block.must_be_gathered)
    return Query(f"{head} {block.body}{_group_by(keys)}", recursions=block.recursions, local=block.local)


def grouped(block: Block, columns: Sequence[Column], exact: bool) -> tuple[list[str], list[str]]:
    """Outputs and keys of a GROUP BY over whole rows; if not `exact`, only maps are compared by identity."""
    outputs: list[str] = []
    keys: list[str] = []
    for each in columns:
        text = block.cells[each.name].text
        if needs_identity(each.type) and (exact or "map<" in each.type):
            keys.append(identity(text, each.type))
            outputs.append(named(f"any_value({text})", each.name))
        else:
            keys.append(text)
            outputs.append(named(text, each.name))
    return outputs, keys


def _group_by(keys: Sequence[str]) -> str:
    return f" GROUP BY {', '.join(keys)}" if keys else ""
