"""Random operators and plans over rows at hand: what the driver works out is what the interpreter says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

from anabranch.algebra.expression import equals, expression, negated
from anabranch.algebra.holes import is_closed
from anabranch.algebra.interpret import Environment, ZSet, interpret, total
from anabranch.algebra.relation import (
    LEAVES,
    Change,
    Column,
    Consolidate,
    Filter,
    Fixpoint,
    Join,
    JoinKind,
    Negate,
    Output,
    Project,
    Relation,
    Support,
    UnionAll,
    Weigh,
    iterate,
)
from anabranch.algebra.values import as_value
from tests.fuse.against_interpreter import ARRAY, VALUES, alone, check
from tests.fuse.hand import random_table, random_ticks

PLANS, OPERATORS = 250, 5000


def test_operators_of_random_plans_mean_what_the_interpreter_says() -> None:
    """The changes of random nodes, operator by operator, each over its inputs' rows as the interpreter has them."""
    compared: Counter[str] = Counter()
    for seed in range(PLANS):
        rng = Random(f"at hand {seed}")
        for tick in random_ticks(rng):
            for relation, inputs in _with_inputs(tick.plan, tick.environment):
                tables = [random_table(rng, child.columns, rows) for child, rows in inputs]
                if check(relation, tables, f"seed {seed}"):
                    compared[_kind(relation)] += 1
    _check_enough(
        compared, Project=600, UnionAll=200, Weigh=150, Consolidate=150, Negate=120, Support=120, Filter=15,
        join_semi=150, join_anti=50, join_left=40, join_inner=10,
    )  # fmt: skip


def test_random_operators_mean_what_the_interpreter_says() -> None:
    """One operator over random rows of all types, with all kinds of joins; every way to leave it to Spark occurs."""
    compared: Counter[str] = Counter()
    left_to_spark: Counter[str] = Counter()
    for seed in range(OPERATORS):
        rng = Random(f"operator {seed}")
        relation = _random_operator(rng)
        rows = {child: _random_rows(rng, child) for child in relation.children}
        tables = [random_table(rng, child.columns, rows[child]) for child in relation.children]
        was_worked_out = check(relation, tables, f"seed {seed}")
        (compared if was_worked_out else left_to_spark)[_kind(relation)] += 1
    each = OPERATORS // 40
    _check_enough(
        compared, Project=each, UnionAll=each, Weigh=each, Consolidate=each, Negate=each, Support=each, Filter=each,
        join_semi=each, join_anti=each, join_left=each, join_inner=each,
    )  # fmt: skip
    assert left_to_spark.keys() == {*compared, "join_full"}


def _check_enough(compared: Counter[str], **least: int) -> None:
    """Every operator that can be worked out was compared often enough, and no other ever."""
    assert compared.keys() == least.keys()
    assert not {name: count for name, count in compared.items() if count < least[name]}


def _with_inputs(plan: Relation, environment: Environment) -> Iterator[tuple[Relation, list[tuple[Relation, ZSet]]]]:
    """Every operator with the rows of its inputs. The rows found below are leaves for what stands above them."""
    known: dict[Relation, ZSet] = {}
    for relation in iterate(plan):
        if not is_closed(relation):
            continue
        if isinstance(relation, (*LEAVES, Fixpoint)):
            known[relation] = interpret(relation, environment)
            continue
        inputs = [(child, known[child]) for child in relation.children]
        known[relation] = interpret(*alone(relation, [rows for _, rows in inputs]))
        yield relation, inputs


def _kind(relation: Relation) -> str:
    return f"join_{relation.kind.value}" if isinstance(relation, Join) else type(relation).__name__


def _random_leaf(rng: Random, types: Sequence[str]) -> Change:
    names = iter(range(rng.randrange(1, 10**9), 10**12))
    return Change(f"leaf {next(names)}", tuple(Column(f"c{next(names)}", type) for type in types))


def _random_types(rng: Random) -> list[str]:
    types = [rng.choice(("bigint", "string", "boolean", rng.choice([*VALUES]))) for _ in range(rng.randint(1, 4))]
    return [*types, ARRAY] if rng.random() < 0.05 else types


def _random_rows(rng: Random, relation: Relation) -> ZSet:
    """Few rows, weights of either sign or of one."""
    values = {**VALUES, ARRAY: ((), (1,), None)}
    lowest = rng.choice((1, -2))
    found = (
        (tuple(as_value(rng.choice(values[each.type])) for each in relation.columns), rng.randint(lowest, 3))
        for _ in range(rng.choice((0, 1, 2, 5, 5, 10)))
    )
    return {row: abs(weight) if lowest > 0 else weight for row, weight in total(found).items()}


def _random_operator(rng: Random) -> Relation:
    """An operator over leaves; sometimes with an expression, a type or a kind that is left to Spark."""
    child = _random_leaf(rng, _random_types(rng))
    match rng.randrange(11):
        case 0:
            return Negate(child)
        case 1:
            return Weigh(child, "n")
        case 2:
            return Support(child)
        case 3:
            return Consolidate(child)
        case 4:
            return _random_filter(rng, child)
        case 5:
            return _random_projection(rng, child)
        case 6:
            return _random_union(rng, child)
    return _random_join(rng, child, _random_leaf(rng, _random_types(rng)))


def _random_filter(rng: Random, child: Relation) -> Relation:
    flags = [each.value for each in child.columns if each.type == "boolean"]
    predicates = [negated(each) if rng.random() < 0.5 else each for each in rng.sample(flags, min(len(flags), 2))]
    is_computed = not predicates or rng.random() < 0.2
    is_there = expression("{} IS NOT NULL", "boolean", rng.choice(child.columns).value)
    return Filter(child, (*predicates, *([is_there] if is_computed else [])))


def _random_projection(rng: Random, child: Relation) -> Relation:
    values = [each.value for each in rng.choices(child.columns, k=rng.randint(1, 4))]
    if rng.random() < 0.2:
        values.append(expression("{} IS NULL", "boolean", values[0]))
    return Project(child, tuple(Output(f"p{place}", value) for place, value in enumerate(values)))


def _random_union(rng: Random, first: Relation) -> Relation:
    types = [each.type for each in first.columns]
    others = [rng.choice((first, _random_leaf(rng, types))) for _ in range(rng.randint(0, 2))]
    if rng.random() < 0.2:
        others.append(_random_leaf(rng, [{"bigint": "int", "int": "bigint"}.get(each, each) for each in types]))
    return UnionAll((first, *others))


def _random_join(rng: Random, left: Relation, right: Relation) -> Relation:
    pairs = [(one, two) for one in left.columns for two in right.columns if one.type == two.type != ARRAY]
    on = [
        equals(*rng.choice(((one.value, two.value), (two.value, one.value))), rng.random() < 0.4)
        for one, two in rng.sample(pairs, min(len(pairs), rng.randint(0, 2)))
    ]
    if rng.random() < 0.1:
        on.append(expression("{} IS NOT NULL", "boolean", rng.choice(left.columns).value))
    return Join(left, right, rng.choice(list(JoinKind)), tuple(on))
