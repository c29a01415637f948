"""Plan text is an interface: deterministic, one line per operator, a shared sub-plan once."""

from __future__ import annotations

from random import Random

from anabranch.algebra.expression import equals
from anabranch.algebra.relation import Aggregate, Join, JoinKind, SortKey, TopK, UnionAll, iterate
from anabranch.algebra.show import show
from tests.lower.plans import exists, outer, same, select, sql, table, where
from tests.plans import aggregation, random_relation


def test_a_plan_reads_from_top_to_bottom() -> None:
    sales = table("sales", "id", "amount")
    large = where(sales, sql("`sales_amount` > 10"))
    total = Aggregate(large, ("sales_id",), (aggregation("total", "sum", sales.columns[1].value, "bigint"),))
    best = TopK(total, (SortKey("total", descending=True, nulls_first=False),), 3, 1)
    assert show(best).splitlines() == [
        "r0 := Scan sales (id, amount)",
        "r1 := Project r0: sales_id := id, sales_amount := amount",
        "r2 := Filter r1: sales_amount > 10",
        "r3 := Aggregate r2 by sales_id: total := SUM(sales_amount)",
        "r4 := TopK r3: 3 from 1 in order total desc nulls last",
    ]


def test_a_shared_sub_plan_is_shown_once() -> None:
    t, u = table("t", "k"), table("u", "k")
    joined = Join(t, u, JoinKind.LEFT, (same("t_k", "u_k"), sql("`t_k` > 1")))
    assert show(UnionAll((joined, joined))).splitlines()[-2:] == [
        "r4 := Join left r1, r3: (t_k = u_k) and (t_k > 1)",
        "r5 := UnionAll r4, r4",
    ]


def test_columns_of_the_enclosing_row_are_marked() -> None:
    inner = where(table("u", "k"), equals(table("u", "k").columns[0].value, outer("t_k")))
    text = show(select(exists(table("t", "k"), inner), found=sql("`found`")))
    assert "r4 := Filter r3: u_k = outer.t_k" in text
    assert "r5 := Apply exists r1, r4: found" in text


def test_the_text_depends_on_the_plan_alone() -> None:
    for seed in range(200):
        first = show(random_relation(Random(seed), surface=True))
        assert first == show(random_relation(Random(seed), surface=True))
        assert len(first.splitlines()) == len(list(iterate(random_relation(Random(seed), surface=True))))
