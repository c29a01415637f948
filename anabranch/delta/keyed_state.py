"""Keyed recompute against stored rows.

    d stored = G(R' at K) - (stored at K)      K = the keys that the change of R touches

What was there is read, not worked out again: the retraction is the stored row, and floating-point results need not be
repeatable. The keys are stored as hidden columns where readers do not see them.
"""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.relation import (
    Aggregate,
    Consolidate,
    Output,
    Project,
    Relation,
    TopK,
    Window,
)
from anabranch.delta.build import at, minus, touched_keys
from anabranch.delta.face import peel, shown_as, with_face
from anabranch.delta.parts import HIDDEN, Part, Strategy
from anabranch.delta.rules.keyed import group_keys
from anabranch.delta.versions import Versions, after

KEY = f"{HIDDEN}key_"


def keyed_part(name: str, relation: Relation) -> Part | None:
    """The part that keeps a relation by the keys of its groups; None where it has none."""
    core, chain = peel(relation)
    keys = group_keys(core)
    if not keys or not isinstance(core, Aggregate | Window | TopK):
        return None
    stored = tuple(shown_as(chain, relation.names, key) or f"{KEY}{number}" for number, key in enumerate(keys, start=1))
    columns = _rows(relation, stored, core.child).columns
    return Part(name, relation, columns, relation.names, None, Strategy.KEYED, stored)


def initial_keyed(part: Part) -> Relation:
    """All rows of the part, worked out from scratch."""
    core, _ = peel(part.relation)
    return _rows(part.relation, part.keys, after(core.children[0]))


def delta_of_keyed_part(part: Part, versions: Versions) -> Relation:
    """The change of the stored rows."""
    core, _ = peel(part.relation)
    keys, child = group_keys(core), core.children[0]
    touched = touched_keys(versions.change(child), keys)
    now = _rows(part.relation, part.keys, at(versions.after(child), keys, touched))
    return Consolidate(minus(now, at(part.stored, part.keys, touched)))


def _rows(relation: Relation, stored_keys: tuple[str, ...], child: Relation) -> Relation:
    """The relation over other rows of its core's input, with the keys that readers do not see beside it."""
    core, chain = peel(relation)
    assert isinstance(core, Aggregate | Window | TopK)
    rows: Relation = replace(core, child=child)
    pairs = zip(group_keys(core), stored_keys, strict=True)
    hidden = {stored: key for key, stored in pairs if stored.startswith(KEY)}
    if hidden:
        shown = tuple(Output(each.name, each.value) for each in rows.columns)
        carried = tuple(Output(stored, rows.column(key).value) for stored, key in hidden.items())
        rows = Project(rows, (*shown, *carried))
    return with_face(rows, chain, tuple(hidden))
