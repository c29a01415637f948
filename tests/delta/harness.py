"""Old result + change = new result, on random plans, tables and ticks. The interpreter is the judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from anabranch.algebra.interpret import Environment, NotABagError, Table, ZSet, interpret, total
from anabranch.algebra.relation import Relation, iterate
from anabranch.algebra.show import show
from anabranch.algebra.values import EvaluationError
from anabranch.delta.differentiate import change_of
from anabranch.delta.narrow import narrow
from anabranch.delta.parts import Part
from anabranch.delta.state import delta, guarded_delta, initial, layout, moving_tables
from tests.tables import plus, random_change, random_tables

Tables = Mapping[str, Table]
TablesOf = Callable[[Random], Tables]
ChangeOf = Callable[[Random, Tables], Tables]


class WrongError(AssertionError):
    """The change is not the difference."""


@dataclass
class Tally:
    """How much was checked; per operator of the plan, in how many ticks the result changed and lost rows."""

    cases: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    retracted: Counter[str] = field(default_factory=Counter)
    strategies: Counter[str] = field(default_factory=Counter)
    guards: Counter[tuple[str, bool]] = field(default_factory=Counter)

    def count(self, operators: set[str], change: ZSet) -> None:
        self.cases += 1
        if change:
            self.changed.update(operators)
        if any(weight < 0 for weight in change.values()):
            self.retracted.update(operators)


def difference(new: Mapping[tuple[object, ...], int], old: Mapping[tuple[object, ...], int]) -> ZSet:
    return total([*new.items(), *((row, -weight) for row, weight in old.items())])


def operators_of(plan: Relation) -> set[str]:
    """The operators of a plan by name, joins with their kind."""
    names = {type(each).__name__ for each in iterate(plan)}
    return names | {f"Join {each.kind.value}" for each in iterate(plan) if hasattr(each, "on")}


def changed_tables(change: Tables) -> frozenset[str]:
    return frozenset(name for name, table in change.items() if table.rows)


def check_change(
    plan: Relation,
    rng: Random,
    ticks: int,
    tally: Tally,
    tables_of: TablesOf = random_tables,
    change_made: ChangeOf = random_change,
) -> None:
    """The change of a plan, tick by tick: as the rules state it and as it is read narrowly."""
    operators = operators_of(plan)
    changes: dict[frozenset[str], list[Relation | None]] = {}
    tables = tables_of(rng)
    moving = [rng.sample(sorted(tables), rng.randint(1, len(tables))) for _ in range(2)]
    old = _result(plan, tables)
    for number in range(ticks):
        if old is None or number % 10 == 9:
            tables = tables_of(rng)
            old = _result(plan, tables)
        change = _only(moving[number % 3 == 0], change_made(rng, tables))
        changed = changed_tables(change)
        if changed not in changes:
            stated = change_of(plan, changed)
            changes[changed] = [stated, None if stated is None else narrow(stated)]
        moved = plus(tables, change)
        new = _result(plan, moved)
        if old is not None and new is not None:
            wanted = difference(new, old)
            environment = Environment(before=tables, after=moved, change=change)
            _compare(wanted, changes[changed][number % 2], environment, plan)
            tally.count(operators, wanted)
        tables, old = moved, new


def _only(names: list[str], change: Tables) -> Tables:
    """The change of some tables; the same few sets of tables again and again spare work on plans."""
    return {name: table if name in names else Table(table.names, {}) for name, table in change.items()}


def _compare(wanted: ZSet, change: Relation | None, environment: Environment, plan: Relation) -> None:
    found = _interpreted(change, environment, plan)
    if found != wanted:
        text = "None" if change is None else show(change)
        raise WrongError(f"wanted {wanted}\nfound {found}\n{show(plan)}\n\n{text}\n{environment}")


def _interpreted(change: Relation | None, environment: Environment, plan: Relation) -> ZSet:
    try:
        return {} if change is None else interpret(change, environment)
    except NotABagError as problem:
        raise WrongError(f"{problem}\n{show(plan)}") from problem


def _result(plan: Relation, tables: Tables) -> ZSet | None:
    """The plan's rows; None where the query itself raises."""
    try:
        return interpret(plan, Environment(tables=tables))
    except EvaluationError:
        return None


