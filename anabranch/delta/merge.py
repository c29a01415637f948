"""Merge: old state plus change.

    state'(g) = state(g) + sum of weight * row over the rows of the change in group g
    d stored  = rows of state' - rows of state, for the groups g that the change touches

The state of a group is its row count, sums, non-null counts and extremes (slots.py), stored as hidden columns beside
the values readers see. A group is born at count 0 -> n and dies at n -> 0; the one row of a global aggregate never
dies. An extreme merges with what came; where what went may have held it, the group's extremes are read again. The
retraction is the stored row.
Example: SUM(x) by k, stored {(1, 12, count 2)}, change {(1, 5): -1} gives {(1, 7, count 1): +1, (1, 12, count 2): -1}.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from anabranch.algebra.expression import Expression, equals, expression
from anabranch.algebra.relation import (
    RESERVED_PREFIX,
    Aggregate,
    Aggregation,
    Column,
    Consolidate,
    Distinct,
    Filter,
    Join,
    JoinKind,
    Output,
    Project,
    Relation,
    UnionAll,
    Weigh,
)
from anabranch.delta.build import at, key_set, minus, null_of, touched_keys
from anabranch.delta.face import Chain, has_filter, peel, shown_as, with_face, with_flagged_face
from anabranch.delta.parts import FLAG, HIDDEN, Part, Strategy
from anabranch.delta.rules.keyed import group_keys
from anabranch.delta.slots import COUNT, Slot, aggregation, final_value, slots_of
from anabranch.delta.versions import Versions, after

WEIGHT = f"{RESERVED_PREFIX}merged_weight"
KEY = f"{HIDDEN}key_"
FRESH = f"{RESERVED_PREFIX}fresh_"


@dataclass(frozen=True)
class _Merge:
    """A mergeable core, the chain above it, and the columns of the state."""

    core: Aggregate | Distinct
    chain: Chain
    slots: tuple[Slot, ...]
    visible: tuple[str, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        return group_keys(self.core)

    @property
    def state_keys(self) -> tuple[Column, ...]:
        """The group's keys, under names of our own."""
        return tuple(
            Column(f"{KEY}{number}", self.core.child.column(key).type) for number, key in enumerate(self.keys, start=1)
        )

    @property
    def stored_keys(self) -> tuple[str, ...]:
        """The stored columns that hold the keys: a visible one where it shows the key, else a hidden one."""
        pairs = zip(self.keys, self.state_keys, strict=True)
        return tuple(shown_as(self.chain, self.visible, key) or hidden.name for key, hidden in pairs)

    @property
    def hidden(self) -> tuple[str, ...]:
        """The hidden columns that are stored."""
        own = tuple(key.name for key in self.state_keys)
        keys = tuple(name for name in self.stored_keys if name in own)
        return keys + tuple(slot.name for slot in self.slots)

    @property
    def extremes(self) -> tuple[Slot, ...]:
        return tuple(slot for slot in self.slots if slot.is_extreme)


def merge_part(name: str, relation: Relation) -> Part | None:
    """The part that keeps a mergeable relation; None where it is not mergeable."""
    merge = _merge_of(relation)
    if merge is None:
        return None
    rows = _rows_of_state(_state_from(merge, after(merge.core.child)), merge)
    flag = FLAG if has_filter(merge.chain) else None
    return Part(name, relation, rows.columns, relation.names, flag, Strategy.MERGE, merge.stored_keys)


def initial_merge(part: Part) -> Relation:
    """All rows of the part, worked out from scratch."""
    merge = _known_merge(part)
    return _rows_of_state(_state_from(merge, after(merge.core.child)), merge)


def delta_of_merge(part: Part, versions: Versions) -> Relation:
    """The change of the stored rows; groups that lost an extreme are read again."""
    return _delta(part, versions, read_again=True)


def delta_unless_extreme_lost(part: Part, versions: Versions) -> tuple[Relation, Relation] | None:
    """A change that reads no group again, and the groups for which that is wrong; None where there are no extremes."""
    merge = _known_merge(part)
    if not merge.extremes:
        return None
    return _delta(part, versions, read_again=False), _lost(_merged(part, merge, versions), merge)


def _known_merge(part: Part) -> _Merge:
    merge = _merge_of(part.relation)
    assert merge is not None
    return merge


def _merge_of(relation: Relation) -> _Merge | None:
    core, chain = peel(relation)
    slots = slots_of(core)
    if slots is None or not isinstance(core, Aggregate | Distinct):
        return None
    return _Merge(core, chain, slots, relation.names)


def _delta(part: Part, versions: Versions, read_again: bool) -> Relation:
    merge = _known_merge(part)
    merged = _merged(part, merge, versions)
    if merge.extremes:
        merged = _with_extremes(merged, merge, versions.after(merge.core.child) if read_again else None)
    return Consolidate(minus(_rows_of_state(merged, merge), _stored_rows(part, merge, versions)))


def _stored_rows(part: Part, merge: _Merge, versions: Versions) -> Relation:
    """The stored rows of the touched groups; of a global aggregate, its one row."""
    if not merge.keys:
        return part.stored
    return at(part.stored, merge.stored_keys, touched_keys(versions.change(merge.core.child), merge.keys))


def _state_from(merge: _Merge, child: Relation) -> Relation:
    """The state of every group, from all its rows."""
    grouped = Aggregate(child, merge.keys, tuple(slot.start() for slot in merge.slots))
    keys = (
        Output(hidden.name, grouped.column(key).value) for key, hidden in zip(merge.keys, merge.state_keys, strict=True)
    )
    return Project(grouped, (*keys, *(Output(slot.name, slot.column.value) for slot in merge.slots)))


