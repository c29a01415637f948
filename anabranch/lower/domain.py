"""The general method: evaluate a subquery for all enclosing rows at once (Neumann's unnesting).

    inner(o)  =  project (filter (P, D's columns <=> o))       D = distinct correlated columns of the enclosing rows
    P         =  D joined with inner, pushed down operator by operator until no operator reads o any more

Every operator of P carries D's columns and works per value of them: they are group keys of an aggregate, partition
columns of a window or a top-N, part of every row of a DISTINCT, of every branch of a union.
Plans that read nothing of the enclosing row are left alone and joined with D where one is needed. Every shared sub-plan
is pushed once. The price is that the enclosing rows are read twice, so `pull_up.py` is tried first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from anabranch.algebra.expression import Expression, expression
from anabranch.algebra.holes import map_expressions, outer_columns
from anabranch.algebra.relation import (
    Aggregate,
    Column,
    Distinct,
    Empty,
    Expand,
    Filter,
    Fixpoint,
    Generate,
    Join,
    JoinKind,
    Output,
    Project,
    Recursion,
    Relation,
    TableFunction,
    TopK,
    UnionAll,
    Values,
    Window,
    iterate,
)
from anabranch.lower.build import one_each, passing, pick, same_row
from anabranch.lower.empty_groups import with_empty_groups
from anabranch.lower.names import FreshNames
from anabranch.lower.window_text import partitioned


@dataclass(frozen=True)
class Domain:
    """The distinct values of the enclosing rows' columns that the subquery reads: `columns[name]` stands for `name`."""

    relation: Relation
    columns: dict[str, Column]

    def bind(self, each: Expression) -> Expression:
        """The expression reading the domain's columns instead of the enclosing row's."""
        return each.bind_outer({name: column.value for name, column in self.columns.items()})

    def matches(self, child: Relation, relation: Relation) -> tuple[Expression, ...]:
        """The rows of `relation`, which carries the domain's columns, that belong to a row of `child`."""
        return same_row((child.column(name) for name in self.columns), self.in_relation(relation))

    def in_relation(self, relation: Relation) -> tuple[Column, ...]:
        return tuple(relation.column(each.name) for each in self.columns.values())


def domain_of(child: Relation, bound: frozenset[str], names: FreshNames, *probe: Output) -> Domain:
    """The domain of a subquery that reads the columns `bound` of `child`; `probe` adds values to tell rows apart by."""
    read = [each for each in child.columns if each.name in bound]
    outputs = tuple(Output(names.take("outer"), each.value) for each in read)
    columns = {each.name: output.column for each, output in zip(read, outputs, strict=True)}
    return Domain(Distinct(Project(child, outputs + probe)), columns)


def push_down(inner: Relation, domain: Domain, names: FreshNames) -> Relation:
    """The subquery for all rows of the domain: its own columns and the domain's."""
    return _Pusher(domain, names).pushed(inner)


class _Pusher:
    """Pushes one domain into one subquery."""

    def __init__(self, domain: Domain, names: FreshNames) -> None:
        self.domain = domain
        self.names = names
        self.known: dict[Relation, Relation] = {}
        self.recursions: dict[str, str] = {}

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.domain.relation.columns

    @property
    def column_names(self) -> tuple[str, ...]:
        return self.domain.relation.names

    def is_correlated(self, relation: Relation) -> bool:
        if outer_columns(relation) & set(self.domain.columns):
            return True
        if not self.recursions:
            return False
        return any(isinstance(each, Recursion) and each.name in self.recursions for each in iterate(relation))

    def pushed(self, relation: Relation) -> Relation:
        """The relation with the domain's columns, in any order."""
        if relation not in self.known:
            if self.is_correlated(relation):
                self.known[relation] = _RULES[type(relation)](self, relation)
            else:
                self.known[relation] = one_each(relation, self.domain.relation)
        return self.known[relation]

    def in_order(self, relation: Relation) -> Relation:
        """The same with the relation's own columns first, then the domain's."""
        return pick(self.pushed(relation), relation.columns + self.columns)

    def bound(self, relation: Relation) -> Relation:
        """The operator reading the domain's columns; its input must have them."""
        return map_expressions(relation, self.domain.bind)

    def apart(self, relation: Relation) -> tuple[Relation, tuple[Column, ...]]:
        """The pushed relation with the domain's columns under other names, and these."""
        copies = {name: self.names.take("outer") for name in self.column_names}
        inner = self.pushed(relation)
        outputs = passing(relation.columns) + tuple(Output(copies[each.name], each.value) for each in self.columns)
        renaming = Project(inner, outputs)
        return renaming, tuple(renaming.column(name) for name in copies.values())


def _unary(pusher: _Pusher, relation: Filter | Generate) -> Relation:
    """Filter, Generate: the same on more columns."""
    return pusher.bound(replace(relation, child=pusher.pushed(relation.child)))


