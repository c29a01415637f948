"""What the driver works out over rows at hand is what the interpreter says; the rest it leaves to Spark."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from anabranch.algebra.expression import Expression, equals, expression, negated
from anabranch.algebra.interpret import ZSet
from anabranch.algebra.relation import (
    WEIGHT,
    Change,
    Column,
    Consolidate,
    Filter,
    Join,
    JoinKind,
    Negate,
    Output,
    Project,
    Relation,
    Support,
    UnionAll,
    Weigh,
)
from anabranch.algebra.show import show
from anabranch.algebra.values import Row, as_value
from anabranch.fuse.at_hand import can_work_out, consolidated, join_keys, work_out
from anabranch.fuse.codes import codes_of
from tests.fuse.against_interpreter import ARRAY, NO_LIMIT, VALUES, check
from tests.fuse.hand import table_of, z_set

K, V = Column("k", "bigint"), Column("v", "string")
L, W = Column("l", "bigint"), Column("w", "string")
LEFT, RIGHT = Change("left", (K, V)), Change("right", (L, W))


def bag(relation: Relation, *rows: Row) -> pa.Table:
    return table_of(relation.columns, rows)


def terms(relation: Relation, *rows: tuple[Row, int]) -> pa.Table:
    """A Z-set, not summed up."""
    return table_of(relation.columns, [row for row, _ in rows], [weight for _, weight in rows])


def worked_out(relation: Relation, *inputs: pa.Table) -> ZSet:
    """The operator's rows, which are also the interpreter's."""
    found = work_out(relation, list(inputs), NO_LIMIT)
    assert found is not None
    assert check(relation, inputs, "")
    return z_set(relation, found)


def join(kind: JoinKind, null_safe: bool = False) -> Join:
    return Join(LEFT, RIGHT, kind, (equals(K.value, L.value, null_safe),))


NULLS = bag(LEFT, (None, "a"), (1, "b")), bag(RIGHT, (None, "x"), (None, "y"), (1, "z"))


@pytest.mark.parametrize(
    ("kind", "null_safe", "expected"),
    [
        (JoinKind.INNER, False, {(1, "b", 1, "z"): 1}),
        (JoinKind.INNER, True, {(1, "b", 1, "z"): 1, (None, "a", None, "x"): 1, (None, "a", None, "y"): 1}),
        (JoinKind.LEFT, False, {(1, "b", 1, "z"): 1, (None, "a", None, None): 1}),
        (JoinKind.LEFT, True, {(1, "b", 1, "z"): 1, (None, "a", None, "x"): 1, (None, "a", None, "y"): 1}),
        (JoinKind.SEMI, False, {(1, "b"): 1}),
        (JoinKind.SEMI, True, {(1, "b"): 1, (None, "a"): 1}),
        (JoinKind.ANTI, False, {(None, "a"): 1}),
        (JoinKind.ANTI, True, {}),
    ],
)
def test_null_equals_null_only_where_it_is_asked_for(kind: JoinKind, null_safe: bool, expected: ZSet) -> None:
    assert worked_out(join(kind, null_safe), *NULLS) == expected


def test_one_key_may_be_null_and_another_not() -> None:
    both = Join(LEFT, RIGHT, JoinKind.INNER, (equals(K.value, L.value), equals(W.value, V.value, null_safe=True)))
    left = bag(LEFT, (1, None), (None, None), (None, "a"))
    right = bag(RIGHT, (1, None), (None, None), (None, "a"))
    assert worked_out(both, left, right) == {(1, None, 1, None): 1}


def test_weights_multiply() -> None:
    left = terms(LEFT, ((1, "a"), 2), ((1, "b"), -1))
    right = terms(RIGHT, ((1, "x"), -3), ((1, "y"), 1))
    assert worked_out(join(JoinKind.INNER), left, right) == {
        (1, "a", 1, "x"): -6, (1, "a", 1, "y"): 2, (1, "b", 1, "x"): 3, (1, "b", 1, "y"): -1,
    }  # fmt: skip


def test_duplicates_of_bags_multiply() -> None:
    left, right = bag(LEFT, (1, "a"), (1, "a")), bag(RIGHT, (1, "x"), (1, "x"), (1, "x"))
    assert worked_out(join(JoinKind.INNER), left, right) == {(1, "a", 1, "x"): 6}
    assert worked_out(join(JoinKind.SEMI), left, right) == {(1, "a"): 2}


def test_a_bag_joined_with_a_z_set() -> None:
    left, right = bag(LEFT, (1, "a"), (1, "a")), terms(RIGHT, ((1, "x"), 3))
    assert worked_out(join(JoinKind.INNER), left, right) == {(1, "a", 1, "x"): 6}
    assert worked_out(join(JoinKind.LEFT), left, right) == {(1, "a", 1, "x"): 6}


def test_a_left_join_pads_with_null_and_keeps_the_weight() -> None:
    left = terms(LEFT, ((1, "a"), -2), ((2, "b"), 3))
    assert worked_out(join(JoinKind.LEFT), left, terms(RIGHT, ((2, "x"), 2))) == {
        (1, "a", None, None): -2,
        (2, "b", 2, "x"): 6,
    }


def test_partners_that_cancel_are_no_partners() -> None:
    left = bag(LEFT, (1, "a"))
    right = terms(RIGHT, ((1, "x"), 1), ((1, "x"), -1))
    assert worked_out(join(JoinKind.SEMI), left, right) == {}
    assert worked_out(join(JoinKind.ANTI), left, right) == {(1, "a"): 1}
    assert worked_out(join(JoinKind.LEFT), left, right) == {(1, "a", None, None): 1}


@pytest.mark.parametrize("kind", [JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI])
def test_partners_that_are_no_bag_are_left_to_spark(kind: JoinKind) -> None:
    left = bag(LEFT, (1, "a"))
    assert work_out(join(kind), [left, terms(RIGHT, ((1, "x"), 1), ((1, "y"), -1))], NO_LIMIT) is None
    assert work_out(join(kind), [left, terms(RIGHT, ((1, "x"), 2), ((1, "x"), -1))], NO_LIMIT) is not None


@pytest.mark.parametrize("kind", [JoinKind.SEMI, JoinKind.ANTI])
def test_partners_that_cannot_be_summed_up_are_left_to_spark(kind: JoinKind) -> None:
    """The right side's columns are not in the result, so that it alone does not tell."""
    right = Change("right", (L, Column("xs", ARRAY)))
    relation = Join(LEFT, right, kind, (equals(K.value, L.value),))
    assert work_out(relation, [bag(LEFT, (1, "a")), terms(right, ((1, (1, 2)), 1))], NO_LIMIT) is None
    assert not can_work_out(relation)


