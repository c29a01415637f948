"""Random plans, seeded.

`random_relation(rng, surface)` makes a plan, `random_tables(rng)` what its Scans read, `random_change(rng, tables)` a
change that leaves a bag, and `tick(tables, change)` the environment of a delta plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from anabranch.algebra.expression import Expression, Outer, equals, expression, negated
from anabranch.algebra.relation import (
    Aggregate,
    Aggregation,
    Apply,
    ApplyKind,
    Column,
    Distinct,
    Empty,
    Expand,
    Filter,
    Fixpoint,
    Generate,
    Join,
    JoinKind,
    LateralJoin,
    Output,
    Project,
    Recursion,
    Relation,
    Scan,
    SetKind,
    SetOperation,
    SortKey,
    TableFunction,
    TopK,
    UnionAll,
    Values,
    Window,
)
from tests.tables import BIGINT, BOOLEAN, STRING, TABLES, plus, random_change, random_tables, tick

__all__ = ["aggregation", "outer", "plus", "random_change", "random_relation", "random_tables", "tick"]

LITERALS = {
    BIGINT: ("0L", "0L", "1L", "1L", "1L", "2L", "2L", "CAST(NULL AS BIGINT)"),
    STRING: ("'x'", "'y'"),
    BOOLEAN: ("true", "true", "false", "CAST(NULL AS BOOLEAN)"),
}


def random_relation(rng: Random, surface: bool, depth: int = 3) -> Relation:
    """A plan of the kernel; with `surface` also set operations, subqueries and lateral joins, correlated or not."""
    return _Maker(rng, surface).relation(depth)


def aggregation(
    name: str,
    function: str,
    argument: Expression | None,
    type: str,
    distinct: bool = False,
    filter: Expression | None = None,
) -> Aggregation:
    """`function([DISTINCT] argument) [FILTER (WHERE filter)]`, and `function(*)` without an argument."""
    template = f"{function.upper()}({'DISTINCT ' if distinct else ''}{{}})"
    arguments: list[Expression | str] = ["*" if argument is None else argument]
    if filter is not None:
        template += " FILTER (WHERE {})"
        arguments.append(filter)
    call = expression(template, type, *arguments)
    return Aggregation(name, function, () if argument is None else (argument,), call, distinct, filter)


def outer(column: Column) -> Expression:
    """The column of the enclosing query's row."""
    return Expression((Outer(column.name),), column.type)


