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

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from anabranch.algebra.relation import (
    LEAVES,
    RESERVED_PREFIX,
    After,
    Before,
    Change,
    Consolidate,
    Empty,
    Filter,
    Join,
    Negate,
    Project,
    Relation,
    Stored,
    TableFunction,
    UnionAll,
    Values,
)
from anabranch.algebra.walk import leaves, operators, transform, with_children
from anabranch.delta.narrow import Smallness
from anabranch.delta.simplify import simplify
from anabranch.fuse.ahead import is_moderate
from anabranch.fuse.at_hand import can_tell_apart, can_work_out
from anabranch.fuse.reads import Read, Table, read_of
from anabranch.fuse.scan import KeySet, RawLeaf, Versions, scan_of
from anabranch.fuse.steps import Piece, Step
from anabranch.fuse.wide import Chain, Wide, base_of, chain_of

SUMS = (UnionAll, Negate, Consolidate)
WORTH_SHARING = 12
"""A shared sub-plan over local rows with fewer operators than this is computed again rather than ahead."""

WORTH_WAITING = 100_000
"""A table with more rows than this waits until all reads of it are known, if other tables can be read meanwhile."""


Reduce = Callable[[Sequence[Relation]], tuple[Relation, ...]]
"""Works out what needs no expression, over rows that are at hand."""


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

    def with_rowid(self, stored: Stored) -> Stored:
        """The leaf of the same rows with their rowids."""
        ...

    def raw(self, versions: Versions, columns: frozenset[str]) -> RawLeaf | None:
        """The files that are scanned as they are, at least these columns; None if that would not do."""
        ...

    def has_null(self, relation: Relation) -> tuple[bool, ...]:
        """For each column, whether it may hold a NULL."""
        ...


