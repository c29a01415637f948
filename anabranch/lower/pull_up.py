"""Pull the correlated conditions of a subquery up to its top.

    inner(o)  =  project (filter (R, C(o)))     R reads nothing of the enclosing row o; C: conditions on R's row and o

Then the subquery is a join of the enclosing query with R on C, and the enclosing query is read once. Any condition
passes Filter, Project, Generate, Expand and the inner side of joins. Through Aggregate, Distinct, Window and TopK only
equalities pass: with `inner side = outer side` the inner side becomes one more group (or partition) column, and the
groups of one enclosing row are exactly those with its value.
Where this does not work (a condition below a UNION, inside an aggregate's argument, ...) the result is None, and the
general method of `domain.py` takes over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from anabranch.algebra.expression import Expression, column
from anabranch.algebra.holes import expressions, outer_columns
from anabranch.algebra.relation import (
    Aggregate,
    Column,
    Distinct,
    Expand,
    Filter,
    Generate,
    Join,
    JoinKind,
    Output,
    Project,
    Relation,
    TopK,
    Window,
)
from anabranch.lower.build import filtered
from anabranch.lower.keys import conditions_on, keys_of, with_key_columns
from anabranch.lower.names import FreshNames
from anabranch.lower.window_text import partitioned


@dataclass(frozen=True)
class Pulled:
    """A sub-plan without the enclosing row, and the conditions on it. It has at least the original's columns."""

    relation: Relation
    conditions: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class _Context:
    """The enclosing row's columns, a source of names, and what was pulled up already: sub-plans may be shared."""

    bound: frozenset[str]
    names: FreshNames
    known: dict[Relation, Pulled | None] = field(default_factory=dict)


def pull_up(inner: Relation, bound: frozenset[str], names: FreshNames) -> Pulled | None:
    """Free the plan of the enclosing row's columns `bound`, or None where only the general method can."""
    return _pull_up(inner, _Context(bound, names))


def _pull_up(inner: Relation, context: _Context) -> Pulled | None:
    if not outer_columns(inner) & context.bound:
        return Pulled(inner)
    if inner not in context.known:
        rule = _RULES.get(type(inner))
        context.known[inner] = None if rule is None else rule(inner, context)
    return context.known[inner]


def _correlated(expression: Expression, context: _Context) -> bool:
    return bool(expression.outer_columns & context.bound)


def _filter(inner: Filter, context: _Context) -> Pulled | None:
    child = _pull_up(inner.child, context)
    if child is None:
        return None
    own = tuple(each for each in inner.predicates if not _correlated(each, context))
    correlated = tuple(each for each in inner.predicates if _correlated(each, context))
    return Pulled(filtered(child.relation, own), child.conditions + correlated)


def _project(inner: Project, context: _Context) -> Pulled | None:
    """The columns that the conditions read are carried along, under new names where they are not among the outputs."""
    child = _pull_up(inner.child, context)
    if child is None or any(_correlated(each.value, context) for each in inner.outputs):
        return None
    carried = _carry(child, {each.value: each.name for each in reversed(inner.outputs)}, context.names)
    added = tuple(Output(name, value) for value, name in carried.added)
    return Pulled(Project(child.relation, inner.outputs + added), carried.conditions)


@dataclass(frozen=True)
class _Carried:
    added: tuple[tuple[Expression, str], ...]
    conditions: tuple[Expression, ...]


def _carry(child: Pulled, present: dict[Expression, str], names: FreshNames) -> _Carried:
    """The conditions on the columns of a projection; `present` are the values it has already, under which names."""
    read = sorted(frozenset().union(*(each.columns for each in child.conditions)))
    values = {name: child.relation.column(name).value for name in read}
    added = {value: names.take("carried") for value in values.values() if value not in present}
    place = {**present, **added}
    moved = {name: column(place[value], value.type) for name, value in values.items()}
    return _Carried(tuple(added.items()), tuple(each.substitute(moved) for each in child.conditions))