@dataclass
class Node:
    """A stream table without Spark: its parts and what they have stored."""

    plan: Relation
    parts: tuple[Part, ...]
    stored: dict[str, ZSet] = field(default_factory=dict)
    plans: dict[tuple[str, frozenset[str]], Relation | None] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Relation) -> Node:
        return cls(plan, layout(plan))

    @property
    def visible(self) -> ZSet:
        return dict(shown(self.parts[-1], self.stored[""]).rows)

    def fill(self, tables: Tables) -> None:
        """A full refresh."""
        after = dict(tables)
        for part in self.parts:
            self.stored[part.name] = interpret(initial(part), Environment(after=after))
            after[part.table] = shown(part, self.stored[part.name])

    def tick(self, tables: Tables, change: Tables, tally: Tally | None = None) -> None:
        """A differential refresh: every part in turn, each handing its visible change on."""
        before, after, changes = dict(tables), plus(tables, change), dict(change)
        moving = moving_tables(self.parts, changed_tables(change))
        moved: dict[str, ZSet] = {}
        for part in self.parts:
            environment = Environment(before=before, after=after, change=changes, stored={part.name: self._table(part)})
            difference_found = self._change(part, moving, environment, tally)
            moved[part.name] = total([*self.stored[part.name].items(), *difference_found.items()])
            before[part.table] = shown(part, self.stored[part.name])
            after[part.table] = shown(part, moved[part.name])
            names = part.relation.names
            changes[part.table] = Table(names, difference(after[part.table].rows, before[part.table].rows))
        self.stored = moved

    def _change(self, part: Part, moving: frozenset[str], environment: Environment, tally: Tally | None) -> ZSet:
        key = (part.name, moving)
        if key not in self.plans:
            self.plans[key] = delta(part, moving)
        found = _interpreted(self.plans[key], environment, self.plan)
        for row, weight in found.items():
            if self.stored[part.name].get(row, 0) + weight < 0:
                raise WrongError(f"part {part.name!r}: {row} is not there {-weight} times\n{show(self.plan)}")
        if tally is not None:
            self._check_guard(part, moving, environment, found, tally)
        return found

    def _check_guard(
        self, part: Part, moving: frozenset[str], environment: Environment, found: ZSet, tally: Tally
    ) -> None:
        guarded = guarded_delta(part, moving)
        if guarded is None:
            return
        fires = bool(interpret(guarded.guard, environment))
        tally.guards[part.strategy.value, fires] += 1
        if not fires and interpret(guarded.change, environment) != found:
            raise WrongError(f"part {part.name!r}: the guard did not fire\n{show(self.plan)}")

    def _table(self, part: Part) -> Table:
        return Table(tuple(each.name for each in part.columns), self.stored[part.name])


def shown(part: Part, rows: Mapping[tuple[object, ...], int]) -> Table:
    """What readers see of stored rows."""
    names = [each.name for each in part.columns]
    places = [names.index(name) for name in part.visible]
    flag = None if part.flag is None else names.index(part.flag)
    kept = ((row, weight) for row, weight in rows.items() if flag is None or row[flag])
    return Table(part.relation.names, total((tuple(row[place] for place in places), weight) for row, weight in kept))


def check_node(
    plan: Relation,
    kernel: Relation,
    rng: Random,
    ticks: int,
    tally: Tally,
    tables_of: TablesOf = random_tables,
    change_made: ChangeOf = random_change,
) -> None:
    """A node kept fresh tick by tick shows what its query says; `plan` judges, `kernel` is what is kept."""
    node = Node.of(kernel)
    tally.strategies.update(part.strategy.value for part in node.parts)
    operators = operators_of(plan)
    tables = tables_of(rng)
    try:
        node.fill(tables)
        for number in range(ticks):
            change = change_made(rng, tables)
            tables_after = plus(tables, change)
            wanted = interpret(plan, Environment(tables=tables_after))
            old = node.visible
            node.tick(tables, change, tally if number % 4 == 0 else None)
            if node.visible != wanted:
                raise WrongError(f"wanted {wanted}\nfound {node.visible}\n{show(plan)}\n{show(kernel)}")
            tally.count(operators, difference(wanted, old))
            tables = tables_after
    except EvaluationError:
        return
