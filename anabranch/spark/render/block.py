"""A SELECT under construction. Filters, projections and joins grow one block instead of nesting one more SELECT each,
because Spark's analysis and planning of every nested SELECT costs time.

    SELECT cells, weight FROM source laterals WHERE conditions

Rows at hand are in one partition, and operators over them need no shuffle as long as Spark knows that. It forgets it at
a union and where an inner or full join is joined again; there the rows are gathered anew, which moves none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from anabranch.algebra.expression import Expression, Outer, Ref
from anabranch.algebra.relation import WEIGHT
from anabranch.spark.quote import quoted

NOTHING = "`__ab_nothing`"
GATHER = "COALESCE(1)"
_SHORT = 60
_ALIAS = re.compile(r"__\d+")


@dataclass(frozen=True, slots=True)
class Cell:
    """A column as text. A bare one is a column of the source: it may be grouped by, ordered by, padded with NULL.

    Any other is computed: it is evaluated where it stands, so it may stand only once, unless it is a constant.
    """

    text: str
    bare: bool = False
    repeatable: bool = False

    @property
    def operand(self) -> str:
        """The text as part of a larger expression."""
        return self.text if self.bare else f"({self.text})"


@dataclass(frozen=True, slots=True)
class Weight:
    """sign * factor * factor ...; a bag has none."""

    sign: int = 1
    factors: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        if not self.factors:
            return "1L" if self.sign > 0 else "-1L"
        return ("" if self.sign > 0 else "-") + " * ".join(self.factors)

    def times(self, other: Weight) -> Weight:
        return Weight(self.sign * other.sign, self.factors + other.factors)

    def negated(self) -> Weight:
        return replace(self, sign=-self.sign)


ONE = Weight()


@dataclass(frozen=True)
class Block:
    """One SELECT of rows from sources; `recursions` are those of which it reads the round before.

    `local`: all rows are at hand, in one partition; `scattered`: Spark does not know that any more.
    """

    cells: Mapping[str, Cell]
    source: str
    weight: Weight | None = None
    where: tuple[str, ...] = ()
    laterals: tuple[str, ...] = ()
    broadcast: tuple[str, ...] = ()
    alias: str | None = None
    recursions: frozenset[str] = frozenset()
    local: bool = False
    scattered: bool = False

    @property
    def weighted(self) -> bool:
        return self.weight is not None

    @property
    def text(self) -> str:
        return self.select()

    @property
    def gathered(self) -> str:
        """The text, its rows known to be in one partition if they are at hand."""
        return self.select(gather=self.must_be_gathered)

    @property
    def must_be_gathered(self) -> bool:
        """Whether all rows are in one partition, and Spark does not know it, nor of what is made of them."""
        return self.local and self.scattered

    @property
    def is_bare(self) -> bool:
        return all(cell.bare for cell in self.cells.values())

    def can_give(self, demand: Mapping[str, int]) -> bool:
        """Whether no computed cell would have to stand more than once."""
        return all(count <= 1 or self.cells[name].repeatable for name, count in demand.items())

    def fill(self, expression: Expression) -> str:
        """The expression's text over this block's cells."""
        return expression.text(self._operand)

    def compute(self, expression: Expression) -> Cell:
        """The expression as a cell."""
        if expression.is_column:
            (hole,) = expression.columns
            return self.cells[hole]
        text = self.fill(expression)
        constant = expression.deterministic and not expression.columns and len(text) <= _SHORT
        return Cell(text, repeatable=constant)

    def select(self, weighted: bool | None = None, gather: bool = False) -> str:
        """The whole SELECT; with `weighted`, a bag's rows get the weight 1."""
        outputs = [named(cell.text, name) for name, cell in self.cells.items()]
        if self.weighted if weighted is None else weighted:
            outputs.append(named((self.weight or ONE).text, WEIGHT))
        return f"{self.head(outputs, gather=gather)} {self.body}"

    def head(self, outputs: Iterable[str], quantifier: str = "", gather: bool = False) -> str:
        """`SELECT` of any outputs, with this block's hints."""
        hints = [GATHER] if gather else []
        hints += [f"BROADCAST({', '.join(self.broadcast)})"] if self.broadcast else []
        hint = f" /*+ {', '.join(hints)} */" if hints else ""
        return f"SELECT{hint}{quantifier} {', '.join(outputs) or f'NULL AS {NOTHING}'}"

    @property
    def body(self) -> str:
        """From FROM to the end of WHERE."""
        where = f" WHERE {conjunction(self.where)}" if self.where else ""
        return f"FROM {self.source}" + "".join(f" {lateral}" for lateral in self.laterals) + where

    def _operand(self, hole: Ref | Outer) -> str:
        if isinstance(hole, Outer):
            raise ValueError(f"outer.{hole.name} is read after lowering")
        return self.cells[hole.name].operand


@dataclass(frozen=True)
class Union:
    """SELECTs one below the other, all with the same names."""

    branches: tuple[Block, ...]

    @property
    def weighted(self) -> bool:
        return any(branch.weighted for branch in self.branches)

    @property
    def recursions(self) -> frozenset[str]:
        return frozenset().union(*(branch.recursions for branch in self.branches))

    @property
    def local(self) -> bool:
        return all(branch.local for branch in self.branches)

    @property
    def text(self) -> str:
        return " UNION ALL ".join(branch.select(self.weighted) for branch in self.branches)

    @property
    def gathered(self) -> str:
        return f"SELECT /*+ {GATHER} */ * FROM ({self.text})" if self.local else self.text


@dataclass(frozen=True)
class Query:
    """A finished SELECT that nothing can be added to."""

    text: str
    weighted: bool = False
    recursions: frozenset[str] = frozenset()
    local: bool = False

    @property
    def gathered(self) -> str:
        return self.text


Shape = Block | Union | Query


def named(text: str, name: str) -> str:
    """`text AS name`, shorter where the text already says so."""
    identifier = quoted(name)
    alias, _, column = text.partition(".")
    says_so = column == identifier and _ALIAS.fullmatch(alias)
    return text if says_so else f"{text} AS {identifier}"


def conjunction(conditions: Iterable[str]) -> str:
    """All of them, or TRUE."""
    return " AND ".join(f"({condition})" for condition in conditions) or "TRUE"


def references(*groups: Iterable[Expression]) -> Counter[str]:
    """How often the expressions read each column."""
    return Counter(part.name for group in groups for each in group for part in each.parts if isinstance(part, Ref))