@dataclass
class Cutter:
    """Takes plans apart wave by wave; `roots` are what is left of them. Equal sub-plans of different roots are one.

    `label` is in the name of every leaf made, so that those of different cutters are not taken for each other.
    """

    roots: tuple[Relation, ...]
    tables: Tables
    label: str = ""
    stored_rows: dict[str, list[Relation]] = field(default_factory=dict)
    _is_small: Smallness = field(default_factory=Smallness)
    _made: set[Relation] = field(default_factory=set)
    _waves: int = 0

    def next_wave(self, reduced: Reduce) -> tuple[Step, ...]:
        """What to work out now; the roots read its leaves from now on. Nothing: the roots are what is left to do."""
        self._waves += 1
        if self._waves == 1 and self._reads(list(operators(self.roots))):
            wanted = self._filtered_changes(list(operators(self.roots)))
            if wanted:
                self._replace(wanted)
                return tuple(_steps(wanted))
        self.roots = reduced(self.roots)
        order = list(operators(self.roots))
        reads = self._reads(order)
        pending = _pending(order, reads)
        wanted = self._computed(order, reads, pending)
        waiting = pending | _above(order, wanted)
        wanted |= self._shared(order, waiting, wanted)
        replaced: dict[Relation, Relation] = dict(wanted)
        steps = (*_steps(wanted), *self._scans(self._chosen(reads, waiting), replaced, reduced))
        self._replace(replaced)
        self._made |= {piece.leaf for step in steps for piece in step.pieces}
        return steps

    def found_empty(self, leaves: Sequence[Relation]) -> None:
        """Nothing is in these leaves: drop what comes from them."""
        empty = {leaf: Empty(leaf.columns) for leaf in leaves}
        if empty:
            self.roots = tuple(simplify(transform(root, lambda each: empty.get(each, each))) for root in self.roots)

    def _filtered_changes(self, order: Sequence[Relation]) -> dict[Relation, Relation]:
        """What filters and projections leave of changes."""
        readers: dict[Relation, list[Relation]] = {}
        for relation in order:
            for child in relation.children:
                readers.setdefault(child, []).append(relation)
        tops = (each for each in order if _is_chain(each) and not all(map(_is_chain, readers.get(each, ()))))
        return {
            top: self._new_leaf("filtered", number, top)
            for number, top in enumerate(each for each in tops if each not in self.roots and not _is_selection(each))
        }

    def _new_leaf(self, kind: str, number: int, relation: Relation) -> Relation:
        return Change(f"{RESERVED_PREFIX}{kind}_{self.label}{self._waves}_{number}", relation.columns)

    def _reads(self, order: Sequence[Relation]) -> dict[Relation, tuple[str, Read]]:
        """Joins that read a table by keys."""
        reads = {}
        for relation in order:
            found = read_of(relation, self._is_small) if isinstance(relation, Join) else None
            if found is not None and self._is_far(found[1].table):
                reads[relation] = found
        return reads

    def _is_far(self, table: Table) -> bool:
        """Whether the table's rows are in files. Stored rows that cannot be found again here are read where needed."""
        if isinstance(table, Stored) and not can_tell_apart(table.columns):
            return False
        return table not in self._made and not self.tables.is_local(table)

    def _chosen(
        self, reads: dict[Relation, tuple[str, Read]], waiting: set[Relation]
    ) -> dict[Relation, tuple[str, Read]]:
        """The reads of this wave: those whose keys are known, of tables for which there is nothing to wait for."""
        ready = {join: found for join, found in reads.items() if found[1].small not in waiting}
        later = {_key(found[1].table) for join, found in reads.items() if join not in ready}
        postponed = {
            _key(found[1].table)
            for found in ready.values()
            if _key(found[1].table) in later and self.tables.rows(found[1].table) > WORTH_WAITING
        }
        now = {join: found for join, found in ready.items() if _key(found[1].table) not in postponed}
        return now or ready

    def _scans(
        self, chosen: dict[Relation, tuple[str, Read]], replaced: dict[Relation, Relation], reduced: Reduce
    ) -> Iterator[Step]:
        """One scan of each table for all reads of this wave."""

        def at_hand(keys: Relation) -> KeySet:
            (here,) = reduced((keys,))
            return KeySet(here, self.tables.has_null(here))

        by_table: dict[str, list[Read]] = {}
        for _, read in chosen.values():
            by_table.setdefault(_key(read.table), []).append(read)
        sides: dict[Relation, Relation] = {}
        for name, reads in by_table.items():
            for versions in self._versions(reads):
                suffix = f"~{self.label}{self._waves}"
                scan = scan_of(versions, reads, suffix, at_hand, self.tables.raw)
                sides |= scan.sides
                if scan.rows is not None:
                    self.stored_rows.setdefault(name, []).append(scan.rows)
                yield scan.step
        for join, (side, read) in chosen.items():
            assert isinstance(join, Join)
            replaced[join] = _with_side(join, side, sides[read.large])

    def _versions(self, reads: Sequence[Read]) -> Iterator[Versions]:
        """Before and after of a table, together where one scan can give both."""
        tables = list(dict.fromkeys(read.table for read in reads))
        if isinstance(tables[0], Stored):
            yield Versions(self.tables.with_rowid(tables[0]))
            return
        if len(tables) == 2:
            before, after = sorted(tables, key=lambda each: isinstance(each, After))
            if isinstance(before, Before) and isinstance(after, After):
                both = self.tables.both(before, after)
                if both is not None:
                    yield Versions(both, before, after)
                    return
        for table in tables:
            yield Versions(table)

    def _computed(
        self, order: Sequence[Relation], reads: dict[Relation, tuple[str, Read]], pending: set[Relation]
    ) -> dict[Relation, Relation]:
        """What Spark computes of rows at hand for joins, for keys and for sums at the top, which then take no job."""
        tops = self._tops(order)
        is_here: dict[Relation, bool] = {}
        for relation in order:
            is_here[relation] = self._is_here(relation) and all(is_here[child] for child in relation.children)
        found = {
            each: self._new_leaf("whole", number, each)
            for number, each in enumerate(_moderate(order, tops, lambda each: is_here[each] and each not in pending))
        }
        waiting: set[Relation] = set()
        for relation in _outside(self.roots, found):
            if any(child in waiting for child in relation.children):
                waiting.add(relation)
                continue
            asked = self._asked(relation)
            if relation in reads:
                inputs: Sequence[Relation] = (reads[relation][1].small,)
            elif asked is not None:
                inputs = (asked,)
            else:
                is_structure = (isinstance(relation, Join) or relation in tops) and can_work_out(relation)
                inputs = relation.children if is_structure and is_here[relation] else ()
            for each in inputs:
                is_due = is_here[each] or each is asked
                if each not in found and each not in pending and is_due and not isinstance(each, LEAVES):
                    found[each] = self._new_leaf("input", len(found), each)
            if any(each in found for each in inputs):
                waiting.add(relation)
        return found

    def _asked(self, relation: Relation) -> Relation | None:
        """What a join reads a table for, if it is the change of something but nobody can tell that it is small.

        The change of a comparison with a changed value, for one: most rows come and go at once. It is worked out first.
        """
        if not isinstance(relation, Join) or self._is_small(relation):
            return None
        found = read_of(relation, lambda _: True)
        if found is None or not self._is_far(found[1].table) or self._is_small(found[1].small):
            return None
        small = found[1].small
        return small if any(isinstance(each, Change) for each in leaves(small)) else None

    def _tops(self, order: Sequence[Relation]) -> set[Relation]:
        """Sums and signs that nothing but sums and signs is computed from."""
        tops = set(self.roots)
        for relation in reversed(order):
            if relation in tops and isinstance(relation, SUMS):
                tops.update(relation.children)
        return {each for each in tops if isinstance(each, SUMS)}

    def _is_here(self, relation: Relation) -> bool:
        if not isinstance(relation, LEAVES) or isinstance(relation, Values | TableFunction):
            return True
        return self.tables.is_local(relation)

    def _shared(
        self, order: Sequence[Relation], waiting: set[Relation], wanted: dict[Relation, Relation]
    ) -> dict[Relation, Relation]:
        """Small sub-plans that are used again, once nothing below them is still to be worked out."""
        uses: dict[Relation, int] = {}
        for relation in order:
            for child in relation.children:
                uses[child] = uses.get(child, 0) + 1
        sizes: dict[Relation, int] = {}
        stored: dict[Relation, bool] = {}
        found: dict[Relation, Relation] = {}
        for relation in order:
            sizes[relation] = 1 + sum(
                1 if child in {**wanted, **found} else sizes[child] for child in relation.children
            )
            stored[relation] = isinstance(relation, Stored) or any(stored[child] for child in relation.children)
            is_used_again = uses.get(relation, 0) > 1 and relation not in self.roots
            is_known = relation not in waiting and not stored[relation] and not isinstance(relation, LEAVES)
            if is_used_again and is_known and sizes[relation] >= WORTH_SHARING and self._is_small(relation):
                found[relation] = self._new_leaf("shared", len(found), relation)
        return found

    def _replace(self, replaced: dict[Relation, Relation]) -> None:
        """The roots with these sub-plans replaced, the outermost first."""
        done: dict[Relation, Relation] = {}
        for relation in operators(self.roots):
            children = {child: done[child] for child in relation.children}
            made = replaced.get(relation)
            if isinstance(made, Join) and isinstance(relation, Join):
                done[relation] = _rebuilt(relation, made, children)
            else:
                done[relation] = with_children(relation, children) if made is None else made
        self.roots = tuple(done[root] for root in self.roots)


