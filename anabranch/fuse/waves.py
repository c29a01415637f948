"""Plans cut into waves: each wave is one job, whose small results are what the next one reads.

Two things are worked out ahead of the plans that use them:

- the rows of a table that joins with small relations need. All reads of a table in a wave are one scan, by the keys of
  all of them, with the columns of all of them; a table read through another one is read a wave later.
- a small sub-plan that is used more than once. In Spark a plan used twice is computed twice, and a chain of such plans
  is computed exponentially often.

    wave(read)  =  1 + the last wave that its small side needs         wave(shared)  =  the same, of its inputs
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from anabranch.algebra.expression import Expression, equals, expression
from anabranch.algebra.relation import (
    LEAVES,
    RESERVED_PREFIX,
    After,
    Before,
    Column,
    Filter,
    Join,
    JoinKind,
    Output,
    Project,
    Relation,
    Stored,
    Support,
    UnionAll,
    iterate,
)
from anabranch.algebra.walk import with_children
from anabranch.delta.build import key_set
from anabranch.delta.narrow import Smallness
from anabranch.fuse.reads import Read, Table, over, read_of

WORTH_SHARING = 12
"""A shared sub-plan over local rows with fewer operators than this is computed again rather than ahead."""


@dataclass(frozen=True)
class Step:
    """A relation to work out, and the leaf that stands for it afterwards."""

    leaf: Relation
    relation: Relation


@dataclass(frozen=True)
class Waves:
    """`waves` in order, then `roots`, which read the leaves that the waves have made."""

    waves: tuple[tuple[Step, ...], ...]
    roots: tuple[Relation, ...]


def cut(roots: Sequence[Relation], is_local: Callable[[Table], bool] = lambda _: False, label: str = "") -> Waves:
    """Cut plans into waves; equal sub-plans of different roots are one. Local tables are at hand and not reduced.

    `label` is in the name of every leaf made, so that those of different cuts are not taken for each other.
    """
    return _Cutter(tuple(roots), is_local, label).cut()


@dataclass
class _Cutter:
    roots: tuple[Relation, ...]
    is_local: Callable[[Table], bool]
    label: str
    is_small: Smallness = field(default_factory=Smallness)
    reads: dict[Relation, tuple[str, Read]] = field(default_factory=dict)
    wave: dict[Relation, int] = field(default_factory=dict)
    shared: dict[Relation, Relation] = field(default_factory=dict)
    reduced: dict[tuple[Table, int], Relation] = field(default_factory=dict)
    _rewritten: dict[tuple[Relation, int], Relation] = field(default_factory=dict)

    def cut(self) -> Waves:
        order = list(_operators(self.roots))
        self._assign_waves(order)
        self._choose_shared(order)
        last = max((self.wave[each] for each in order), default=0)
        waves = []
        for number in range(1, last + 1):
            steps = (*self._reduce(order, number), *self._share(order, number))
            waves.append(tuple(steps))
        sharing = tuple(self._share(order, last + 1))
        if sharing:
            waves.append(sharing)
        return Waves(tuple(each for each in waves if each), tuple(self._rewrite(each, last + 2) for each in self.roots))

    def _assign_waves(self, order: Sequence[Relation]) -> None:
        """The wave after which an operator's own reads are done."""
        for relation in order:
            below = max((self.wave[child] for child in relation.children), default=0)
            found = read_of(relation, self.is_small) if isinstance(relation, Join) else None
            if found is None or self.is_local(found[1].table):
                self.wave[relation] = below
            else:
                self.reads[relation] = found
                self.wave[relation] = 1 + self.wave[found[1].small]
                self.wave[relation] = max(self.wave[relation], below)

    def _choose_shared(self, order: Sequence[Relation]) -> None:
        uses: dict[Relation, int] = dict.fromkeys(self.roots, 1)
        for relation in order:
            for child in relation.children:
                uses[child] = uses.get(child, 0) + 1
        sizes: dict[Relation, int] = {}
        stored: dict[Relation, bool] = {}
        for relation in order:
            sizes[relation] = 1 + sum(1 if child in self.shared else sizes[child] for child in relation.children)
            stored[relation] = isinstance(relation, Stored) or any(stored[child] for child in relation.children)
            is_used_again = uses[relation] > 1 and relation not in self.roots and not isinstance(relation, LEAVES)
            is_large = sizes[relation] >= WORTH_SHARING
            if is_used_again and is_large and not stored[relation] and self.is_small(relation):
                name = f"{RESERVED_PREFIX}shared_{self.label}{len(self.shared)}"
                self.shared[relation] = After(name, relation.columns)

    def _reduce(self, order: Sequence[Relation], number: int) -> Iterator[Step]:
        """One scan of each table for all reads of this wave."""
        by_table: dict[Table, list[Read]] = {}
        for relation in order:
            found = self.reads.get(relation)
            if found is not None and 1 + self.wave[found[1].small] == number:
                by_table.setdefault(found[1].table, []).append(found[1])
        for table, reads in by_table.items():
            columns = tuple(each for each in table.columns if any(each.name in read.columns for read in reads))
            leaf = type(table)(f"{table.table}~{self.label}{number}", columns)
            self.reduced[table, number] = leaf
            yield Step(leaf, self._rows_needed(table, columns, reads, number))

    def _rows_needed(self, table: Table, columns: tuple[Column, ...], reads: list[Read], number: int) -> Relation:
        groups: dict[tuple[tuple[Expression, ...], tuple[bool, ...]], list[Relation]] = {}
        for read in reads:
            sets = groups.setdefault((read.keys, read.null_safe), [])
            sets.append(key_set(self._rewrite(read.small, number), read.values))
        rows: Relation = table
        marks = []
        for place, ((keys, null_safe), sets) in enumerate(groups.items()):
            keyset = _renamed(Support(UnionAll(tuple(sets))) if len(sets) > 1 else sets[0], place)
            pairs = zip(keys, keyset.columns, null_safe, strict=True)
            on = tuple(equals(key, each.value, safe) for key, each, safe in pairs)
            if len(groups) == 1:
                rows = Join(rows, keyset, JoinKind.SEMI, on)
                continue
            mark = f"{RESERVED_PREFIX}hit_{place}"
            outputs = (*(Output(each.name, each.value) for each in keyset.columns), Output(mark, _TRUE))
            rows = Join(rows, Project(keyset, outputs), JoinKind.LEFT, on)
            marks.append(Column(mark, "boolean"))
        if marks:
            template = " OR ".join(["{} IS NOT NULL"] * len(marks))
            rows = Filter(rows, (expression(template, "boolean", *(mark.value for mark in marks)),))
        return Project(rows, tuple(Output(each.name, each.value) for each in columns))

    def _share(self, order: Sequence[Relation], number: int) -> Iterator[Step]:
        """Shared sub-plans whose reads are done in the wave before."""
        for relation in order:
            if relation in self.shared and self.wave[relation] + 1 == number:
                yield Step(self.shared[relation], self._rewrite(relation, number, is_itself=True))

    def _rewrite(self, relation: Relation, number: int, is_itself: bool = False) -> Relation:
        """The plan as wave `number` computes it: with what earlier waves have made in place of how it is made."""
        if not is_itself and relation in self.shared and self.wave[relation] + 1 < number:
            return self.shared[relation]
        key = (relation, number)
        if key not in self._rewritten:
            children = {child: self._rewrite(child, number) for child in relation.children}
            self._rewritten[key] = self._with_reduced(with_children(relation, children), relation, number)
        return self._rewritten[key]

    def _with_reduced(self, rewritten: Relation, relation: Relation, number: int) -> Relation:
        found = self.reads.get(relation)
        if found is None or not isinstance(rewritten, Join) or not isinstance(relation, Join):
            return rewritten
        side, read = found
        made = 1 + self.wave[read.small]
        if made >= number:
            return rewritten
        original = relation.left if side == "left" else relation.right
        reduced = over(original, self.reduced[read.table, made])
        return replace(rewritten, left=reduced) if side == "left" else replace(rewritten, right=reduced)


_TRUE = expression("TRUE", "boolean")


def _renamed(keyset: Relation, place: int) -> Relation:
    """Key sets that meet in one plan need columns of their own."""
    outputs = (Output(f"{RESERVED_PREFIX}in_{place}_{index}", each.value) for index, each in enumerate(keyset.columns))
    return Project(keyset, tuple(outputs))


def _operators(roots: Sequence[Relation]) -> Iterator[Relation]:
    """Every operator of all plans once, inputs before their readers."""
    seen: set[Relation] = set()
    for root in roots:
        for relation in iterate(root):
            if relation not in seen:
                seen.add(relation)
                yield relation


def tables_read(relation: Relation) -> frozenset[Table]:
    """The tables that a plan reads, reduced or not."""
    return frozenset(each for each in iterate(relation) if isinstance(each, Before | After))
