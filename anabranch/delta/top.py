"""Top-N: keep the best rows and some more, and let them move with the change.

    kept     = the rows of R not worse than the edge          edge = a row, stored; none: all rows are kept
    kept'    = kept + the rows of dR not worse than the edge  linear, so inserts and deletes just add up
    visible  = the kept rows at positions offset + 1 .. offset + limit

While kept' holds offset + limit rows, or there is no edge, it holds all rows that can be visible. Otherwise it is
filled again from R': the best rows up to a new edge. The edge is the worst row at the last filling, not the worst row
that is left: rows between the two may exist that are not kept. All copies of the edge are kept, so that a copy that
goes is one that was there. Too many kept rows move the edge up; that reads nothing.
Example: limit 1, kept {1, 2}, edge 2, R = {1, 2, 3, 4}; dR = {1: -1, 3: -1, 2: +1} gives kept {2, 2}, visible {2}.
"""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.algebra.expression import Expression, expression
from anabranch.algebra.relation import (
    RESERVED_PREFIX,
    Column,
    Consolidate,
    Filter,
    Join,
    JoinKind,
    Output,
    Project,
    Relation,
    SortKey,
    TopK,
    UnionAll,
    Window,
)
from anabranch.delta.build import minus
from anabranch.delta.face import Chain, peel, shown_as, with_flagged_face
from anabranch.delta.parts import FLAG, HIDDEN, Part, Strategy
from anabranch.delta.versions import Versions, after

EDGE = f"{RESERVED_PREFIX}edge"
CORE = f"{HIDDEN}value_"
BOUND = f"{RESERVED_PREFIX}bound_"
POSITION = f"{RESERVED_PREFIX}top_position"
STANDING = f"{RESERVED_PREFIX}top_standing"
TOTAL = f"{RESERVED_PREFIX}top_total"
SPARE_ROWS = 64
"""At a filling this many rows, and at least as many again as are visible, are kept beyond the visible ones."""


@dataclass(frozen=True)
class _Top:
    core: TopK
    chain: Chain
    visible: tuple[str, ...]

    @property
    def needed(self) -> int:
        """Rows that decide what is visible."""
        assert self.core.limit is not None
        return self.core.offset + self.core.limit

    @property
    def filled(self) -> int:
        """Rows kept at a filling."""
        return self.needed + max(self.needed, SPARE_ROWS)

    @property
    def stored_as(self) -> dict[str, str]:
        """For each column of the core, the stored column that holds it."""
        return {
            name: shown_as(self.chain, self.visible, name) or f"{CORE}{number}"
            for number, name in enumerate(self.core.names, start=1)
        }

    @property
    def hidden(self) -> tuple[str, ...]:
        return (*(name for name in self.stored_as.values() if name.startswith(CORE)), EDGE)


def top_part(name: str, relation: Relation) -> Part | None:
    """The part that keeps the best rows of a relation; None where it is not a top-N over all rows."""
    top = _top_of(relation)
    if top is None:
        return None
    rows = _rows(_filled(after(top.core.child), top), top)
    return Part(name, relation, rows.columns, relation.names, FLAG, Strategy.TOP)


def initial_top(part: Part) -> Relation:
    """All rows to keep, worked out from scratch."""
    top = _known_top(part)
    return _rows(_filled(after(top.core.child), top), top)


def delta_of_top(part: Part, versions: Versions) -> Relation:
    """The change of the stored rows, filled again where too few are left."""
    top = _known_top(part)
    moved = _moved(part, top, versions)
    short = _short(part, top, moved)
    going_on = Join(_going_on(part, top, moved), short, JoinKind.ANTI, ())
    filled = Join(_filled(versions.after(top.core.child), top), short, JoinKind.SEMI, ())
    return Consolidate(minus(_rows(UnionAll((going_on, filled)), top), part.stored))


def delta_unless_short(part: Part, versions: Versions) -> tuple[Relation, Relation]:
    """A change that does not fill again, and a relation that has a row where it should have."""
    top = _known_top(part)
    moved = _moved(part, top, versions)
    change = Consolidate(minus(_rows(_going_on(part, top, moved), top), part.stored))
    return change, _short(part, top, moved)


def _known_top(part: Part) -> _Top:
    top = _top_of(part.relation)
    assert top is not None
    return top


def _top_of(relation: Relation) -> _Top | None:
    core, chain = peel(relation)
    if not isinstance(core, TopK) or core.partition or core.limit is None:
        return None
    return _Top(core, chain, relation.names)


def _moved(part: Part, top: _Top, versions: Versions) -> Relation:
    """kept': the core's rows, kept before and now not worse than the edge, with their positions."""
    kept = _core_rows(_stored(part, edge=False), top)
    edge = _bounds(_core_rows(_stored(part, edge=True), top), top)
    came_and_went = Join(versions.change(top.core.child), edge, JoinKind.ANTI, (_is_worse(top),))
    return _placed(Consolidate(UnionAll((kept, came_and_went))), top)


def _stored(part: Part, edge: bool) -> Relation:
    return Filter(part.stored, (expression("{}" if edge else "NOT {}", "boolean", Column(EDGE, "boolean").value),))


def _core_rows(stored: Relation, top: _Top) -> Relation:
    return Project(
        stored, tuple(Output(name, stored.column(stored_name).value) for name, stored_name in top.stored_as.items())
    )


