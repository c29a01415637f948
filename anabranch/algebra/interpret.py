"""The meaning of every operator, in plain Python: what a plan is *defined* to return.

    interpret : Relation x Environment -> Z-set        a Z-set maps each row (a tuple, in column order) to its weight

Everything else in the package (lowering, delta rules, the Spark renderer) is tested against this page; so it is written
to be read, not to be fast, and imports none of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from anabranch.algebra.evaluate import aggregate, all_true, generator, scalar, window
from anabranch.algebra.holes import is_closed
from anabranch.algebra.relation import (
    After,
    Aggregate,
    Apply,
    ApplyKind,
    Before,
    Change,
    Consolidate,
    Distinct,
    Empty,
    Expand,
    Filter,
    Fixpoint,
    Generate,
    Join,
    JoinKind,
    LateralJoin,
    Negate,
    Project,
    Recursion,
    Relation,
    Scan,
    SetKind,
    SetOperation,
    Stored,
    Support,
    TableFunction,
    TopK,
    UnionAll,
    Values,
    Weigh,
    Window,
)
from anabranch.algebra.values import EvaluationError, Row, Value, as_value, equal, group_key, order_key, sort_key

ZSet = dict[Row, int]

RECURSION_LIMIT = 100


@dataclass(frozen=True)
class Table:
    """Rows with weights under column names. A leaf of a plan picks its columns by name."""

    names: tuple[str, ...]
    rows: Mapping[Row, int]


@dataclass(frozen=True)
class Environment:
    """What the leaves of a plan stand for: tables by identity, parts by name."""

    tables: Mapping[str, Table] = field(default_factory=dict)
    before: Mapping[str, Table] = field(default_factory=dict)
    after: Mapping[str, Table] = field(default_factory=dict)
    change: Mapping[str, Table] = field(default_factory=dict)
    stored: Mapping[str, Table] = field(default_factory=dict)


def interpret(relation: Relation, environment: Environment) -> ZSet:
    """The rows of the relation with their weights; no weight is zero."""
    return _Scope(environment).rows(relation)


class NotABagError(Exception):
    """An operator that is defined on bags was given a row with a negative weight."""


class _Scope:
    """One evaluation: the enclosing query's row, the rounds of recursions, and what was worked out already.

    A plan that depends on neither is worked out once, in the outermost scope.
    """

    def __init__(self, environment: Environment, parent: _Scope | None = None) -> None:
        self.environment = environment
        self.outer: dict[str, Value] = {} if parent is None else dict(parent.outer)
        self.rounds: dict[str, ZSet] = {} if parent is None else dict(parent.rounds)
        self.outermost: _Scope = self if parent is None else parent.outermost
        self.known: dict[Relation, ZSet] = {}

    def rows(self, relation: Relation) -> ZSet:
        """The Z-set of the relation in this scope."""
        scope = self.outermost if is_closed(relation) else self
        found = scope.known.get(relation)
        if found is None:
            found = scope.known[relation] = _RULES[type(relation)](relation, scope)
        return found

    def bag(self, relation: Relation) -> ZSet:
        """The same, for an operator that is defined on bags only."""
        found = self.rows(relation)
        if any(weight < 0 for weight in found.values()):
            raise NotABagError(f"{type(relation).__name__} yields negative weights: {found}")
        return found

    def bound_to(self, names: tuple[str, ...], row: Row) -> _Scope:
        """A scope for a sub-plan that is evaluated for this row."""
        inner = _Scope(self.environment, self)
        inner.outer.update(zip(names, row, strict=True))
        return inner

    def in_round(self, name: str, rows: ZSet) -> _Scope:
        """A scope for one more round of a recursion."""
        inner = _Scope(self.environment, self)
        inner.rounds[name] = rows
        return inner


def total(terms: Iterable[tuple[Row, int]]) -> ZSet:
    """The sum of weighted rows, without the rows that cancel."""
    weights: ZSet = defaultdict(int)
    for row, weight in terms:
        weights[row] += weight
    return {row: weight for row, weight in weights.items() if weight}


def _leaf(relation: Scan | Before | After | Change, scope: _Scope) -> ZSet:
    environment = scope.environment
    tables = {
        Scan: environment.tables,
        Before: environment.before,
        After: environment.after,
        Change: environment.change,
    }
    return _columns_of(tables[type(relation)][relation.table], relation)


def _stored(relation: Stored, scope: _Scope) -> ZSet:
    return _columns_of(scope.environment.stored[relation.part], relation)


def _columns_of(table: Table, leaf: Relation) -> ZSet:
    places = [table.names.index(name) for name in leaf.names]
    return total((tuple(as_value(row[place]) for place in places), weight) for row, weight in table.rows.items())


def _empty(relation: Empty, scope: _Scope) -> ZSet:
    return {}


def _values(relation: Values, scope: _Scope) -> ZSet:
    return total((tuple(scalar(each, ())((), scope.outer) for each in row), 1) for row in relation.rows)


def _table_function(relation: TableFunction, scope: _Scope) -> ZSet:
    return total((row, 1) for row in generator(relation.call, ())((), scope.outer))


def _recursion(relation: Recursion, scope: _Scope) -> ZSet:
    return scope.rounds[relation.name]


def _filter(relation: Filter, scope: _Scope) -> ZSet:
    kept = all_true(relation.predicates, relation.child.names)
    return {row: weight for row, weight in scope.rows(relation.child).items() if kept(row, scope.outer)}


def _project(relation: Project, scope: _Scope) -> ZSet:
    values = [scalar(each.value, relation.child.names) for each in relation.outputs]
    rows = scope.rows(relation.child).items()
    return total((tuple(value(row, scope.outer) for value in values), weight) for row, weight in rows)


def _union_all(relation: UnionAll, scope: _Scope) -> ZSet:
    return total(term for each in relation.inputs for term in scope.rows(each).items())


def _negate(relation: Negate, scope: _Scope) -> ZSet:
    return {row: -weight for row, weight in scope.rows(relation.child).items()}


def _expand(relation: Expand, scope: _Scope) -> ZSet:
    projections = [[scalar(each, relation.child.names) for each in row] for row in relation.projections]
    return total(
        (tuple(value(row, scope.outer) for value in projection), weight)
        for row, weight in scope.rows(relation.child).items()
        for projection in projections
    )


def _generate(relation: Generate, scope: _Scope) -> ZSet:
    rows_of = generator(relation.generator, relation.child.names)
    padding = [(None,) * len(relation.generated)] if relation.outer else []
    return total(
        (row + made, weight)
        for row, weight in scope.rows(relation.child).items()
        for made in rows_of(row, scope.outer) or padding
    )


def _join(relation: Join, scope: _Scope) -> ZSet:
    """A pair has the product of the weights. A row kept for having a partner, or for having none, keeps its own."""
    kind = relation.kind
    left = scope.bag(relation.left) if kind is JoinKind.FULL else scope.rows(relation.left)
    right = scope.rows(relation.right) if kind is JoinKind.INNER else scope.bag(relation.right)
    matches = all_true(relation.on, relation.left.names + relation.right.names)
    partners = {row: [other for other in right if matches(row + other, scope.outer)] for row in left}
    if kind is JoinKind.SEMI:
        return {row: weight for row, weight in left.items() if partners[row]}
    if kind is JoinKind.ANTI:
        return {row: weight for row, weight in left.items() if not partners[row]}
    terms = [(row + other, left[row] * right[other]) for row in left for other in partners[row]]
    if kind in (JoinKind.LEFT, JoinKind.FULL):
        padding = (None,) * len(relation.right.columns)
        terms += [(row + padding, left[row]) for row in left if not partners[row]]
    if kind is JoinKind.FULL:
        padding = (None,) * len(relation.left.columns)
        found = {other for row in left for other in partners[row]}
        terms += [(padding + other, right[other]) for other in right if other not in found]
    return total(terms)


def _distinct(relation: Distinct, scope: _Scope) -> ZSet:
    return {group_key(row): 1 for row in scope.bag(relation.child)}


def _aggregate(relation: Aggregate, scope: _Scope) -> ZSet:
    names = relation.child.names
    places = [names.index(key) for key in relation.keys]
    groups: dict[Row, list[tuple[Row, int]]] = {} if places else {(): []}
    for row, weight in scope.bag(relation.child).items():
        groups.setdefault(tuple(group_key(row[place]) for place in places), []).append((row, weight))
    calls = [aggregate(each.call, names) for each in relation.aggregations]
    return {key + tuple(call(group, scope.outer) for call in calls): 1 for key, group in groups.items()}


def _window(relation: Window, scope: _Scope) -> ZSet:
    rows = _sorted_copies(scope.bag(relation.child))
    calls = [window(each.value, relation.child.names)(rows, scope.outer) for each in relation.calls]
    return total((row + tuple(call[place] for call in calls), 1) for place, row in enumerate(rows))


def _sorted_copies(bag: ZSet) -> list[Row]:
    """Every copy of every row, in an order that depends on the rows alone."""
    return [row for row in sorted(bag, key=order_key) for _ in range(bag[row])]


def _top_k(relation: TopK, scope: _Scope) -> ZSet:
    names = relation.child.names
    order = [(names.index(key.name), key.descending, key.nulls_first) for key in relation.order]
    rows = _sorted_copies(scope.bag(relation.child))
    rows.sort(key=lambda row: tuple(sort_key(row[place], down, nulls_first) for place, down, nulls_first in order))
    places = [names.index(name) for name in relation.partition]
    groups: dict[Row, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(group_key(row[place]) for place in places), []).append(row)
    end = None if relation.limit is None else relation.offset + relation.limit
    return total((row, 1) for group in groups.values() for row in group[relation.offset : end])


def _fixpoint(relation: Fixpoint, scope: _Scope) -> ZSet:
    found = latest = scope.bag(relation.anchor)
    for _ in range(RECURSION_LIMIT):
        latest = scope.in_round(relation.name, latest).bag(relation.step)
        if not latest:
            return found
        found = total([*found.items(), *latest.items()])
    raise EvaluationError("RECURSION_LEVEL_LIMIT_EXCEEDED")


def _set_operation(relation: SetOperation, scope: _Scope) -> ZSet:
    left = total((group_key(row), weight) for row, weight in scope.bag(relation.left).items())
    right = total((group_key(row), weight) for row, weight in scope.bag(relation.right).items())
    match relation.kind, relation.all:
        case SetKind.INTERSECT, True:
            return total((row, min(weight, right.get(row, 0))) for row, weight in left.items())
        case SetKind.EXCEPT, True:
            return total((row, max(weight - right.get(row, 0), 0)) for row, weight in left.items())
        case SetKind.INTERSECT, False:
            return {row: 1 for row in left if row in right}
    return {row: 1 for row in left if row not in right}


def _apply(relation: Apply, scope: _Scope) -> ZSet:
    names = relation.child.names
    probe = [scalar(each, names) for each in relation.probe]

    def value(row: Row) -> Value:
        inner = scope.bound_to(names, row).bag(relation.inner)
        if relation.kind is ApplyKind.SCALAR:
            return _only_value(inner)
        if relation.kind is ApplyKind.EXISTS:
            return bool(inner)
        return _contains(inner, tuple(each(row, scope.outer) for each in probe))

    return {(*row, value(row)): weight for row, weight in scope.bag(relation.child).items()}


def _only_value(inner: ZSet) -> Value:
    if sum(inner.values()) > 1:
        raise EvaluationError("SCALAR_SUBQUERY_TOO_MANY_ROWS")
    return next((row[0] for row in inner), None)


def _contains(inner: ZSet, probe: Row) -> bool | None:
    """`probe IN inner`: true for some row, else NULL for some row, else false; a row is compared column by column."""
    outcomes = set()
    for row in inner:
        columns = [equal(mine, theirs) for mine, theirs in zip(probe, row, strict=True)]
        outcomes.add(False if False in columns else (None if None in columns else True))
    return True if True in outcomes else (None if None in outcomes else False)


def _lateral_join(relation: LateralJoin, scope: _Scope) -> ZSet:
    matches = all_true(relation.on, relation.left.names + relation.right.names)
    padding = (None,) * len(relation.right.columns)
    terms: list[tuple[Row, int]] = []
    for row, weight in scope.bag(relation.left).items():
        right = scope.bound_to(relation.left.names, row).bag(relation.right)
        pairs = [(row + other, weight * copies) for other, copies in right.items() if matches(row + other, scope.outer)]
        if not pairs and relation.kind is JoinKind.LEFT:
            pairs = [(row + padding, weight)]
        terms += pairs
    return total(terms)


def _consolidate(relation: Consolidate, scope: _Scope) -> ZSet:
    return scope.rows(relation.child)


def _support(relation: Support, scope: _Scope) -> ZSet:
    return dict.fromkeys(scope.rows(relation.child), 1)


def _weigh(relation: Weigh, scope: _Scope) -> ZSet:
    return {(*row, weight): 1 for row, weight in scope.rows(relation.child).items()}


_RULES: dict[type[Relation], Callable[..., ZSet]] = {
    Scan: _leaf,
    Before: _leaf,
    After: _leaf,
    Change: _leaf,
    Stored: _stored,
    Empty: _empty,
    Values: _values,
    TableFunction: _table_function,
    Recursion: _recursion,
    Filter: _filter,
    Project: _project,
    UnionAll: _union_all,
    Negate: _negate,
    Expand: _expand,
    Generate: _generate,
    Join: _join,
    Distinct: _distinct,
    Aggregate: _aggregate,
    Window: _window,
    TopK: _top_k,
    Fixpoint: _fixpoint,
    SetOperation: _set_operation,
    Apply: _apply,
    LateralJoin: _lateral_join,
    Consolidate: _consolidate,
    Support: _support,
    Weigh: _weigh,
}
