"""Compare a stream table with its query run from scratch on the same inputs: the oracle, for users and tests alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.algebra.relation import Scan
from anabranch.algebra.walk import leaves
from anabranch.definitions import StreamTable
from anabranch.engine import Engine
from anabranch.inputs import TickInputs
from anabranch.observe import html
from anabranch.pinned import Pinned
from anabranch.reads import rows_of, run_over
from anabranch.spark.failure import running
from anabranch.spark.garbage import let_go_of_java
from anabranch.spark.moved import difference
from anabranch.spark.session import WITHOUT_CONSTRAINTS, tuned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

SHOWN_ROWS = 20
FLOAT_TOLERANCE = 1e-9


@dataclass(frozen=True)
class CheckResult:
    """`ok` when the table holds exactly the rows of its query. `missing` and `unexpected` show some that differ."""

    name: str
    ok: bool
    rows: int
    missing: tuple[Any, ...] = ()
    unexpected: tuple[Any, ...] = ()

    def __bool__(self) -> bool:
        return self.ok

    def to_dict(self) -> dict[str, Any]:
        """The result for programs."""
        rows = {"missing": [list(row) for row in self.missing], "unexpected": [list(row) for row in self.unexpected]}
        return {"name": self.name, "ok": self.ok, "rows": self.rows, **rows}

    def _repr_html_(self) -> str:
        return html.preformatted(repr(self))

    def __repr__(self) -> str:
        if self.ok:
            return f"{self.name}: {self.rows} rows, equal to the query run from scratch"
        lines = [f"{self.name}: NOT equal to the query run from scratch"]
        lines += [f"  missing     {row}" for row in self.missing]
        lines += [f"  unexpected  {row}" for row in self.unexpected]
        return "\n".join(lines)


def check_node(engine: Engine, name: str) -> CheckResult:
    """Run the node's settled query on its inputs at the versions its frontier names, and compare both ways.

    It means what it meant when it was defined, so the session is its own meanwhile: ticks wait.
    """
    with engine.lock, engine.restoring():
        pinned = engine.pin()
        node = pinned.node(name)
        engine.under(node.session)
        return _compared(engine, pinned, node)


def _compared(engine: Engine, pinned: Pinned, node: StreamTable) -> CheckResult:
    stored = rows_of(engine, pinned, node.id)
    with tuned(engine.session, WITHOUT_CONSTRAINTS), running():
        leftover = difference(stored, from_scratch(engine, pinned, node)).limit(10_000).collect()
    let_go_of_java()
    unexpected, missing = _leftovers(leftover, [each.type for each in node.columns])
    return CheckResult(
        node.name,
        not unexpected and not missing,
        _row_count(engine, pinned, node, stored),
        tuple(missing[:SHOWN_ROWS]),
        tuple(unexpected[:SHOWN_ROWS]),
    )


def _row_count(engine: Engine, pinned: Pinned, node: StreamTable, shown: DataFrame) -> int:
    """The rows that readers see: where some of those stored are hidden from them, they have to be counted."""
    if node.shown.flag is not None:
        return shown.count()
    return engine.store.row_count(pinned.part(node.shown.table).id, pinned.version)


def from_scratch(engine: Engine, pinned: Pinned, node: StreamTable) -> DataFrame:
    """The settled query's rows. Where nothing had to be settled, it is the user's own text that runs."""
    clock = node.clock_at(pinned.frontiers[node.id].clock)
    program = engine.program(node, pinned, clock)
    inputs = TickInputs(engine.store, pinned)
    since = pinned.frontiers[node.id].inputs

    def rows_read(table: str) -> DataFrame:
        if table in pinned.nodes:
            return inputs.node_rows(pinned.nodes[table], since[table])
        return engine.store.read(table, since[table])

    if program.kernel is None or not program.is_settled:
        return run_over(engine, pinned, node, rows_read, clock)
    runner = engine.runner()
    for leaf in leaves(program.kernel):
        if isinstance(leaf, Scan):
            runner.bind(leaf, rows_read(leaf.table))
    return runner.frame(program.kernel)


def _leftovers(rows: list[Row], types: list[str]) -> tuple[list[Any], list[Any]]:
    """Rows that are in one and not in the other, floating-point columns compared within the tolerance."""
    floating = [place for place, type in enumerate(types) if type in ("float", "double")]
    unexpected: list[tuple[Any, ...]] = []
    missing: list[tuple[Any, ...]] = []
    for row in rows:
        (unexpected if row[-1] > 0 else missing).extend([tuple(row[:-1])] * abs(row[-1]))
    if floating:
        for odd in list(unexpected):
            twin = next((each for each in missing if _alike(odd, each, floating)), None)
            if twin is not None:
                unexpected.remove(odd)
                missing.remove(twin)
    return unexpected, missing


def _alike(one: tuple[Any, ...], other: tuple[Any, ...], floating: list[int]) -> bool:
    for place, (left, right) in enumerate(zip(one, other, strict=True)):
        if place not in floating or left is None or right is None:
            if left != right:
                return False
        elif not math.isclose(left, right, rel_tol=FLOAT_TOLERANCE, abs_tol=FLOAT_TOLERANCE):
            return False
    return True
