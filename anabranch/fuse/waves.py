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

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from anabranch.algebra.relation import (
    LEAVES,
    RESERVED_PREFIX,
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
from anabranch.fuse.near import Nearby, picked_from
from anabranch.fuse.reads import Read, Table, name_of, read_of
from anabranch.fuse.scan import scan_of
from anabranch.fuse.steps import Piece, Step
from anabranch.fuse.tables import WORTH_WAITING, Reduce, Tables, key_sets_at_hand, versions_of
from anabranch.fuse.wide import Chain, Wide, base_of, chain_of

SUMS = (UnionAll, Negate, Consolidate)
WORTH_SHARING = 12
"""A shared sub-plan over local rows with fewer operators than this is computed again rather than ahead."""


@dataclass
class Cutter:
    """Takes plans apart wave by wave; `roots` are what is left of them. Equal sub-plans of different roots are one.

    `label` is in the name of every leaf made, so that those of different cutters are not taken for each other.
    """

    roots: tuple[Relation, ...]
    tables: Tables
    label: str = ""
    stored_rows: dict[str, list[Relation]] = field(default_factory=dict)
    are_done: tuple[bool, ...] = ()
    _is_small: Smallness = field(default_factory=Smallness)
    _made: set[Relation] = field(default_factory=set)
    _waves: int = 0
    _fresh: tuple[Relation, ...] = ()
    _looks_near: bool = False

    def __post_init__(self) -> None:
        self._fresh = self.roots

    def add(self, roots: Sequence[Relation]) -> None:
        """More plans, behind the others."""
        self.roots += tuple(roots)
        self._fresh += tuple(roots)

    def keep(self, places: Collection[int]) -> None:
        """Only the roots at these places are still of interest."""
        self.roots = tuple(root for place, root in enumerate(self.roots) if place in places)

    def next_wave(self, reduced: Reduce) -> tuple[Step, ...]:
        """What to work out now; the roots read its leaves from now on. Nothing: the roots are what is left to do.

        `are_done` tells which roots are that already.
        """
        self._waves += 1
        self.are_done = (False,) * len(self.roots)
        filtered = self._filtered_changes()
        self._replace(filtered)
        self.roots = reduced(self.roots)
        order = list(operators(self.roots))
        if self._looks_near and not filtered:
            self._looks_near = False
            nearby = Nearby(self.tables, reduced)
            if steps := tuple(nearby.scans(order, self._is_far, f"~{self.label}{self._waves}")):
                return steps
        reads = self._reads(order)
        pending = _pending(order, reads) | _above(order, filtered.values())
        wanted = self._computed(order, reads, pending, Nearby(self.tables, reduced))
        waiting = pending | _above(order, wanted)
        wanted |= self._shared(order, waiting, wanted)
        above_wanted = waiting | _above(order, wanted)
        self.are_done = tuple(root not in above_wanted for root in self.roots)
        replaced: dict[Relation, Relation] = dict(wanted)
        scans = self._scans(self._chosen(reads, waiting, reduced), replaced, reduced)
        steps = (*_steps(filtered), *_steps(wanted), *scans)
        self._replace(replaced)
        self._made |= {piece.leaf for step in steps for piece in step.pieces}
        return steps

    def found_empty(self, leaves: Sequence[Relation]) -> None:
        """Nothing is in these leaves: drop what comes from them."""
        empty = {leaf: Empty(leaf.columns) for leaf in leaves}
        if empty:
            self.roots = tuple(simplify(transform(root, lambda each: empty.get(each, each))) for root in self.roots)

    def _filtered_changes(self) -> dict[Relation, Relation]:
        """What filters and projections leave of the changes that new plans read, if they read tables for it."""
        order = list(operators(self._fresh))
        self._looks_near |= bool(order)
        self._fresh = ()
        if not self._reads(order):
            return {}
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
        self, reads: dict[Relation, tuple[str, Read]], waiting: set[Relation], reduced: Reduce
    ) -> dict[Relation, tuple[str, Read]]:
        """The reads of this wave: those whose keys are known, of tables for which there is nothing to wait for."""
        ready = {join: found for join, found in reads.items() if found[1].small not in waiting}
        nearby = Nearby(self.tables, reduced)
        near = {join for join, found in ready.items() if nearby.has_all_of(found[1])}
        later = {name_of(found[1].table) for join, found in reads.items() if join not in ready}
        postponed = {
            name_of(found[1].table)
            for found in ready.values()
            if name_of(found[1].table) in later and self.tables.rows(found[1].table) > WORTH_WAITING
        }
        now = {join: found for join, found in ready.items() if join in near or name_of(found[1].table) not in postponed}
        return now or ready

    def _scans(
        self, chosen: dict[Relation, tuple[str, Read]], replaced: dict[Relation, Relation], reduced: Reduce
    ) -> Iterator[Step]:
        """One scan of each table for all reads of this wave; none where the rows are near, or found by an index."""
        nearby = Nearby(self.tables, reduced)
        by_table: dict[tuple[str, str], dict[Relation, Read]] = {}
        for join, (_, read) in chosen.items():
            way = "near" if nearby.covers(read) else "index" if nearby.is_indexed(read) else ""
            by_table.setdefault((name_of(read.table), way), {})[join] = read
        for (name, way), joins in by_table.items():
            reads = tuple(joins.values())
            sides: dict[Relation, Relation] = {}
            near = nearby.rows_of(reads[0].table) if way == "near" else None
            found = versions_of(self.tables, [read.table for read in reads]) if near is None else (near.versions,)
            for versions in found:
                suffix = f"~{self.label}{self._waves}{way}"
                raw = self.tables.raw if near is None else picked_from(near.rows)
                scan = scan_of(versions, reads, suffix, key_sets_at_hand(self.tables, reduced), raw)
                sides |= scan.sides
                if scan.rows is not None:
                    self.stored_rows.setdefault(name, []).append(scan.rows)
                yield scan.step
            for join, read in joins.items():
                assert isinstance(join, Join)
                replaced[join] = _with_side(join, chosen[join][0], sides[read.large])

    def _computed(
        self,
        order: Sequence[Relation],
        reads: dict[Relation, tuple[str, Read]],
        pending: set[Relation],
        nearby: Nearby,
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
            is_picked_here = relation in reads and nearby.is_picked(reads[relation][1])
            if relation in reads:
                inputs: Sequence[Relation] = (reads[relation][1].small,)
            elif asked is not None:
                inputs = (asked,)
            else:
                is_structure = (isinstance(relation, Join) or relation in tops) and can_work_out(relation)
                inputs = relation.children if is_structure and is_here[relation] else ()
            for each in inputs:
                is_due = is_here[each] or each is asked or is_picked_here
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


def _above(order: Sequence[Relation], replaced: Iterable[Relation]) -> set[Relation]:
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