def test_what_becomes_larger_than_the_limit_is_left_to_spark() -> None:
    left, right = bag(LEFT, *[(1, "a")] * 20), bag(RIGHT, *[(1, "x")] * 20)
    assert work_out(join(JoinKind.INNER), [left, right], 399) is None
    assert work_out(join(JoinKind.INNER), [left, right], 400) is not None
    assert work_out(Join(LEFT, RIGHT, JoinKind.INNER, ()), [left, right], 399) is None
    assert work_out(join(JoinKind.LEFT), [left, bag(RIGHT)], 19) is None
    assert work_out(join(JoinKind.SEMI), [left, right], 20) is not None
    assert work_out(UnionAll((LEFT, LEFT)), [left, left], 39) is None
    assert work_out(UnionAll((LEFT, LEFT)), [left, left], 40) is not None


def test_a_join_that_is_far_too_large_is_not_begun() -> None:
    left, right = bag(LEFT, *[(1, "a")] * 100_000), bag(RIGHT, *[(1, "x")] * 100_000)
    assert work_out(join(JoinKind.INNER), [left, right], 1_000_000) is None


@pytest.mark.parametrize(
    "condition",
    [
        expression("{} < {}", "boolean", K.value, L.value),
        expression("{} = {}", "boolean", K.value, L.value),
        equals(K.value, expression("1L", "bigint")),
        equals(K.value, expression("{} + 1L", "bigint", L.value)),
        equals(K.value, K.value),
    ],
    ids=str,
)
def test_other_conditions_are_left_to_spark(condition: Expression) -> None:
    for on in ((condition,), (equals(K.value, L.value), condition)):
        relation = Join(LEFT, RIGHT, JoinKind.INNER, on)
        assert join_keys(relation) is None
        assert not can_work_out(relation)
        assert work_out(relation, [bag(LEFT, (1, "a")), bag(RIGHT, (1, "x"))], NO_LIMIT) is None


