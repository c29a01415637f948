"""Chains of filters and projections over the same rows, worked out by one projection."""

from __future__ import annotations

from anabranch.algebra.expression import expression
from anabranch.algebra.interpret import Environment, Table, interpret
from anabranch.algebra.relation import Change, Column, Filter, Output, Project, Relation
from anabranch.algebra.show import show
from anabranch.fuse.wide import LONGEST, Wide, chain_of

T = Change("t", (Column("a", "bigint"), Column("b", "bigint")))
A, B = T.column("a").value, T.column("b").value


def quotient(of: Relation) -> Relation:
    return Project(of, (Output("q", expression("{} / {}", "double", A, B)), Output("a", A)))


def where_not_zero(of: Relation) -> Relation:
    return Filter(of, (expression("{} <> 0", "boolean", B),))


def test_a_chain_is_one_condition_and_one_list_of_values() -> None:
    chain = chain_of(
        Filter(quotient(where_not_zero(T)), (expression("{} > 1", "boolean", Column("q", "double").value),))
    )
    assert chain is not None
    assert chain.base is T
    assert [str(each) for each in chain.predicates] == ["b <> 0", "(a / b) > 1"]
    assert [str(each) for each in chain.values] == ["a / b", "a"]
    assert chain.columns == {"a", "b"}


def test_values_are_computed_only_where_the_chain_would() -> None:
    """Row (1, 0) is not divided, as it is not by the chain."""
    chain = chain_of(quotient(where_not_zero(T)))
    assert chain is not None
    wide = Wide(T)
    flag, columns = wide.flag(chain), wide.columns(chain)
    relation = wide.relation()
    found = interpret(relation, Environment(change={"t": Table(T.names, {(1, 0): 1, (4, 2): -1, (1, None): 1})}))
    rows = [(dict(zip(relation.names, row, strict=True)), weight) for row, weight in found.items()]
    picked = {tuple(row[name] for name in columns): weight for row, weight in rows if row[str(flag)]}
    assert picked == {(2.0, 4): -1}


def test_equal_conditions_and_values_are_computed_once() -> None:
    wide = Wide(T)
    for relation in (quotient(where_not_zero(T)), where_not_zero(T), quotient(where_not_zero(T)), quotient(T)):
        chain = chain_of(relation)
        assert chain is not None
        wide.flag(chain)
        wide.columns(chain)
    text = show(wide.relation())
    assert text.count("<> 0") == 1
    assert text.count("a / b") == 2  # where the flag is true, and everywhere


def test_time_windows_stand_alone() -> None:
    """Spark drops rows without a time, and allows one window in a SELECT."""
    start = expression("WINDOW ({}, '5 minutes').start", "timestamp", A)
    assert chain_of(Project(T, (Output("start", start), Output("b", B)))) is None
    assert chain_of(Project(T, (Output("windowed", A), Output("b", B)))) is not None


def test_what_would_become_long_is_left_as_it_is() -> None:
    relation: Relation = T
    depth = 0
    while chain_of(relation) is not None:
        depth += 1
        doubled = expression("{} + {}", "bigint", relation.column("a").value, relation.column("a").value)
        relation = Project(relation, (Output("a", doubled), Output("b", relation.column("b").value)))
    assert 2**depth > LONGEST / 8
    assert depth < 20
