"""What is known while one text is written: aliases, views, the WITH list, how often each sub-plan is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from anabranch.algebra.relation import WEIGHT, Change, Column, Fixpoint, Recursion, Relation
from anabranch.spark.quote import quoted
from anabranch.spark.render.block import Block, Cell, Query, Shape, Weight
from anabranch.spark.render.weights import consolidated


@dataclass(frozen=True, slots=True)
class Bound:
    """A relation whose rows are in a view; a Z-set's view has the column `__ab_weight`, too.

    `local`: the rows are few and at hand, in one partition.
    """

    view: str
    weighted: bool = False
    local: bool = False


Names = Mapping[Relation, str | Bound]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A query in Spark SQL; a Z-set has the column `__ab_weight` after the others."""

    sql: str
    weighted: bool
    columns: tuple[Column, ...]


class Scope:
    """Hands out sub-plans as blocks to build on. A sub-plan read twice, or finished, becomes an entry of WITH."""

    def __init__(self, root: Relation, names: Names, broadcast_keys: bool) -> None:
        self.root = root
        self.broadcast_keys = broadcast_keys
        self.shapes: dict[Relation, Shape] = {}
        self.entries: list[tuple[str, str]] = []
        self.current: Relation = root
        self._names = names
        self._entry_of: dict[Relation, str] = {}
        self._recursions: dict[str, str] = {}
        self._local: dict[Relation, bool] = {}
        self._aliases = 0
        self._entry_numbers = 0
        self._uses: Counter[Relation] = Counter(child for relation in self.unbound() for child in relation.children)
        self._steps = self._find_steps()

    @cached_property
    def _views(self) -> set[str]:
        return {_bound(relation, name).view.lower() for relation, name in self._names.items()}

    def is_bound(self, relation: Relation) -> bool:
        return relation in self._names

    def is_local(self, relation: Relation) -> bool:
        """Whether all that the relation reads is at hand."""
        if relation not in self._local:
            if self.is_bound(relation):
                self._local[relation] = _bound(relation, self._names[relation]).local
            else:
                self._local[relation] = all(self.is_local(child) for child in relation.children)
        return self._local[relation]

    def unbound(self) -> Iterator[Relation]:
        """Every operator that has no view once, inputs before their readers."""
        seen: set[Relation] = set()
        stack: list[tuple[Relation, bool]] = [(self.root, False)]
        while stack:
            relation, expanded = stack.pop()
            if expanded:
                yield relation
            elif relation not in seen and not self.is_bound(relation):
                seen.add(relation)
                stack.append((relation, True))
                stack.extend((child, False) for child in reversed(relation.children))

    def alias(self) -> str:
        self._aliases += 1
        return f"__{self._aliases - 1}"

    def open(self, relation: Relation) -> Block:
        """The sub-plan as a block of one's own. Into the step of a recursion only bags are handed."""
        block = self._open(relation)
        enters_step = self.current in self._steps and relation not in self._steps
        return self._written_out(block, relation) if enters_step else block

    def peek(self, relation: Relation) -> Shape:
        """As `open`, but a union or finished query that nobody else reads stays what it is."""
        if self.is_bound(relation) or isinstance(relation, Recursion) or self._uses[relation] > 1:
            return self.open(relation)
        return self.shapes[relation]

    def close(self, shape: Shape, names: tuple[str, ...]) -> Block:
        """The same rows with every column bare."""
        if shape.recursions:  # an entry of WITH cannot read a recursion that stands beside it
            return self._read(f"({shape.text})", names, shape.weighted, shape.recursions)
        return self._read(self.enter(shape.gathered), names, shape.weighted, local=shape.local)

    def bare(self, relation: Relation) -> Block:
        """The sub-plan with every column bare."""
        block = self.open(relation)
        return block if block.is_bare else self.close(block, relation.names)

    def giving(self, relation: Relation, demand: Mapping[str, int]) -> Block:
        """The sub-plan as a block whose cells may stand as often as `demand` says."""
        return self.able(self.open(relation), relation, demand)

    def able(self, block: Block, relation: Relation, demand: Mapping[str, int]) -> Block:
        return block if block.can_give(demand) else self.close(block, relation.names)

    def positive(self, relation: Relation) -> Block:
        """The sub-plan as a bag, or as a Z-set with one row and a positive weight for each different row."""
        return self._summed_up(self._open(relation), relation)

    def bag(self, relation: Relation) -> Block:
        """The sub-plan as a bag: a row of weight n stands n times; a negative weight raises NEGATIVE_WEIGHT."""
        return self._written_out(self._open(relation), relation)

    def enter(self, text: str) -> str:
        """A new entry of WITH."""
        name = self._new_entry_name()
        self.entries.append((name, text))
        return name

    def recursion(self, name: str) -> str:
        """What the recursion is called in the text; before and after of one recursion may both stand in it."""
        if name not in self._recursions:
            self._recursions[name] = self._new_entry_name()
        return self._recursions[name]

    def _open(self, relation: Relation) -> Block:
        if self.is_bound(relation):
            bound = _bound(relation, self._names[relation])
            return self._read(quoted(bound.view), relation.names, bound.weighted, local=bound.local)
        if isinstance(relation, Recursion):
            return self._read_recursion(relation)
        shape = self.shapes[relation]
        if self._uses[relation] <= 1:
            return shape if isinstance(shape, Block) else self.close(shape, relation.names)
        if shape.recursions:
            return self.close(shape, relation.names)
        if relation not in self._entry_of:
            self._entry_of[relation] = self.enter(shape.gathered)
        return self._read(self._entry_of[relation], relation.names, shape.weighted, local=shape.local)

    def _summed_up(self, block: Block, relation: Relation) -> Block:
        if not block.weighted:
            return block
        if not block.is_bare:
            block = self.close(block, relation.names)
        return self.close(consolidated(block, relation.columns, only_positive=True), relation.names)

    def _written_out(self, block: Block, relation: Relation) -> Block:
        block = self._summed_up(block, relation)
        if block.weight is None:
            return block
        copies = f"LATERAL VIEW explode(sequence(1L, {block.weight.text})) {self.alias()} AS `__ab_copy`"
        return replace(block, weight=None, laterals=(copies,), alias=None)

    def _read_recursion(self, relation: Recursion) -> Block:
        """The rows of the round before, under the names the step knows them by."""
        names = frozenset((relation.name,))
        block = self._read(self.recursion(relation.name), relation.names, weighted=False, recursions=names)
        columns = ", ".join(quoted(name) for name in relation.names)
        return replace(block, source=f"{block.source}({columns})")

    def _find_steps(self) -> set[Relation]:
        """Every operator that reads the round before of some recursion."""
        found: set[Relation] = set()
        for relation in self.unbound():
            passes_on = not isinstance(relation, Fixpoint) and any(child in found for child in relation.children)
            if isinstance(relation, Recursion) or passes_on:
                found.add(relation)
        return found

    def _new_entry_name(self) -> str:
        while True:
            name = f"r{self._entry_numbers}"
            self._entry_numbers += 1
            if name not in self._views:
                return name

    def _read(
        self,
        source: str,
        names: tuple[str, ...],
        weighted: bool,
        recursions: frozenset[str] = frozenset(),
        local: bool = False,
    ) -> Block:
        alias = self.alias()
        cells = {name: Cell(f"{alias}.{quoted(name)}", bare=True, repeatable=True) for name in names}
        weight = Weight(1, (f"{alias}.{quoted(WEIGHT)}",)) if weighted else None
        return Block(cells, f"{source} AS {alias}", weight, alias=alias, recursions=recursions, local=local)


def _bound(relation: Relation, name: str | Bound) -> Bound:
    return name if isinstance(name, Bound) else Bound(name, isinstance(relation, Change))


def as_query(block: Block, text: str, weighted: bool = False) -> Query:
    """A finished query over the block's source."""
    return Query(text, weighted, block.recursions, block.local)