@pytest.mark.parametrize("types", [("double", "double"), ("float", "float"), ("bigint", "int"), (ARRAY, ARRAY)])
def test_keys_that_spark_compares_otherwise_are_left_to_it(types: tuple[str, str]) -> None:
    """To Spark -0.0 equals 0.0, and a comparison of two types converts one of them."""
    left, right = (Change(side, (Column(side, type),)) for side, type in zip("lr", types, strict=True))
    on = (equals(left.columns[0].value, right.columns[0].value),)
    assert all(join_keys(Join(left, right, kind, on)) is None for kind in JoinKind)


def test_a_full_join_is_left_to_spark() -> None:
    assert join_keys(join(JoinKind.FULL)) is None
    assert work_out(join(JoinKind.FULL), [bag(LEFT), bag(RIGHT)], NO_LIMIT) is None


@pytest.mark.parametrize("type", ["float", "double"])
def test_floats_are_told_apart_by_their_bytes(type: str) -> None:
    """0.0 and -0.0 are two values, every NaN is one, NULL is one more."""
    leaf = Change("floats", (Column("x", type),))
    bits, dtype = ([0x7FC00001], np.uint32) if type == "float" else ([0x7FF8000000000001], np.uint64)
    another_nan = np.array(bits, dtype=dtype).view(np.float32 if type == "float" else np.float64)
    rows = terms(leaf, *(((value,), 1) for value in (0.0, -0.0, math.nan, -math.nan, None, -0.0)))
    rows = pa.concat_tables([rows, pa.table({"x": another_nan, WEIGHT: [1]})])
    found = work_out(Consolidate(leaf), [rows], NO_LIMIT)
    assert found is not None
    weights = dict(zip(map(str, found.column("x").to_pylist()), found.column(WEIGHT).to_pylist(), strict=True))
    assert weights == {"0.0": 1, "-0.0": 2, "nan": 3, "None": 1}
    assert work_out(Support(leaf), [rows], NO_LIMIT) is None
    assert not can_work_out(Support(leaf))


def test_floats_that_are_no_keys_go_through_joins() -> None:
    left = Change("left", (K, Column("x", "double")))
    relation = Join(left, RIGHT, JoinKind.LEFT, (equals(K.value, L.value),))
    found = work_out(relation, [bag(left, (1, -0.0), (1, math.nan)), bag(RIGHT)], NO_LIMIT)
    assert found is not None
    assert list(map(str, found.column("x").to_pylist())) == ["-0.0", "nan"]


def test_a_union_of_a_bag_and_a_z_set_is_a_z_set() -> None:
    one, other = bag(LEFT, (1, "a"), (1, "a")), terms(RIGHT, ((1, "a"), -1), ((2, "b"), 4))
    assert worked_out(UnionAll((LEFT, RIGHT)), one, other) == {(1, "a"): 1, (2, "b"): 4}
    assert worked_out(UnionAll((RIGHT, LEFT)), other, one) == {(1, "a"): 1, (2, "b"): 4}


def test_a_union_of_bags_is_a_bag() -> None:
    found = work_out(UnionAll((LEFT, RIGHT)), [bag(LEFT, (1, "a")), bag(RIGHT, (1, "a"))], NO_LIMIT)
    assert found is not None
    assert found.column_names == ["k", "v"]
    assert found.num_rows == 2


def test_null_may_follow_upon_rows_that_say_they_hold_none() -> None:
    """Spark marks the columns of literals and counts so."""
    strict = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string(), nullable=False)])
    one = bag(LEFT, (1, "a")).cast(strict)
    assert worked_out(UnionAll((LEFT, RIGHT)), one, bag(RIGHT, (None, None))) == {(1, "a"): 1, (None, None): 1}
    assert worked_out(join(JoinKind.LEFT), bag(LEFT, (2, "b")), one.rename_columns(["l", "w"])) == {
        (2, "b", None, None): 1
    }


def test_a_union_of_other_types_is_left_to_spark() -> None:
    relation = UnionAll((LEFT, Change("ints", (Column("k", "int"), V))))
    assert not can_work_out(relation)
    assert work_out(relation, [bag(LEFT), bag(relation.inputs[1])], NO_LIMIT) is None