class _Maker:
    """Makes one plan; every column above a Scan gets a name of its own."""

    def __init__(self, rng: Random, surface: bool) -> None:
        self.rng = rng
        self.surface = surface
        self.names = 0
        self.scope: list[Column] = []
        self.shared: list[Relation] = []

    def fresh(self) -> str:
        self.names += 1
        return f"c{self.names}"

    def relation(self, depth: int) -> Relation:
        if depth <= 0:
            return self.leaf()
        makers: list[Callable[[int], Relation]] = [
            self.filter, self.filter, self.project, self.join, self.join, self.join, self.union, self.distinct,
            self.aggregate, self.aggregate, self.window, self.top_k, self.generate, self.expand, self.again,
            self.fixpoint,
        ]  # fmt: skip
        if self.surface:
            makers += [self.set_operation, self.subquery, self.subquery, self.subquery, self.subquery, self.lateral]
        made = self.rng.choice(makers)(depth)
        if not self.scope:
            self.shared.append(made)
        return made

    # ---- leaves

    def leaf(self) -> Relation:
        choice = self.rng.random()
        if choice < 0.9:
            table = self.rng.choice(sorted(TABLES))
            return self.renamed(Scan(table, TABLES[table]))
        if choice < 0.97:
            return self.values()
        if choice < 0.99:
            return TableFunction(expression("range(3)", BIGINT), (Column(self.fresh(), BIGINT),))
        return Empty((Column(self.fresh(), BIGINT),))

    def values(self) -> Relation:
        columns = tuple(Column(self.fresh(), self.rng.choice((BIGINT, STRING))) for _ in range(self.rng.randint(1, 2)))
        rows = tuple(
            tuple(self.value([], each.type, 0) for each in columns) for _ in range(self.rng.choice((1, 1, 2, 3)))
        )
        return Values(rows, columns)

    def renamed(self, relation: Relation) -> Relation:
        return Project(relation, tuple(Output(self.fresh(), each.value) for each in relation.columns))

    def again(self, depth: int) -> Relation:
        """A plan made before, used once more under other names."""
        return self.renamed(self.rng.choice(self.shared)) if self.shared else self.relation(depth - 1)

    # ---- expressions

    def value(self, columns: list[Column], type: str, depth: int = 1) -> Expression:
        """An expression of the type over the columns and, inside a subquery, over the enclosing query's."""
        inner = [each.value for each in columns if each.type == type]
        enclosing = [outer(each) for each in self.scope if each.type == type]
        choice = self.rng.random()
        if enclosing and choice < 0.2:
            return self.rng.choice(enclosing)
        if inner and choice < 0.8:
            return self.rng.choice(inner)
        if depth > 0 and type == BIGINT:
            return expression(
                self.rng.choice(("{} + {}", "{} - {}", "coalesce({}, {})", "nullif({}, {})", "least({}, {})")), BIGINT,
                self.value(columns, type, 0), self.value(columns, type, 0),
            )  # fmt: skip
        if depth > 0 and type == BOOLEAN:
            return self.condition(columns)
        return expression(self.rng.choice(LITERALS[type]), type)

    def condition(self, columns: list[Column]) -> Expression:
        type = self.rng.choice((BIGINT, BIGINT, STRING))
        left, right = self.value(columns, type), self.value(columns, type)
        form = self.rng.randrange(8)
        if form == 0:
            return expression("{} IS NULL", BOOLEAN, left)
        if form == 1:
            return expression("{} OR {}", BOOLEAN, equals(left, right), self.value(columns, BOOLEAN, 0))
        if form == 2:
            return expression("CASE WHEN {} THEN {} ELSE {} END", BOOLEAN, equals(left, right), "true", "NULL")
        if form == 3:
            return negated(expression("{} IS NOT DISTINCT FROM {}", BOOLEAN, left, right))
        if form == 4:
            return equals(left, right, self.rng.random() < 0.3)
        return expression(self.rng.choice(("{} < {}", "{} <> {}", "{} >= {}")), BOOLEAN, left, right)

    def conditions(self, columns: list[Column]) -> tuple[Expression, ...]:
        return tuple(self.condition(columns) for _ in range(self.rng.choice((1, 1, 2))))

    def join_conditions(self, left: Relation, right: Relation) -> tuple[Expression, ...]:
        pairs = [(one, two) for one in left.columns for two in right.columns if one.type == two.type]
        found: list[Expression] = []
        if pairs and self.rng.random() < 0.85:
            one, two = self.rng.choice(pairs)
            found.append(equals(one.value, two.value, self.rng.random() < 0.2))
        if self.rng.random() < 0.4:
            found.append(self.condition([*left.columns, *right.columns]))
        return tuple(found)

    # ---- operators

    def filter(self, depth: int) -> Relation:
        child = self.relation(depth - 1)
        return Filter(child, self.conditions(list(child.columns)))

    def project(self, depth: int) -> Relation:
        return self.projected(self.relation(depth - 1))

    def projected(self, child: Relation) -> Relation:
        types = [self.rng.choice((BIGINT, BIGINT, STRING, BOOLEAN)) for _ in range(self.rng.randint(1, 3))]
        return self.shaped(child, types)

    def shaped(self, child: Relation, types: list[str]) -> Relation:
        return Project(child, tuple(Output(self.fresh(), self.value(list(child.columns), each)) for each in types))

    def join(self, depth: int) -> Relation:
        left, right = self.relation(depth - 1), self.relation(depth - 2)
        if set(left.names) & set(right.names):
            right = self.renamed(right)
        return Join(left, right, self.rng.choice(list(JoinKind)), self.join_conditions(left, right))

    def union(self, depth: int) -> Relation:
        first = self.relation(depth - 1)
        types = [each.type for each in first.columns]
        others = [self.shaped(self.relation(depth - 2), types) for _ in range(self.rng.choice((1, 1, 2)))]
        return UnionAll((first, *others))

    def distinct(self, depth: int) -> Relation:
        return Distinct(self.relation(depth - 1))

    def aggregate(self, depth: int) -> Relation:
        child = self.relation(depth - 1)
        keys = self.rng.sample(child.names, min(self.rng.choice((0, 1, 1, 2)), len(child.columns)))
        calls = tuple(self.aggregation(child) for _ in range(self.rng.choice((1, 1, 2))))
        return Aggregate(child, tuple(keys), calls)

    def aggregation(self, child: Relation) -> Aggregation:
        columns = list(child.columns)
        function = self.rng.choice(("count", "count", "sum", "min", "max", "collect_list"))
        kept = self.condition(columns) if self.rng.random() < 0.2 else None
        if function == "count" and self.rng.random() < 0.5:
            return aggregation(self.fresh(), "count", None, BIGINT, False, kept)
        distinct = self.rng.random() < 0.2
        made = aggregation(self.fresh(), function, self.value(columns, BIGINT), BIGINT, distinct, kept)
        if function == "collect_list":
            call = expression("CAST(size(collect_list({})) AS BIGINT)", BIGINT, made.arguments[0])
            return replace(made, call=call, distinct=False, filter=None)
        return made

    def window(self, depth: int) -> Relation:
        child = self.relation(depth - 1)
        partition = self.rng.sample(child.names, min(self.rng.choice((0, 1, 1, 2)), len(child.columns)))
        return Window(child, tuple(partition), (Output(self.fresh(), self.window_call(child, partition)),))

    def window_call(self, child: Relation, partition: list[str]) -> Expression:
        """Calls whose result depends on the order of tied rows are ordered by all columns, as in a settled query."""
        total_order = [self.rng.choice(("{}", "{} DESC", "{} DESC NULLS FIRST")) for _ in child.columns]
        partition_by = f"PARTITION BY {', '.join('{}' for _ in partition)} " if partition else ""
        keys = [child.column(each).value for each in partition]
        argument = self.value(list(child.columns), BIGINT)
        call, frame, settled = self.rng.choice((
            ("row_number()", "", True), ("lag({})", "", True), ("lead({}, 1, 0L)", "", True), ("ntile(2)", "", True),
            ("sum({})", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", True), ("rank()", "", False),
            ("dense_rank()", "", False), ("sum({})", "", False), ("count({})", "", False), ("max({})", "", False),
        ))  # fmt: skip
        arguments = [argument] if "{}" in call else []
        if settled:
            order, ordered = total_order, [each.value for each in child.columns]
        else:
            order, ordered = total_order[:1], [child.columns[0].value]
        over = f" OVER ({partition_by}ORDER BY {', '.join(order)}{frame})"
        return expression(call + over, BIGINT, *arguments, *keys, *ordered)

    def top_k(self, depth: int) -> Relation:
        child = self.relation(depth - 1)
        names = self.rng.sample(child.names, len(child.names))
        order = tuple(SortKey(name, self.rng.random() < 0.5, self.rng.random() < 0.5) for name in names)
        partition = tuple(self.rng.sample(child.names, self.rng.choice((0, 0, 1))))
        return TopK(child, order, self.rng.choice((1, 1, 2, 3, None)), self.rng.choice((0, 0, 1)), partition)

    def generate(self, depth: int) -> Relation:
        child = self.relation(depth - 1)
        columns = list(child.columns)
        call = expression("explode(array({}, {}))", BIGINT, self.value(columns, BIGINT), self.value(columns, BIGINT))
        if self.rng.random() < 0.4:
            call = expression(
                "explode(array_repeat({}, CAST({} AS INT)))", BIGINT, *(self.value(columns, BIGINT) for _ in range(2))
            )
        return Generate(child, call, self.rng.random() < 0.3, (Column(self.fresh(), BIGINT),))

    def expand(self, depth: int) -> Relation:
        child = self.relation(depth - 1)
        columns = tuple(Column(self.fresh(), self.rng.choice((BIGINT, STRING))) for _ in range(2))
        row = [tuple(self.value(list(child.columns), each.type) for each in columns) for _ in range(2)]
        return Expand(child, tuple(row), columns)

    def fixpoint(self, depth: int) -> Relation:
        """Walks the edges of a table up to a fixed depth: (level, node)."""
        if self.rng.random() < 0.5:
            return self.relation(depth - 1)
        name = f"walk_{self.fresh()}"
        anchor = Project(
            start := self.relation(depth - 2),
            (
                Output(self.fresh(), expression("0L", BIGINT)),
                Output(self.fresh(), self.value(list(start.columns), BIGINT)),
            ),
        )
        level, node = anchor.columns
        rounds = Filter(Recursion(name, anchor.columns), (expression("{} < 2", BOOLEAN, level.value),))
        edges = self.renamed(Scan("u", TABLES["u"]))
        joined = Join(rounds, edges, JoinKind.INNER, (equals(node.value, edges.columns[0].value),))
        outputs = (
            Output(self.fresh(), expression("{} + 1L", BIGINT, level.value)),
            Output(self.fresh(), self.value([edges.columns[1]], BIGINT)),
        )
        return Fixpoint(name, anchor, Project(joined, outputs))

    # ---- only before lowering

    def set_operation(self, depth: int) -> Relation:
        left = self.relation(depth - 1)
        right = self.shaped(self.relation(depth - 2), [each.type for each in left.columns])
        return SetOperation(self.rng.choice(list(SetKind)), self.rng.random() < 0.5, left, right)

    def subquery(self, depth: int) -> Relation:
        """A subquery, its value sometimes used at once as a condition, bare, negated or inside another one."""
        child = self.relation(depth - 1)
        kind = self.rng.choice(list(ApplyKind))
        probe: tuple[Expression, ...] = ()
        types = [BIGINT]
        if kind is ApplyKind.IN:
            types = [self.rng.choice((BIGINT, STRING)) for _ in range(self.rng.choice((1, 1, 2)))]
            probe = tuple(self.value(list(child.columns), each) for each in types)
        inner = self.inner(child, depth - 1, types if kind is not ApplyKind.EXISTS else None)
        if kind is ApplyKind.SCALAR and self.rng.random() < 0.7:
            inner = self.single_row(child, inner)
        made = Apply(child, inner, kind, Column(self.fresh(), BIGINT if kind is ApplyKind.SCALAR else BOOLEAN), probe)
        return made if self.rng.random() < 0.3 else Filter(made, self.subquery_conditions(made))

    def subquery_conditions(self, made: Apply) -> tuple[Expression, ...]:
        value = made.output.value
        columns = list(made.child.columns)
        if made.kind is ApplyKind.SCALAR:
            condition = expression("{} >= {}", BOOLEAN, value, self.value(columns, BIGINT))
        else:
            condition = self.rng.choice((
                value, value, negated(value), negated(value), expression("{} IS NULL", BOOLEAN, value),
                expression("{} OR {}", BOOLEAN, value, self.condition(columns)),
            ))  # fmt: skip
        return (condition, *self.conditions(columns)) if self.rng.random() < 0.3 else (condition,)

    def inner(self, child: Relation, depth: int, types: list[str] | None) -> Relation:
        """A plan that may read the row of `child`, often through an equality, as people write them."""
        scope, self.scope = self.scope, self.scope + list(child.columns)
        if self.rng.random() < 0.15:
            self.scope = scope
        made = self.relation(depth - 1 if self.rng.random() < 0.7 else depth)
        pairs = [(one, two) for one in made.columns for two in self.scope if one.type == two.type]
        if pairs and self.rng.random() < 0.7:
            one, two = self.rng.choice(pairs)
            made = Filter(made, (equals(one.value, outer(two), self.rng.random() < 0.2),))
        if types is not None:
            made = self.shaped(made, types)
        self.scope = scope
        return made

    def single_row(self, child: Relation, inner: Relation) -> Relation:
        """What people write as scalar subqueries: an aggregate, or the first row in some order."""
        if self.rng.random() < 0.25:
            return TopK(inner, (SortKey(inner.names[0], self.rng.random() < 0.5),), 1)
        scope, self.scope = self.scope, self.scope + list(child.columns)
        made: Relation = Aggregate(inner, (), (self.aggregation(inner),))
        if self.rng.random() < 0.3:
            made = Filter(made, self.conditions(list(made.columns)))
        if self.rng.random() < 0.5:
            made = self.shaped(made, [BIGINT])
        self.scope = scope
        return made

    def lateral(self, depth: int) -> Relation:
        left = self.relation(depth - 1)
        right = self.inner(left, depth - 1, None)
        if set(left.names) & set(right.names):
            right = self.renamed(right)
        on = self.join_conditions(left, right) if self.rng.random() < 0.3 else ()
        return LateralJoin(left, right, self.rng.choice((JoinKind.INNER, JoinKind.LEFT)), on)
