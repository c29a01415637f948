"""One scan of a table for many reads: the rows that any of them needs, with what their filters and projections make.

    rows(T)  =  { t in T : keys1(t) in K1 and filter1(t)  or  keys2(t) in K2 and filter2(t) ... }

Reads by the same keys have one key set. What each read makes of the rows is computed in the same scan (wide.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from anabranch.algebra.expression import Expression, equals, expression
from anabranch.algebra.relation import (
    IS_THERE,
    RESERVED_PREFIX,
    ROWID,
    WAS_THERE,
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
)
from anabranch.delta.build import key_set
from anabranch.fuse.reads import Read, Table, columns_needed, over
from anabranch.fuse.steps import Piece, Step
from anabranch.fuse.wide import Chain, Wide, chain_of

_TRUE = expression("TRUE", "boolean")
Keys = tuple[tuple[Expression, ...], tuple[bool, ...]]


@dataclass(frozen=True)
class Versions:
    """What is scanned: a table, or one leaf for two versions of it."""

    scanned: Table
    before: Before | None = None
    after: After | None = None

    @property
    def tables(self) -> dict[Table, str | None]:
        """Each version, and the column that tells its rows."""
        if self.before is None or self.after is None:
            return {_without_rowid(self.scanned): None}
        return {self.before: WAS_THERE, self.after: IS_THERE}


@dataclass(frozen=True)
class Scan:
    """A step that scans a table; `sides`: what each read side of a join is from then on.

    `rows` stands for the scanned rows of a stored part, rowids included.
    """

    step: Step
    sides: dict[Relation, Relation] = field(default_factory=dict)
    rows: Relation | None = None


def scan_of(versions: Versions, reads: Sequence[Read], suffix: str) -> Scan:
    """One scan for all reads of these versions; `suffix` makes the names of its leaves."""
    tables = versions.tables
    own = [read for read in reads if read.table in tables]
    chains = {read.large: _chain(read) for read in own}
    wide = Wide(_matching(versions.scanned, own, chains))
    pieces: list[Piece] = []
    sides: dict[Relation, Relation] = {}
    for number, (large, chain) in enumerate(chains.items()):
        table = next(read.table for read in own if read.large is large)
        flags = tuple(each for each in (tables[table], wide.flag(chain)) if each is not None)
        leaf = type(table)(f"{_name(table)}{suffix}_{number}", _columns(large, chain))
        pieces.append(Piece(leaf, wide.columns(chain), flags))
        sides[large] = leaf if len(chain.values) == len(large.columns) and _is_all(large, chain) else over(large, leaf)
    wide.keep(each for each in tables.values() if each is not None)
    rows = None
    if isinstance(versions.scanned, Stored):
        wide.keep(versions.scanned.names)
        rows = Stored(f"{versions.scanned.part}{suffix}_rows", versions.scanned.columns)
        pieces.append(Piece(rows, rows.names))
    return Scan(Step(wide.relation(), tuple(pieces)), sides, rows)


def with_rowid(stored: Stored) -> Stored:
    """The stored rows of a part, each with its rowid."""
    return Stored(stored.part, (*stored.columns, Column(ROWID, "bigint")))


def _chain(read: Read) -> Chain:
    """What the read makes of the table's rows; only the columns that it needs, if the chain cannot be written here."""
    chain = chain_of(read.large)
    if chain is not None:
        return chain
    needed = columns_needed(read.large)
    return Chain(read.table, (), tuple(each.value for each in read.table.columns if each.name in needed))


def _is_all(large: Relation, chain: Chain) -> bool:
    """Whether the chain is the whole of it."""
    return chain_of(large) == chain


def _columns(large: Relation, chain: Chain) -> tuple[Column, ...]:
    if _is_all(large, chain):
        return large.columns
    return tuple(Column(str(each), each.type) for each in chain.values)


def _matching(table: Relation, reads: Sequence[Read], chains: dict[Relation, Chain]) -> Relation:
    """The rows that fulfil a read's filters and whose keys occur in its small side."""
    groups: dict[Keys, list[Read]] = {}
    for read in reads:
        groups.setdefault((read.keys, read.null_safe), []).append(read)
    rows, tests = table, []
    for place, (keys, own) in enumerate(groups.items()):
        filters = _either([_both(chains[read.large].predicates) for read in own])
        if len(groups) == 1:
            rows = Join(rows, _key_set(own, place), JoinKind.SEMI, _equal(keys, _key_set(own, place)))
            return rows if filters is None else Filter(rows, (filters,))
        mark = Column(f"{RESERVED_PREFIX}hit_{place}", "boolean")
        keyset = _key_set(own, place)
        outputs = (*(Output(each.name, each.value) for each in keyset.columns), Output(mark.name, _TRUE))
        rows = Join(rows, Project(keyset, outputs), JoinKind.LEFT, _equal(keys, keyset))
        hit = expression("{} IS NOT NULL", "boolean", mark.value)
        tests.append(hit if filters is None else expression("{} AND {}", "boolean", hit, filters))
    found = _either(tests)
    assert found is not None
    return Filter(rows, (found,))


def _key_set(reads: Sequence[Read], place: int) -> Relation:
    """The keys of all these reads; key sets that meet in one plan need columns of their own."""
    sets = list(dict.fromkeys(key_set(read.small, read.values) for read in reads))
    keyset = Support(UnionAll(tuple(sets))) if len(sets) > 1 else sets[0]
    outputs = (Output(f"{RESERVED_PREFIX}in_{place}_{index}", each.value) for index, each in enumerate(keyset.columns))
    return Project(keyset, tuple(outputs))


def _equal(keys: Keys, keyset: Relation) -> tuple[Expression, ...]:
    pairs = zip(keys[0], keyset.columns, keys[1], strict=True)
    return tuple(equals(key, each.value, safe) for key, each, safe in pairs)


def _both(predicates: Sequence[Expression]) -> Expression | None:
    """All of them; None where nothing is asked."""
    if not predicates:
        return None
    return expression(" AND ".join("{}" for _ in predicates), "boolean", *predicates)


def _either(tests: Sequence[Expression | None]) -> Expression | None:
    """Any of them; None where one asks nothing."""
    asked = [each for each in dict.fromkeys(tests) if each is not None]
    if len(asked) < len(set(tests)):
        return None
    return expression(" OR ".join("{}" for _ in asked), "boolean", *asked)


def _without_rowid(table: Table) -> Table:
    if not isinstance(table, Stored):
        return table
    return Stored(table.part, tuple(each for each in table.columns if each.name != ROWID))


def _name(table: Table) -> str:
    return table.part if isinstance(table, Stored) else table.table