def test_rows_that_differed_in_a_dropped_column_are_summed_up() -> None:
    keys = Project(LEFT, (Output("key", K.value),))
    found = work_out(keys, [terms(LEFT, ((1, "a"), 2), ((1, "b"), -2), ((2, "a"), 1), ((2, "b"), 1))], NO_LIMIT)
    assert found is not None
    assert found.to_pylist() == [{"key": 2, WEIGHT: 2}]
    assert worked_out(keys, bag(LEFT, (1, "a"), (1, "b"))) == {(1,): 2}


def test_a_key_whose_weights_cancel_was_touched() -> None:
    """{(1, a): +1, (1, b): -1} touches 1: weights become a column before others are dropped."""
    weighed = Weigh(LEFT, "n")
    terms_table = work_out(weighed, [terms(LEFT, ((1, "a"), 1), ((1, "b"), -1))], NO_LIMIT)
    assert terms_table is not None
    keys = Project(weighed, (Output("key", K.value),))
    projected = work_out(keys, [terms_table], NO_LIMIT)
    assert projected is not None
    assert worked_out(Support(keys), projected) == {(1,): 1}


def test_a_column_may_be_used_twice() -> None:
    twice = Project(LEFT, (Output("x", V.value), Output("y", V.value), Output("k", K.value)))
    assert worked_out(twice, terms(LEFT, ((1, "a"), 2), ((1, None), -1))) == {("a", "a", 1): 2, (None, None, 1): -1}


def test_a_flag_that_is_null_is_not_true_and_neither_is_its_negation() -> None:
    leaf = Change("flags", (K, Column("f", "boolean")))
    rows = bag(leaf, (1, True), (2, False), (3, None))
    assert worked_out(Filter(leaf, (leaf.column("f").value,)), rows) == {(1, True): 1}
    assert worked_out(Filter(leaf, (negated(leaf.column("f").value),)), rows) == {(2, False): 1}
    assert work_out(Filter(leaf, (expression("{} IS NULL", "boolean", K.value),)), [rows], NO_LIMIT) is None


def test_a_negated_bag_is_a_z_set() -> None:
    assert worked_out(Negate(LEFT), bag(LEFT, (1, "a"), (1, "a"))) == {(1, "a"): -2}


def test_weights_become_a_column() -> None:
    assert worked_out(Weigh(LEFT, "n"), terms(LEFT, ((1, "a"), -2))) == {(1, "a", -2): 1}
    assert worked_out(Weigh(LEFT, "n"), bag(LEFT, (1, "a"), (1, "a"))) == {(1, "a", 1): 2}


@pytest.mark.parametrize("type", [*VALUES])
def test_values_of_every_type_are_told_apart(type: str) -> None:
    """Each value is a row of its own, in a sum and in a join, and comes back as it was."""
    left, right = Change("left", (Column("x", type),)), Change("right", (Column("y", type),))
    values = [as_value(value) for value in VALUES[type]]
    twice = terms(left, *(((value,), weight) for weight in (1, 2) for value in values))
    assert worked_out(Consolidate(left), twice) == {(value,): 3 for value in values}
    if type in ("float", "double"):
        return
    assert worked_out(Support(left), twice) == {(value,): 1 for value in values}
    on = (equals(left.columns[0].value, right.columns[0].value),)
    once = bag(right, *((value,) for value in reversed(values)))
    assert worked_out(Join(left, right, JoinKind.INNER, on), twice, once) == {
        (value, value): 3 for value in values if value is not None
    }


@pytest.mark.parametrize("type", [ARRAY, "map<string,int>", "struct<a:int>", "interval day to second", "variant"])
def test_rows_that_cannot_be_compared_are_left_to_spark(type: str) -> None:
    leaf = Change("nested", (K, Column("x", type)))
    relations = (Negate(leaf), Weigh(leaf, "n"), Support(leaf), Consolidate(leaf), UnionAll((leaf, leaf)))
    assert not any(can_work_out(each) for each in relations)
    assert work_out(Negate(leaf), [pa.table({"k": [1], "x": [[1]]})], NO_LIMIT) is None
    found = work_out(Project(leaf, (Output("k", K.value),)), [pa.table({"k": [1], "x": [[1]], WEIGHT: [2]})], NO_LIMIT)
    assert found is not None
    assert found.to_pylist() == [{"k": 1, WEIGHT: 2}]