def _merged(part: Part, merge: _Merge, versions: Versions) -> Relation:
    """The state of the touched groups that live on. Added by SUM, whose sums of wide decimals lose no digits.

    Of terms that cancel, sums show nothing. But one that goes might be taken for an extreme that goes, by one job and
    not by the one that reads the group again: for extremes the change is summed up.
    """
    stored = _stored_state(_stored_rows(part, merge, versions), merge)
    change = versions.change(merge.core.child)
    added = _additions(Consolidate(change) if merge.extremes else change, merge)
    merged = _summed(UnionAll((stored, added)), merge)
    return Filter(merged, (expression("{} > 0", "boolean", _count()),)) if merge.keys else merged


def _summed(terms: Relation, merge: _Merge) -> Relation:
    """Per group, its terms combined."""
    columns = [(slot, slot.column) for slot in merge.slots] + [(slot, slot.left) for slot in merge.extremes]
    sums = (aggregation(column.name, slot.function, (column.value,), slot.type) for slot, column in columns)
    return Aggregate(terms, _names(merge.state_keys), tuple(sums))


def _stored_state(rows: Relation, merge: _Merge) -> Relation:
    pairs = zip(merge.state_keys, merge.stored_keys, strict=True)
    keys = (Output(key.name, rows.column(stored).value) for key, stored in pairs)
    slots = (Output(slot.name, slot.column.value) for slot in merge.slots)
    return Project(rows, (*keys, *slots, *(null_of(slot.left) for slot in merge.extremes)))


def _additions(change: Relation, merge: _Merge) -> Relation:
    weight = Column(WEIGHT, "bigint").value
    pairs = zip(merge.state_keys, merge.keys, strict=True)
    keys = (Output(hidden.name, change.column(key).value) for hidden, key in pairs)
    slots = (Output(slot.name, slot.addition(weight)) for slot in merge.slots)
    lefts = (Output(slot.left.name, slot.departure(weight)) for slot in merge.extremes)
    return Project(Weigh(change, WEIGHT), (*keys, *slots, *lefts))


def _lost(merged: Relation, merge: _Merge) -> Relation:
    """The groups in which a row that went may have held an extreme."""
    lost = expression(
        " OR ".join("{}" for _ in merge.extremes), "boolean", *(each.is_broken() for each in merge.extremes)
    )
    return Filter(merged, (lost,))


def _with_extremes(merged: Relation, merge: _Merge, child: Relation | None) -> Relation:
    """The state with its extremes settled: read again from `child` for the groups that lost one."""
    if child is None:
        return merged
    lost = _lost(merged, merge)
    fresh = _fresh_extremes(child, lost, merge)
    joined = Join(merged, fresh, JoinKind.LEFT, _same_keys(merge))
    outputs = [Output(key.name, key.value) for key in merge.state_keys]
    outputs += [Output(slot.name, _settled(slot) if slot.is_extreme else slot.column.value) for slot in merge.slots]
    return Project(joined, tuple(outputs))


def _fresh_extremes(child: Relation, lost: Relation, merge: _Merge) -> Relation:
    """The extremes of the groups that lost one, under names of their own."""
    if merge.keys:
        rows = at(child, merge.keys, key_set(lost, [key.value for key in merge.state_keys]))
    else:
        rows = Join(child, key_set(lost, [_count()]), JoinKind.SEMI, ())
    grouped = Aggregate(rows, merge.keys, tuple(slot.start() for slot in merge.extremes))
    pairs = zip(merge.state_keys, merge.keys, strict=True)
    keys = (Output(f"{FRESH}{hidden.name}", grouped.column(key).value) for hidden, key in pairs)
    slots = (Output(f"{FRESH}{slot.name}", slot.column.value) for slot in merge.extremes)
    return Project(grouped, (*keys, *slots))


def _same_keys(merge: _Merge) -> tuple[Expression, ...]:
    return tuple(
        equals(key.value, replace(key, name=f"{FRESH}{key.name}").value, null_safe=True) for key in merge.state_keys
    )


def _settled(slot: Slot) -> Expression:
    fresh = Column(f"{FRESH}{slot.name}", slot.type).value
    kept = slot.column.value
    return expression("CASE WHEN {} THEN {} ELSE {} END", slot.type, slot.is_broken(), fresh, kept)


def _rows_of_state(state: Relation, merge: _Merge) -> Relation:
    """The rows to store: the values readers see, computed from the state, and the state."""
    keys = (Output(key, hidden.value) for key, hidden in zip(merge.keys, merge.state_keys, strict=True))
    values = (Output(each.name, final_value(each, merge.slots)) for each in _aggregations(merge.core))
    carried = [Output(name, state.column(name).value) for name in merge.hidden]
    if not has_filter(merge.chain):
        return with_face(Project(state, (*keys, *values, *carried)), merge.chain, merge.hidden)
    flag = Output(FLAG, expression("true", "boolean"))
    return with_flagged_face(Project(state, (*keys, *values, *carried, flag)), merge.chain, merge.hidden)


def _aggregations(core: Aggregate | Distinct) -> Sequence[Aggregation]:
    return core.aggregations if isinstance(core, Aggregate) else ()


def _names(columns: Sequence[Column]) -> tuple[str, ...]:
    return tuple(each.name for each in columns)


def _count() -> Expression:
    return Column(COUNT, "bigint").value