def _project(pusher: _Pusher, relation: Project) -> Relation:
    outputs = tuple(Output(each.name, pusher.domain.bind(each.value)) for each in relation.outputs)
    return Project(pusher.pushed(relation.child), outputs + passing(pusher.columns))


def _expand(pusher: _Pusher, relation: Expand) -> Relation:
    carried = tuple(each.value for each in pusher.columns)
    rows = tuple(tuple(pusher.domain.bind(each) for each in row) + carried for row in relation.projections)
    return Expand(pusher.pushed(relation.child), rows, relation.columns + pusher.columns)


def _union_all(pusher: _Pusher, relation: UnionAll) -> Relation:
    return UnionAll(tuple(pusher.in_order(each) for each in relation.inputs))


def _join(pusher: _Pusher, relation: Join) -> Relation:
    """The domain's columns come from the preserved side; a correlated other side must agree on them."""
    on = tuple(pusher.domain.bind(each) for each in relation.on)
    if relation.kind is JoinKind.FULL:
        return _full_join(pusher, relation, on)
    right_only = pusher.is_correlated(relation.right) and not pusher.is_correlated(relation.left)
    if relation.kind is JoinKind.INNER and right_only:
        return Join(relation.left, pusher.pushed(relation.right), JoinKind.INNER, on)
    left = pusher.pushed(relation.left)
    if not pusher.is_correlated(relation.right):
        return Join(left, relation.right, relation.kind, on)
    right, copies = pusher.apart(relation.right)
    joined = Join(left, right, relation.kind, same_row(pusher.columns, copies) + on)
    return pick(joined, relation.columns + pusher.columns)


def _full_join(pusher: _Pusher, relation: Join, on: tuple[Expression, ...]) -> Relation:
    left, (right, copies) = pusher.pushed(relation.left), pusher.apart(relation.right)
    joined = Join(left, right, JoinKind.FULL, same_row(pusher.columns, copies) + on)
    either = tuple(
        Output(mine.name, expression("coalesce({}, {})", mine.type, mine.value, copy.value))
        for mine, copy in zip(pusher.columns, copies, strict=True)
    )
    return Project(joined, passing(relation.columns) + either)


def _distinct(pusher: _Pusher, relation: Distinct) -> Relation:
    return Distinct(pusher.in_order(relation.child))


def _aggregate(pusher: _Pusher, relation: Aggregate) -> Relation:
    child = pusher.pushed(relation.child)
    own = pusher.bound(Aggregate(child, relation.keys, relation.aggregations))
    assert isinstance(own, Aggregate)
    grouped = replace(own, keys=relation.keys + pusher.column_names)
    if relation.keys:
        return grouped
    copies = tuple(Output(pusher.names.take("outer"), each.value) for each in pusher.columns)
    keyed = Project(grouped, copies + passing(each.column for each in own.aggregations))
    on = same_row(pusher.columns, (each.column for each in copies))
    return with_empty_groups(pusher.domain.relation, keyed, on, own, pusher.names)


def _window(pusher: _Pusher, relation: Window) -> Relation:
    calls = tuple(
        Output(each.name, partitioned(pusher.domain.bind(each.value), pusher.columns)) for each in relation.calls
    )
    return Window(pusher.pushed(relation.child), relation.partition + pusher.column_names, calls)


def _top_k(pusher: _Pusher, relation: TopK) -> Relation:
    return replace(relation, child=pusher.pushed(relation.child), partition=relation.partition + pusher.column_names)


def _values(pusher: _Pusher, relation: Values) -> Relation:
    rows = tuple(
        Project(
            pusher.domain.relation,
            tuple(
                Output(each.name, pusher.domain.bind(value)) for each, value in zip(relation.columns, row, strict=True)
            )
            + passing(pusher.columns),
        )
        for row in relation.rows
    )
    return UnionAll(rows) if rows else Empty(relation.columns + pusher.columns)


def _table_function(pusher: _Pusher, relation: TableFunction) -> Relation:
    return Generate(pusher.domain.relation, pusher.domain.bind(relation.call), False, relation.columns)


def _fixpoint(pusher: _Pusher, relation: Fixpoint) -> Relation:
    """The rounds carry the domain's columns too: every enclosing row recurses on its own."""
    name = pusher.names.take("rounds")
    anchor = pusher.in_order(relation.anchor)
    pusher.recursions[relation.name] = name
    return Fixpoint(name, anchor, pusher.in_order(relation.step))


def _recursion(pusher: _Pusher, relation: Recursion) -> Relation:
    return Recursion(pusher.recursions[relation.name], relation.columns + pusher.columns)


_RULES: dict[type[Relation], Callable[..., Relation]] = {
    Filter: _unary,
    Generate: _unary,
    Project: _project,
    Expand: _expand,
    UnionAll: _union_all,
    Join: _join,
    Distinct: _distinct,
    Aggregate: _aggregate,
    Window: _window,
    TopK: _top_k,
    Values: _values,
    TableFunction: _table_function,
    Fixpoint: _fixpoint,
    Recursion: _recursion,
}
