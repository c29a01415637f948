"""One operator over rows at hand, compared with what the interpreter says; and values of every type to compare."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

from anabranch.algebra.interpret import Environment, NotABagError, Table, ZSet, interpret, total
from anabranch.algebra.relation import (
    WEIGHT,
    Change,
    Consolidate,
    Filter,
    Project,
    Relation,
    Support,
    Weigh,
)
from anabranch.algebra.show import show
from anabranch.algebra.walk import with_children
from anabranch.fuse.at_hand import can_work_out, work_out
from tests.fuse.hand import terms_of, z_set

NO_LIMIT = 1_000_000

VALUES: dict[str, tuple[object, ...]] = {
    "boolean": (True, False, None),
    "tinyint": (-128, 127, None),
    "smallint": (0, 1, None),
    "int": (0, 1, None),
    "bigint": (-(2**63), 0, 2**63 - 1, None),
    "float": (0.0, -0.0, math.nan, 0.5, None),
    "double": (0.0, -0.0, math.nan, math.inf, 0.1, None),
    "decimal(12,2)": (Decimal("0.00"), Decimal("-0.01"), Decimal("10.10"), None),
    "decimal(38,0)": (Decimal(10**37), Decimal(10**37 + 1), None),
    "string": ("", "x", "X", "x ", "é", None),
    "binary": (b"", b"x", b"\x00", None),
    "date": (date(1, 1, 1), date(2024, 2, 29), None),
    "timestamp": (datetime(1969, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC), None),
    "timestamp_ntz": (datetime(1969, 1, 1), datetime(2024, 1, 1, 0, 0, 0, 1), None),
}
ARRAY = "array<int>"
"""A type whose values cannot be compared here."""


def alone(relation: Relation, inputs: Sequence[ZSet]) -> tuple[Relation, Environment]:
    """The operator over leaves that stand for its inputs."""
    leaves = {child: Change(f"input {number}", child.columns) for number, child in enumerate(relation.children)}
    pairs = zip(relation.children, inputs, strict=True)
    rows = {leaves[child].table: Table(child.names, rows) for child, rows in pairs}
    return with_children(relation, dict(leaves)), Environment(change=rows)


def check(relation: Relation, tables: Sequence[pa.Table], case: str) -> bool:
    """Whether the operator was worked out, and then rightly."""
    pairs = list(zip(relation.children, tables, strict=True))
    found = work_out(relation, list(tables), NO_LIMIT)
    try:
        expected = interpret(*alone(relation, [z_set(child, table) for child, table in pairs]))
    except NotABagError:
        assert found is None, case
        return False
    is_structure = can_work_out(relation)
    if found is None:
        assert not is_structure, f"{case}: not worked out\n{show(relation)}"
        return False
    assert is_structure or isinstance(relation, Filter | Project), case
    text = f"{case}\n{show(relation)}\n{[terms_of(*pair) for pair in pairs]}\n{expected}\n{terms_of(relation, found)}"
    match relation:
        case Support():
            rows = terms_of(relation, found)
            occurring = {row for row, _ in terms_of(*pairs[0])}
            assert len(rows) == len(dict(rows)), text
            assert {weight for _, weight in rows} <= {1}, text
            assert expected.keys() <= dict(rows).keys() <= occurring, text
        case Weigh():
            assert WEIGHT not in found.column_names, text
            assert _sums(z_set(relation, found)) == _sums(expected), text
        case Consolidate():
            assert len(terms_of(relation, found)) == len(expected), text
            assert z_set(relation, found) == expected, text
        case _:
            assert z_set(relation, found) == expected, text
    return True


def _sums(weighed: ZSet) -> ZSet:
    """Only sums of a weight that is a column mean anything."""
    return total((row[:-1], row[-1] * copies) for row, copies in weighed.items())