def _expand(inner: Expand, context: _Context) -> Pulled | None:
    child = _pull_up(inner.child, context)
    if child is None or _reads(inner, context):
        return None
    carried = _carry(child, {}, context.names)
    values = tuple(value for value, _ in carried.added)
    columns = tuple(Column(name, value.type) for value, name in carried.added)
    rows = tuple(row + values for row in inner.projections)
    return Pulled(Expand(child.relation, rows, inner.columns + columns), carried.conditions)


def _generate(inner: Generate, context: _Context) -> Pulled | None:
    child = _pull_up(inner.child, context)
    if child is None or _reads(inner, context):
        return None
    return Pulled(replace(inner, child=child.relation), child.conditions)


def _reads(relation: Relation, context: _Context) -> bool:
    return any(_correlated(each, context) for each in expressions(relation))


def _join(inner: Join, context: _Context) -> Pulled | None:
    """From both sides of an inner join and out of its ON; of other joins only from the preserved side."""
    if inner.kind is JoinKind.FULL:
        return None
    is_inner = inner.kind is JoinKind.INNER
    if not is_inner and (_reads(inner, context) or outer_columns(inner.right) & context.bound):
        return None
    left = _pull_up(inner.left, context)
    right = _pull_up(inner.right, context)
    if left is None or right is None:
        return None
    own = tuple(each for each in inner.on if not _correlated(each, context))
    correlated = tuple(each for each in inner.on if _correlated(each, context))
    joined = Join(left.relation, right.relation, inner.kind, own)
    return Pulled(joined, left.conditions + right.conditions + correlated)


def _grouped(inner: Relation, child: Relation, context: _Context, build: Callable[..., Relation]) -> Pulled | None:
    """An operator on groups: `build` makes it over another input with more group columns."""
    pulled = _pull_up(child, context)
    if pulled is None or _reads(inner, context):
        return None
    keys = keys_of(pulled.conditions, context.bound)
    if keys is None:
        return None
    keyed, columns = with_key_columns(pulled.relation, keys, context.names)
    relation = build(keyed, columns)
    return Pulled(relation, conditions_on(relation, keys, columns))


def _aggregate(inner: Aggregate, context: _Context) -> Pulled | None:
    """A global aggregate has a row even for no input, so it has no group to be: see `empty_groups.py`."""
    if not inner.keys:
        return None
    return _grouped(
        inner, inner.child, context,
        lambda child, columns: replace(inner, child=child, keys=_merged(inner.keys, columns)),
    )  # fmt: skip


def _distinct(inner: Distinct, context: _Context) -> Pulled | None:
    def build(child: Relation, columns: list[str]) -> Relation:
        kept = [child.column(name) for name in _merged(inner.names, columns)]
        return Distinct(Project(child, tuple(Output(each.name, each.value) for each in kept)))

    return _grouped(inner, inner.child, context, build)


def _window(inner: Window, context: _Context) -> Pulled | None:
    def build(child: Relation, columns: list[str]) -> Relation:
        added = [child.column(name) for name in dict.fromkeys(columns)]
        calls = tuple(Output(each.name, partitioned(each.value, added)) for each in inner.calls)
        return Window(child, _merged(inner.partition, columns), calls)

    return _grouped(inner, inner.child, context, build)


def _top_k(inner: TopK, context: _Context) -> Pulled | None:
    return _grouped(
        inner, inner.child, context,
        lambda child, columns: replace(inner, child=child, partition=_merged(inner.partition, columns)),
    )  # fmt: skip


def _merged(first: tuple[str, ...], second: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


_RULES: dict[type[Relation], Callable[..., Pulled | None]] = {
    Filter: _filter,
    Project: _project,
    Expand: _expand,
    Generate: _generate,
    Join: _join,
    Aggregate: _aggregate,
    Distinct: _distinct,
    Window: _window,
    TopK: _top_k,
}
