"""One scan of a table for many reads: the rows that any of them needs, with what their filters and projections make.

    rows(T)  =  { t in T : keys1(t) in K1 and filter1(t)  or  keys2(t) in K2 and filter2(t) ... }

Reads by the same keys have one key set. What each read makes of the rows is computed in the same scan (wide.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from anabranch.algebra.expression import Expression, equals, expression
from anabranch.algebra.relation import (
    FILE,
    IS_THERE,
    POSITION,
    RESERVED_PREFIX,
    ROWID,
    STORED_ROWID,
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
from anabranch.fuse.steps import Piece, Raw, Step
from anabranch.fuse.wide import Chain, Wide, chain_of

_TRUE = expression("TRUE", "boolean")


@dataclass(frozen=True)
class KeySet:
    """The keys of a scan; `has_null`: for each column, whether NULL may be among them."""

    relation: Relation
    has_null: tuple[bool, ...]


Keys = tuple[Expression, ...]
AtHand = Callable[[Relation], KeySet]
"""Works key sets out, as far as that takes no job."""


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
class RawLeaf:
    """Files as they are, with FILE, POSITION and STORED_ROWID, and who tells which of their rows are there.

    Files that are unlike are leaves of their own. Without `told` the rows are at hand, those that are not there left
    out, with WAS_THERE and IS_THERE, and ROWID.
    """

    leaves: tuple[Relation, ...]
    told: Callable[[pa.Table], pa.Table] | None


FindRaw = Callable[[Versions, frozenset[str], Sequence[Read]], RawLeaf | None]
"""The rows that are scanned, of which these columns are read: at least those that the reads ask for."""


@dataclass(frozen=True)
class Scan:
    """A step that scans a table; `sides`: what each read side of a join is from then on.

    `rows` stands for the scanned rows of a stored part, rowids included.
    """

    step: Step
    sides: dict[Relation, Relation] = field(default_factory=dict)
    rows: Relation | None = None


def scan_of(versions: Versions, reads: Sequence[Read], suffix: str, at_hand: AtHand, raw: FindRaw) -> Scan:
    """One scan for all reads of these versions; `suffix` makes the names of its leaves."""
    tables = versions.tables
    own = [read for read in reads if read.table in tables]
    chains = {read.large: _chain(read) for read in own}
    keys = _key_sets(own, at_hand)
    wide = Wide(_matching(versions.scanned, own, chains, keys))
    pieces: list[Piece] = []
    sides: dict[Relation, Relation] = {}
    for number, (large, chain) in enumerate(chains.items()):
        table = next(read.table for read in own if read.large is large)
        flags = tuple(each for each in (tables[table], wide.flag(chain)) if each is not None)
        is_all = chain_of(large) == chain
        columns = large.columns if is_all else tuple(Column(str(each), each.type) for each in chain.values)
        leaf = type(table)(f"{_name(table)}{suffix}_{number}", columns)
        pieces.append(Piece(leaf, wide.columns(chain), flags))
        sides[large] = leaf if is_all else over(large, leaf)
    rows = None
    if isinstance(versions.scanned, Stored):
        rows = Stored(f"{versions.scanned.part}{suffix}_rows", versions.scanned.columns)
        pieces.append(Piece(rows, rows.names))
    shown = tuple(each.name for each in versions.scanned.columns) if rows is not None else ()
    told = [each for each in tables.values() if each is not None]
    read = {name for chain in chains.values() for name in chain.columns}
    read |= {name for read_by in own for key in read_by.keys for name in key.columns}
    found = raw(versions, frozenset(read.union(shown)) - {ROWID}, own)
    way = None if found is None else _raw(found, wide, own, chains, keys, shown, told)
    return Scan(Step(wide.over(wide.rows, (*shown, *told)), tuple(pieces), way), sides, rows)


def near_scan(
    versions: Versions, keys: Mapping[str, Relation], suffix: str, as_keys: AtHand, raw: FindRaw
) -> Step | None:
    """The rows of both versions by these keys of columns, all columns, with WAS_THERE and IS_THERE.

    None where there are no two versions, or where their files are not scanned as they are.
    """
    table = versions.after
    found = None if table is None or not keys else raw(versions, frozenset(table.names), ())
    if table is None or found is None or found.told is None:
        return None
    reads = [
        Read(table, (table.column(name).value,), each, (each.columns[0].value,), (False,), table)
        for name, each in keys.items()
    ]
    chains: dict[Relation, Chain] = {table: Chain(table, (), tuple(each.value for each in table.columns))}
    sets = _key_sets(reads, as_keys)
    flags = (Column(WAS_THERE, "boolean"), Column(IS_THERE, "boolean"))
    rows = After(f"{_name(table)}{suffix}_near", (*table.columns, *flags))

    def scan(leaf: Relation, names: Iterable[str]) -> Relation:
        matching = _matching(leaf, reads, chains, sets)
        return Project(matching, tuple(Output(each, matching.column(each).value) for each in names))

    files = tuple(scan(leaf, (*table.names, FILE, POSITION)) for leaf in found.leaves)
    way = Raw(UnionAll(files) if len(files) > 1 else files[0], found.told)
    return Step(scan(versions.scanned, rows.names), (Piece(rows, rows.names),), way)


def _raw(
    raw: RawLeaf,
    wide: Wide,
    reads: Sequence[Read],
    chains: dict[Relation, Chain],
    keys: dict[Keys, KeySet],
    shown: Sequence[str],
    flags: Sequence[str],
) -> Raw:
    if raw.told is None:
        (leaf,) = raw.leaves
        return Raw(wide.over(_picked(leaf, reads, keys), (*shown, *flags)), lambda rows: rows)
    address = [FILE, POSITION, *([STORED_ROWID] if shown else [])]
    others = [*(each for each in shown if each != ROWID), *address]
    scans = tuple(wide.over(_matching(leaf, reads, chains, keys), others) for leaf in raw.leaves)
    return Raw(UnionAll(scans) if len(scans) > 1 else scans[0], raw.told)


def _picked(table: Relation, reads: Sequence[Read], keys: dict[Keys, KeySet]) -> Relation:
    """The rows whose keys occur in any key set, by joins that need no expression."""
    terms: list[Relation] = []
    rest = table
    for names, keyset in keys.items():
        on = _equal([read for read in reads if read.keys == names], keyset)
        terms.append(Join(rest, keyset.relation, JoinKind.SEMI, on))
        rest = Join(rest, keyset.relation, JoinKind.ANTI, on)
    return UnionAll(tuple(terms)) if len(terms) > 1 else terms[0]


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


def _key_sets(reads: Sequence[Read], at_hand: AtHand) -> dict[Keys, KeySet]:
    """The keys of all reads by the same columns; key sets that meet in one plan need columns of their own."""
    sets: dict[Keys, dict[Relation, None]] = {}
    for read in reads:
        sets.setdefault(read.keys, {})[key_set(read.small, read.values)] = None
    found: dict[Keys, KeySet] = {}
    for place, (keys, own) in enumerate(sets.items()):
        keyset = Support(UnionAll(tuple(own))) if len(own) > 1 else next(iter(own))
        names = (f"{RESERVED_PREFIX}in_{place}_{index}" for index in range(len(keys)))
        outputs = (Output(name, each.value) for name, each in zip(names, keyset.columns, strict=True))
        found[keys] = at_hand(Project(keyset, tuple(outputs)))
    return found


def _matching(
    table: Relation, reads: Sequence[Read], chains: dict[Relation, Chain], keys: dict[Keys, KeySet]
) -> Relation:
    """The rows that fulfil a read's filters and whose keys occur in its small side."""
    rows, tests = table, []
    for place, (names, keyset) in enumerate(keys.items()):
        own = [read for read in reads if read.keys == names]
        filters = _either([_both(chains[read.large].predicates) for read in own])
        on = _equal(own, keyset)
        if len(keys) == 1:
            rows = Join(rows, keyset.relation, JoinKind.SEMI, on)
            return rows if filters is None else Filter(rows, (filters,))
        mark = Column(f"{RESERVED_PREFIX}hit_{place}", "boolean")
        outputs = (*(Output(each.name, each.value) for each in keyset.relation.columns), Output(mark.name, _TRUE))
        rows = Join(rows, Project(keyset.relation, outputs), JoinKind.LEFT, on)
        hit = expression("{} IS NOT NULL", "boolean", mark.value)
        tests.append(hit if filters is None else expression("{} AND {}", "boolean", hit, filters))
    found = _either(tests)
    assert found is not None
    return Filter(rows, (found,))


def _equal(reads: Sequence[Read], keyset: KeySet) -> tuple[Expression, ...]:
    """Rows beyond those needed do no harm; `<=>` is slower than `=`, and needed only where NULL may be a key."""
    columns = zip(reads[0].keys, keyset.relation.columns, keyset.has_null, strict=True)
    return tuple(
        equals(key, each.value, has_null and any(read.null_safe[place] for read in reads))
        for place, (key, each, has_null) in enumerate(columns)
    )


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