def _steps(wanted: dict[Relation, Relation]) -> Iterator[Step]:
    """Each relation worked out for its leaf; chains over the same rows by one wide projection."""
    by_base: dict[Relation, list[tuple[Relation, Chain, Relation]]] = {}
    for relation, leaf in wanted.items():
        chain = chain_of(relation) if isinstance(base_of(relation), LEAVES) else None
        if chain is None:
            yield Step.of(relation, leaf)
        else:
            by_base.setdefault(chain.base, []).append((relation, chain, leaf))
    for base, found in by_base.items():
        if len(found) == 1:
            yield Step.of(found[0][0], found[0][2])
            continue
        wide = Wide(base)
        pieces = []
        for _, chain, leaf in found:
            flag = wide.flag(chain)
            pieces.append(Piece(leaf, wide.columns(chain), () if flag is None else (flag,)))
        yield Step(wide.relation(), tuple(pieces))


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


def _moderate(order: Sequence[Relation], tops: set[Relation], is_ready: Callable[[Relation], bool]) -> list[Relation]:
    """Terms of sums at the top that are small plans: what is inside them is worked out with them, by the same job."""
    sums = [each for each in order if each in tops and can_work_out(each)]
    terms = dict.fromkeys(child for each in sums for child in each.children if child not in tops)
    return [each for each in terms if not isinstance(each, LEAVES) and is_ready(each) and is_moderate(each)]


def _outside(roots: Sequence[Relation], inner: Container[Relation]) -> Iterator[Relation]:
    """Every operator of the plans once, inputs before their readers, but for what is only inside of these."""
    seen: set[Relation] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        relation, is_expanded = stack.pop()
        if is_expanded:
            yield relation
        elif relation not in seen:
            seen.add(relation)
            stack.append((relation, True))
            if relation not in inner:
                stack.extend((child, False) for child in reversed(relation.children))


def _above(order: Sequence[Relation], replaced: dict[Relation, Relation]) -> set[Relation]:
    """What reads something that is being replaced, and that itself."""
    found: set[Relation] = set(replaced)
    for relation in order:
        if any(child in found for child in relation.children):
            found.add(relation)
    return found


def _is_chain(relation: Relation) -> bool:
    """Filters and projections over a change."""
    if not isinstance(relation, Filter | Project) or not _is_deterministic(relation):
        return False
    while isinstance(relation, Filter | Project):
        relation = relation.child
    return isinstance(relation, Change)


def _is_selection(relation: Relation) -> bool:
    """Whether columns are chosen and renamed, and nothing is computed."""
    while isinstance(relation, Project) and all(each.value.is_column for each in relation.outputs):
        relation = relation.child
    return isinstance(relation, LEAVES)


def _is_deterministic(relation: Filter | Project) -> bool:
    if isinstance(relation, Filter):
        return all(each.deterministic for each in relation.predicates)
    return all(each.value.deterministic for each in relation.outputs)


def _key(table: Table) -> str:
    """The table, whatever its version."""
    return table.part if isinstance(table, Stored) else table.table.rpartition("@")[0] or table.table