def _placed(rows: Relation, top: _Top) -> Relation:
    """Rows with their position in the order, their standing (ties stand alike) and how many rows there are."""
    order = ", ".join(f"{{}} {_direction(key)}" for key in top.core.order)
    keys = [rows.column(key.name).value for key in top.core.order]
    return Window(
        rows,
        (),
        (
            Output(POSITION, expression(f"row_number() OVER (ORDER BY {order})", "int", *keys)),
            Output(STANDING, expression(f"rank() OVER (ORDER BY {order})", "int", *keys)),
            Output(TOTAL, expression("count(*) OVER ()", "bigint")),
        ),
    )


def _going_on(part: Part, top: _Top, moved: Relation) -> Relation:
    """Kept rows and edge without filling again: as they are or, where they became too many, up to a better edge."""
    many = expression(f"{{}} > {2 * top.filled}", "boolean", _total())
    kept = Filter(moved, (expression(f"NOT {{}} OR {{}} <= {top.filled}", "boolean", many, _standing()),))
    better_edge = Filter(moved, (many, expression(f"{{}} = {top.filled}", "boolean", _position())))
    trimmed = Filter(moved, (many,))
    old_edge = Join(_core_rows(_stored(part, edge=True), top), _bounds(trimmed, top), JoinKind.ANTI, ())
    return UnionAll((_marked(kept, top, edge=False), _marked(better_edge, top, edge=True), _as_edge(old_edge, top)))


def _short(part: Part, top: _Top, moved: Relation) -> Relation:
    """The edge, where fewer rows than are needed are kept in front of it."""
    enough = Filter(moved, (expression(f"{{}} >= {top.needed}", "boolean", _total()),))
    edge = _bounds(_core_rows(_stored(part, edge=True), top), top)
    return Join(edge, _position_only(enough), JoinKind.ANTI, ())


def _position_only(rows: Relation) -> Relation:
    return Project(rows, (Output(f"{POSITION}_seen", _position()),))


def _filled(child: Relation, top: _Top) -> Relation:
    """The best rows and the edge, from all rows: up to the row at the last place, copies of it included."""
    best = _placed(TopK(child, top.core.order, top.filled), top)
    last = Filter(best, (expression(f"{{}} = {top.filled}", "boolean", _position()),))
    kept = Join(child, _bounds(last, top), JoinKind.ANTI, (_is_worse(top),))
    return UnionAll((_marked(_placed(kept, top), top, edge=False), _marked(last, top, edge=True)))


def _marked(placed: Relation, top: _Top, edge: bool) -> Relation:
    """The core's columns, whether the row is the edge, and whether its position is visible."""
    shown = f"{{}} > {top.core.offset} AND {{}} <= {top.needed}" if not edge else "false"
    arguments = () if edge else (_position(), _position())
    return Project(
        placed, (*_core_outputs(placed, top), _is_edge(edge), Output(FLAG, expression(shown, "boolean", *arguments)))
    )


def _as_edge(rows: Relation, top: _Top) -> Relation:
    return Project(rows, (*_core_outputs(rows, top), _is_edge(True), Output(FLAG, expression("false", "boolean"))))


def _core_outputs(rows: Relation, top: _Top) -> tuple[Output, ...]:
    return tuple(Output(name, rows.column(name).value) for name in top.core.names)


def _is_edge(edge: bool) -> Output:
    return Output(EDGE, expression("true" if edge else "false", "boolean"))


def _rows(kept: Relation, top: _Top) -> Relation:
    """The rows to store: what readers see of them, and the core's columns."""
    hidden = [(stored, name) for name, stored in top.stored_as.items() if stored.startswith(CORE)]
    carried = tuple(Output(stored, kept.column(name).value) for stored, name in hidden)
    flags = (Output(EDGE, kept.column(EDGE).value), Output(FLAG, kept.column(FLAG).value))
    rows = Project(kept, (*_core_outputs(kept, top), *carried, *flags))
    return with_flagged_face(rows, top.chain, top.hidden)


def _bounds(rows: Relation, top: _Top) -> Relation:
    """The order columns under names of their own."""
    names = dict.fromkeys(key.name for key in top.core.order)
    return Project(
        rows, tuple(Output(f"{BOUND}{number}", rows.column(name).value) for number, name in enumerate(names))
    )


def _is_worse(top: _Top) -> Expression:
    """Whether a row comes after the bound in the order."""
    names = list(dict.fromkeys(key.name for key in top.core.order))
    pairs = [(key, top.core.child.column(key.name).value, f"{BOUND}{names.index(key.name)}") for key in top.core.order]
    worse: Expression | None = None
    for key, value, bound_name in reversed(pairs):
        bound = Column(bound_name, value.type).value
        here = _comes_after(key, value, bound)
        worse = here if worse is None else expression("{} OR ({} <=> {} AND {})", "boolean", here, value, bound, worse)
    assert worse is not None
    return worse


def _comes_after(key: SortKey, value: Expression, bound: Expression) -> Expression:
    nulls = "{} IS NOT NULL AND {} IS NULL" if key.nulls_first else "{} IS NULL AND {} IS NOT NULL"
    compare = "<" if key.descending else ">"
    return expression(
        f"CASE WHEN {{}} IS NULL OR {{}} IS NULL THEN {nulls} ELSE {{}} {compare} {{}} END",
        "boolean",
        *(value, bound) * 3,
    )


def _direction(key: SortKey) -> str:
    return f"{'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _position() -> Expression:
    return Column(POSITION, "int").value


def _standing() -> Expression:
    return Column(STANDING, "int").value


def _total() -> Expression:
    return Column(TOTAL, "bigint").value
