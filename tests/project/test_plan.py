"""A plan is the difference of two values: what a person would expect of each change, and nothing after all is done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from anabranch.algebra.relation import Column
from anabranch.errors import AnabranchError
from anabranch.project.actual import Actual, ActualTable
from anabranch.project.desired import Desired, Place, WantedSource, WantedTable, WantedView, desired_of
from anabranch.project.plan import plan
from anabranch.project.sources import simple
from anabranch.project.steps import Kind, Plan, Step, Verb
from anabranch.sql.statement_nodes import ColumnDefinition
from tests.project.folders import read

HERE = Place("a.sql")
FILES = {
    "tables/sales.sql": "CREATE TABLE sales (id BIGINT, region STRING, amount DECIMAL(12,2))",
    "tables/by_region.sql": "-- schedule: 2s\nSELECT region, SUM(amount) AS revenue FROM sales GROUP BY region",
    "tables/total.sql": "SELECT SUM(by_region.revenue) AS total FROM by_region",
}


def done(desired: Desired, actual: Actual) -> Actual:
    """The lake after all steps were done, worked out from the steps alone: what they do not say is not done."""
    tables, views = dict(actual.tables), dict(actual.views)
    sources, settings = dict(actual.sources), dict(actual.settings)
    for step in plan(desired, actual).steps:
        name = step.name.lower()
        match step.kind, step.verb:
            case _, Verb.ADOPT:
                continue
            case Kind.TABLE, Verb.DROP:
                del tables[name]
            case Kind.TABLE, _:
                tables.pop(step.earlier or name, None)
                tables[name] = _table(desired, desired.tables[name])
            case Kind.VIEW, Verb.DROP:
                del views[name]
            case Kind.VIEW, _:
                views[name] = desired.views[name].query
            case Kind.SOURCE, Verb.DROP:
                del sources[name]
            case Kind.SOURCE, _:
                sources[name] = tuple(Column(each.name, simple(each.type)) for each in desired.sources[name].columns)
            case Kind.SETTING, Verb.DROP:
                del settings[name]
            case Kind.SETTING, _:
                settings[name] = desired.settings[name]
    managed = [f"table/{name}" for name in desired.tables] + [f"view/{name}" for name in desired.views]
    managed += [f"source/{name}" for name in desired.sources] + [f"setting/{name}" for name in desired.settings]
    return Actual(tables, views, sources, settings, frozenset(managed))


def _table(desired: Desired, wanted: WantedTable) -> ActualTable:
    read = {name: view.query for name, view in desired.views.items() if name in wanted.query.lower()}
    policies = wanted.diamond_consistency, wanted.diamond_schedule_policy
    return ActualTable(wanted.name, wanted.query, wanted.schedule, wanted.refresh_mode, *policies, read)


def steps(desired: Desired, actual: Actual) -> list[str]:
    return [str(step) for step in plan(desired, actual).steps]


def test_a_new_project_and_then_nothing(tmp_path: Path) -> None:
    desired = read(tmp_path, FILES)
    assert [str(step).split(":")[0] for step in plan(desired, Actual()).steps] == [
        "+ create source sales",
        "+ create stream table by_region",
        "+ create stream table total",
    ]
    assert not plan(desired, done(desired, Actual()))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"tables/total.sql": None}, ["- drop stream table total"]),
        (
            {
                "tables/by_region.sql": FILES["tables/by_region.sql"].replace("2s", "5s"),
            },
            ["~ alter stream table by_region: schedule 2s -> 5s, no rebuild"],
        ),
        (
            {"tables/total.sql": "SELECT MAX(by_region.revenue) AS total FROM by_region"},
            ["~ alter stream table total: query changed, rebuild"],
        ),
        (
            {"tables/total.sql": "SELECT SUM(by_region.revenue) AS total -- all of it\n  FROM by_region;"},
            ["~ alter stream table total: text changed, same query, no rebuild"],
        ),
        (
            {"tables/total.sql": None, "tables/everything.sql": FILES["tables/total.sql"]},
            ["> rename stream table everything: from total, no rebuild"],
        ),
        (
            {
                "tables/by_region.sql": None,
                "tables/regions.sql": FILES["tables/by_region.sql"],
                "tables/total.sql": "SELECT SUM(regions.revenue) AS total FROM regions",
            },
            [
                "> rename stream table regions: from by_region, no rebuild",
                "~ alter stream table total: text changed, same query, no rebuild",
            ],
        ),
        (
            {"tables/sales.sql": "CREATE TABLE sales (id LONG, region STRING, amount NUMERIC(12, 2), day DATE)"},
            ["~ alter source sales: add day"],
        ),
        (
            {"tables/sales.sql": "CREATE TABLE sales (id BIGINT, amount DECIMAL(12,2))"},
            ["~ alter source sales: drop region, LOSES DATA"],
        ),
        (
            {"tables/sales.sql": None, "tables/by_region.sql": None, "tables/total.sql": "SELECT 1 AS total"},
            [
                "- drop source sales: LOSES DATA",
                "~ alter stream table total: query changed, rebuild",
                "- drop stream table by_region",
            ],
        ),
        (
            {"anabranch.toml": 'name = "shop"\n[settings]\ncompact_after_files = 9'},
            ["+ create setting compact_after_files: 9"],
        ),
    ],
)
def test_each_change_plans_what_a_person_would_expect(
    tmp_path: Path, changed: dict[str, str | None], expected: list[str]
) -> None:
    before = read(tmp_path, FILES)
    actual = done(before, Actual())
    files = {name: text for name, text in (FILES | changed).items() if text is not None}
    desired = read(tmp_path, files)
    assert steps(desired, actual) == expected
    assert not plan(desired, done(desired, actual))


def test_what_the_project_did_not_make_is_left_alone_or_taken_over(tmp_path: Path) -> None:
    desired = read(tmp_path, FILES)
    lake = done(desired, Actual())
    other = ActualTable("by_hand", "SELECT 1")
    assert steps(desired, replace(lake, tables={**lake.tables, "by_hand": other})) == []
    adopted = plan(desired, replace(lake, managed=frozenset()))
    assert {step.verb for step in adopted.steps} == {Verb.ADOPT}


def test_a_table_that_others_read_is_not_dropped(tmp_path: Path) -> None:
    desired = read(tmp_path, FILES)
    lake = done(desired, Actual())
    read_by = replace(lake.tables["total"], readers=("by_hand",))
    lake = replace(lake, tables={**lake.tables, "total": read_by, "by_hand": ActualTable("by_hand", "TABLE total")})
    without = read(tmp_path, {name: text for name, text in FILES.items() if "total" not in name})
    with pytest.raises(AnabranchError, match="by_hand"):
        plan(without, lake)


def test_what_the_project_still_reads_does_not_go(tmp_path: Path) -> None:
    lake = done(read(tmp_path, FILES), Actual())
    without = {name: text for name, text in FILES.items() if "by_region" not in name}
    for files in (without, without | {"tables/regions.sql": FILES["tables/by_region.sql"]}):
        with pytest.raises(AnabranchError, match="DROPPED_BUT_READ") as caught:
            plan(read(tmp_path, files), lake)
        assert caught.value.place == "tables/total.sql:1"
    with pytest.raises(AnabranchError, match="DROPPED_BUT_READ") as caught:
        plan(read(tmp_path, {name: text for name, text in FILES.items() if "sales" not in name}), lake)
    assert caught.value.place == "tables/by_region.sql:2"


def test_another_kind_of_table_under_the_name_is_refused_with_the_file(tmp_path: Path) -> None:
    desired = read(tmp_path, FILES)
    with pytest.raises(AnabranchError, match="OTHER_KIND") as caught:
        plan(desired, Actual(tables={"sales": ActualTable("sales", "SELECT 1")}))
    assert caught.value.place == "tables/sales.sql:1"
    with pytest.raises(AnabranchError, match="COLUMN_TYPE_CHANGED"):
        plan(desired, Actual(sources={"sales": (Column("id", "string"),)}))


NAMES = ("a", "b", "c", "d", "e")
QUERIES = ("SELECT 1 AS n", "SELECT 2 AS n", "SELECT n FROM v", "SELECT n  FROM s -- remark", "SELECT n FROM s")


def random_project(rng: Random) -> Desired:
    """Few names and few queries, so that projects overlap in every way."""
    found: list[WantedTable | WantedView | WantedSource] = []
    for name in rng.sample(NAMES, rng.randint(0, 5)):
        schedule, mode = rng.choice((None, "2s", "5s")), rng.choice(("AUTO", "FULL"))
        found.append(WantedTable(rng.choice((name, name.upper())), rng.choice(QUERIES), HERE, schedule, mode))
    if rng.random() < 0.7:
        found.append(WantedView("v", rng.choice(("SELECT n FROM s", "SELECT n + 1 AS n FROM s")), HERE))
    columns = [ColumnDefinition("n", "BIGINT"), ColumnDefinition("m", "STRING"), ColumnDefinition("k", "DEC")]
    if rng.random() < 0.8:
        found.append(WantedSource("s", tuple(columns[: rng.randint(1, 3)]), HERE))
    settings = {"compact_after_files": str(rng.randint(8, 9))} if rng.random() < 0.5 else {}
    return desired_of("random", found, settings)


def plan_or_none(desired: Desired, lake: Actual) -> Plan | None:
    """The plan; None where the project reads what it no longer has."""
    try:
        return plan(desired, lake)
    except AnabranchError as error:
        if error.code != "DROPPED_BUT_READ":
            raise
        return None


def test_plan_after_apply_is_empty_for_any_two_projects() -> None:
    kinds: set[tuple[Kind, Verb]] = set()
    refused = 0
    for seed in range(3000):
        rng = Random(seed)
        lake = Actual()
        for _ in range(rng.randint(1, 4)):
            desired = random_project(rng)
            planned = plan_or_none(desired, lake)
            if planned is None:
                refused += 1
                continue
            kinds |= {(step.kind, step.verb) for step in planned.steps}
            lake = done(desired, lake)
            assert plan(desired, lake).steps == (), seed
            assert set(lake.tables) == set(desired.tables), seed
            _check_no_rebuild_hides_a_change(planned.steps, desired)
    assert refused < 3000
    assert {(Kind.TABLE, verb) for verb in (Verb.CREATE, Verb.ALTER, Verb.RENAME, Verb.DROP)} <= kinds


def _check_no_rebuild_hides_a_change(found: tuple[Step, ...], desired: Desired) -> None:
    for step in found:
        if step.kind is Kind.TABLE and "query changed" in step.details:
            assert step.rebuild
        if step.verb is Verb.CREATE and step.kind is Kind.TABLE:
            assert step.name.lower() in desired.tables