def test_rows_of_the_same_type_in_another_unit_or_zone() -> None:
    """A session's time zone is in the tables that Spark gives; the store's are in UTC."""
    left, right = Change("left", (Column("x", "timestamp"),)), Change("right", (Column("y", "timestamp"),))
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    ours = bag(left, (moment,))
    theirs = pa.table({"y": bag(right, (moment,)).column("y").cast(pa.timestamp("us", "Europe/Berlin"))})
    on = (equals(left.columns[0].value, right.columns[0].value),)
    found = work_out(Join(left, right, JoinKind.SEMI, on), [ours, theirs], NO_LIMIT)
    assert found is not None
    assert found.num_rows == 1
    found = work_out(UnionAll((left, right)), [ours, theirs], NO_LIMIT)
    assert found is not None
    assert found.column("x").to_pylist() == [moment, moment]


# ---- no rows


def without_chunks(relation: Relation, weighted: bool) -> pa.Table:
    table = table_of(relation.columns, [], [] if weighted else None)
    return pa.Table.from_batches([], table.schema)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("chunks", [True, False])
def test_no_rows(weighted: bool, chunks: bool) -> None:
    def nothing(relation: Relation) -> pa.Table:
        return (
            table_of(relation.columns, [], [] if weighted else None) if chunks else without_chunks(relation, weighted)
        )

    flags = Change("flags", (K, Column("f", "boolean"), Column("x", "double")))
    for relation in (
        Negate(LEFT), Weigh(LEFT, "n"), Support(LEFT), Consolidate(flags), UnionAll((LEFT, RIGHT)), UnionAll((LEFT,)),
        Filter(flags, (flags.column("f").value,)), Filter(flags, (negated(flags.column("f").value),)),
        Project(LEFT, (Output("v", V.value),)), Project(LEFT, (Output("v", V.value), Output("k", K.value))),
        *(join(kind, null_safe) for kind in JoinKind if kind is not JoinKind.FULL for null_safe in (True, False)),
        Join(LEFT, RIGHT, JoinKind.LEFT, ()),
    ):  # fmt: skip
        assert worked_out(relation, *map(nothing, relation.children)) == {}, show(relation)
    some = terms(LEFT, ((1, "a"), 2), ((None, "b"), -1))
    assert worked_out(join(JoinKind.INNER), some, nothing(RIGHT)) == {}
    assert worked_out(join(JoinKind.SEMI), some, nothing(RIGHT)) == {}
    assert worked_out(join(JoinKind.ANTI), some, nothing(RIGHT)) == {(1, "a"): 2, (None, "b"): -1}
    assert worked_out(join(JoinKind.LEFT), some, nothing(RIGHT)) == {
        (1, "a", None, None): 2,
        (None, "b", None, None): -1,
    }
    for kind in (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI):
        assert worked_out(join(kind), nothing(LEFT), terms(RIGHT, ((1, "x"), 1))) == {}
    assert worked_out(UnionAll((RIGHT, LEFT)), nothing(RIGHT), some) == {(1, "a"): 2, (None, "b"): -1}


def test_weights_that_sum_up_to_nothing() -> None:
    cancelled = terms(LEFT, ((1, "a"), 1), ((1, "a"), -1))
    assert consolidated(cancelled).num_rows == 0
    assert consolidated(cancelled).column_names == ["k", "v", WEIGHT]


# ---- numbers for rows


def test_numbers_of_wide_rows_do_not_overflow() -> None:
    """Twelve columns of 20,000 different values: their combinations are far more than an int64 can number."""
    generator = np.random.default_rng(7)
    count = 20_000
    once = [generator.permutation(count) for _ in range(12)]
    columns = [pa.chunked_array([pa.array(np.concatenate([each, each]))]) for each in once]
    codes = codes_of(columns, 2 * count)
    assert np.array_equal(codes[:count], codes[count:])
    assert len(np.unique(codes)) == count
    assert codes.min() >= 0


def test_numbers_tell_rows_apart_that_differ_in_one_column() -> None:
    """Rows that are equal in all but one of many columns, whichever that is."""
    columns = [pa.chunked_array([pa.array([int(place == row) for row in range(70)])]) for place in range(69)]
    assert len(np.unique(codes_of(columns, 70))) == 70


def test_rows_without_columns_are_all_the_same() -> None:
    assert codes_of([], 3).tolist() == [0, 0, 0]
