"""Plans worked out in waves: each wave is one job, whose small results are what the next one reads.

Three things are worked out ahead of the plans that use them:

- first, what filters and projections leave of the sources' changes. Most changes do not concern most plans: terms over
  what turns out to be empty are dropped before a table is read for them.
- the rows of a table that joins with small relations need. All reads of a table in a wave are one scan, by the keys of
  all of them, with the columns of all of them, before and after the tick at once. A table read through another one is
  read a wave later; a large table waits for those reads, so that it is scanned seldom.
- a small sub-plan that is used more than once. In Spark a plan used twice is computed twice, and a chain of such plans
  is computed exponentially often.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from anabranch.algebra.relation import (
    LEAVES,
    RESERVED_PREFIX,
    After,
    Before,
    Change,
    Empty,
    Filter,
    Join,
    Project,
    Relation,
    Stored,
    iterate,
)
from anabranch.algebra.walk import transform, with_children
from anabranch.delta.narrow import Smallness
from anabranch.delta.simplify import simplify
from anabranch.fuse.reads import Read, Table, over, read_of
from anabranch.fuse.scan import Versions, rows_needed

WORTH_SHARING = 12
"""A shared sub-plan over local rows with fewer operators than this is computed again rather than ahead."""

WORTH_WAITING = 100_000
"""A table with more rows than this waits until all reads of it are known, if other tables can be read meanwhile."""


class Tables(Protocol):
    """What is known of the tables that plans read."""

    def is_local(self, table: Relation) -> bool:
        """Whether its rows are at hand, so that there is nothing to gain from reading fewer."""
        ...

    def rows(self, table: Table) -> int:
        """About how many rows it has."""
        ...

    def both(self, before: Before, after: After) -> After | None:
        """One leaf for two versions of a table, with the columns of the second, BEFORE and AFTER; None if unlike."""
        ...


@dataclass(frozen=True)
class Step:
    """A relation to work out. Afterwards each leaf stands for its rows, those in which its flag is true."""

    relation: Relation
    leaves: tuple[tuple[Relation, str | None], ...]


@dataclass
class Cutter:
    """Takes plans apart wave by wave; `roots` are what is left of them. Equal sub-plans of different roots are one.

    `label` is in the name of every leaf made, so that those of different cutters are not taken for each other.
    """

    roots: tuple[Relation, ...]
    tables: Tables
    label: str = ""
    _is_small: Smallness = field(default_factory=Smallness)
    _made: set[Relation] = field(default_factory=set)
    _waves: int = 0

    def next_wave(self) -> tuple[Step, ...]:
        """What to work out now; the roots read its leaves from now on. Nothing: the roots are what is left to do."""
        order = list(_operators(self.roots))
        self._waves += 1
        reads = self._reads(order)
        if self._waves == 1 and reads:
            steps = self._filtered_changes(order)
            if steps:
                return steps
        pending = _pending(order, reads)
        chosen = self._chosen(reads, pending)
        replaced: dict[Relation, Relation] = {}
        steps = (*self._scans(chosen, replaced), *self._shared(order, pending, replaced))
        self._replace(replaced)
        self._made |= {leaf for step in steps for leaf, _ in step.leaves}
        return steps

    def found_empty(self, leaves: Sequence[Relation]) -> None:
        """Nothing is in these leaves: drop what comes from them."""
        empty = {leaf: Empty(leaf.columns) for leaf in leaves}
        if empty:
            self.roots = tuple(simplify(transform(root, lambda each: empty.get(each, each))) for root in self.roots)

    def _filtered_changes(self, order: Sequence[Relation]) -> tuple[Step, ...]:
        """What filters and projections leave of changes."""
        readers: dict[Relation, list[Relation]] = {}
        for relation in order:
            for child in relation.children:
                readers.setdefault(child, []).append(relation)
        tops = (each for each in order if _is_chain(each) and not all(map(_is_chain, readers.get(each, ()))))
        replaced: dict[Relation, Relation] = {}
        for number, top in enumerate(each for each in tops if each not in self.roots):
            replaced[top] = Change(f"{RESERVED_PREFIX}filtered_{self.label}{number}", top.columns)
        self._replace(replaced)
        return tuple(Step(relation, ((leaf, None),)) for relation, leaf in replaced.items())

    def _reads(self, order: Sequence[Relation]) -> dict[Relation, tuple[str, Read]]:
        """Joins that read a table by keys."""
        reads = {}
        for relation in order:
            found = read_of(relation, self._is_small) if isinstance(relation, Join) else None
            if found is not None and found[1].table not in self._made and not self.tables.is_local(found[1].table):
                reads[relation] = found
        return reads

    def _chosen(
        self, reads: dict[Relation, tuple[str, Read]], pending: set[Relation]
    ) -> dict[Relation, tuple[str, Read]]:
        """The reads of this wave: those whose keys are known, of tables for which there is nothing to wait for."""
        ready = {join: found for join, found in reads.items() if found[1].small not in pending}
        later = {_key(found[1].table) for join, found in reads.items() if join not in ready}
        waiting = {
            _key(found[1].table)
            for found in ready.values()
            if _key(found[1].table) in later and self.tables.rows(found[1].table) > WORTH_WAITING
        }
        now = {join: found for join, found in ready.items() if _key(found[1].table) not in waiting}
        return now or ready

    def _scans(self, chosen: dict[Relation, tuple[str, Read]], replaced: dict[Relation, Relation]) -> Iterator[Step]:
        """One scan of each table for all reads of this wave."""
        by_table: dict[str, list[Read]] = {}
        for _, read in chosen.values():
            by_table.setdefault(_key(read.table), []).append(read)
        leaves: dict[Table, Relation] = {}
        for reads in by_table.values():
            for versions in self._versions(reads):
                relation, made = rows_needed(versions, reads, f"~{self.label}{self._waves}")
                leaves |= {table: leaf for table, leaf, _ in made}
                yield Step(relation, tuple((leaf, flag) for _, leaf, flag in made))
        for join, (side, read) in chosen.items():
            assert isinstance(join, Join)
            large = join.left if side == "left" else join.right
            replaced[join] = _with_side(join, side, over(large, leaves[read.table]))

    def _versions(self, reads: Sequence[Read]) -> Iterator[Versions]:
        """Before and after of a table, together where one scan can give both."""
        tables = list(dict.fromkeys(read.table for read in reads))
        if len(tables) == 2:
            before, after = sorted(tables, key=lambda each: isinstance(each, After))
            if isinstance(before, Before) and isinstance(after, After):
                both = self.tables.both(before, after)
                if both is not None:
                    yield Versions(both, before, after)
                    return
        for table in tables:
            yield Versions(table)

    def _shared(
        self, order: Sequence[Relation], pending: set[Relation], replaced: dict[Relation, Relation]
    ) -> Iterator[Step]:
        """Small sub-plans that are used again, once nothing below them is still to be read."""
        uses: dict[Relation, int] = {}
        for relation in order:
            for child in relation.children:
                uses[child] = uses.get(child, 0) + 1
        sizes: dict[Relation, int] = {}
        stored: dict[Relation, bool] = {}
        count = 0
        for relation in order:
            sizes[relation] = 1 + sum(1 if child in replaced else sizes[child] for child in relation.children)
            stored[relation] = isinstance(relation, Stored) or any(stored[child] for child in relation.children)
            is_used_again = uses.get(relation, 0) > 1 and relation not in self.roots
            is_known = relation not in pending and not stored[relation] and not isinstance(relation, LEAVES)
            if is_used_again and is_known and sizes[relation] >= WORTH_SHARING and self._is_small(relation):
                leaf = Change(f"{RESERVED_PREFIX}shared_{self.label}{self._waves}_{count}", relation.columns)
                replaced[relation] = leaf
                count += 1
                yield Step(relation, ((leaf, None),))

    def _replace(self, replaced: dict[Relation, Relation]) -> None:
        """The roots with these sub-plans replaced, the outermost first."""
        done: dict[Relation, Relation] = {}
        for relation in _operators(self.roots):
            children = {child: done[child] for child in relation.children}
            made = replaced.get(relation)
            if isinstance(made, Join) and isinstance(relation, Join):
                done[relation] = _rebuilt(relation, made, children)
            else:
                done[relation] = with_children(relation, children) if made is None else made
        self.roots = tuple(done[root] for root in self.roots)


def _rebuilt(join: Join, made: Join, children: dict[Relation, Relation]) -> Relation:
    """The join over rewritten inputs, but for the side that is read by keys now."""
    if made.left == join.left:
        return Join(children[join.left], made.right, join.kind, join.on)
    return Join(made.left, children[join.right], join.kind, join.on)


def _with_side(join: Join, side: str, relation: Relation) -> Join:
    left, right = (relation, join.right) if side == "left" else (join.left, relation)
    return Join(left, right, join.kind, join.on)


def _pending(order: Sequence[Relation], reads: dict[Relation, tuple[str, Read]]) -> set[Relation]:
    """What cannot be worked out before some table is read."""
    pending: set[Relation] = set()
    for relation in order:
        if relation in reads or any(child in pending for child in relation.children):
            pending.add(relation)
    return pending


def _is_chain(relation: Relation) -> bool:
    """Filters and projections over a change."""
    if not isinstance(relation, Filter | Project) or not _is_deterministic(relation):
        return False
    while isinstance(relation, Filter | Project):
        relation = relation.child
    return isinstance(relation, Change)


def _is_deterministic(relation: Filter | Project) -> bool:
    if isinstance(relation, Filter):
        return all(each.deterministic for each in relation.predicates)
    return all(each.value.deterministic for each in relation.outputs)


def _key(table: Table) -> str:
    """The table, whatever its version."""
    return table.table.rpartition("@")[0] or table.table


def _operators(roots: Sequence[Relation]) -> Iterator[Relation]:
    """Every operator of all plans once, inputs before their readers."""
    seen: set[Relation] = set()
    for root in roots:
        for relation in iterate(root):
            if relation not in seen:
                seen.add(relation)
                yield relation
