"""The page on a running lake: its scheduler ticks, and what the page shows is what happened."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import anabranch
from anabranch.observe.web.server import Options, Serving
from tests.scheduler.shop import make_diamond, random_sales
from tests.web.conftest import OpenTab
from tests.web.http import ask
from tests.web.test_api import check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARE = "SELECT r.region, s.amount / r.divisor AS share FROM sales s JOIN rates r ON s.region = r.region"
PATIENCE = 120.0


@dataclass(frozen=True)
class Shop:
    """A lake, served."""

    lake: anabranch.Lake
    url: str

    def get(self, path: str) -> Any:
        answer = ask(self.url + path)
        assert answer.status == 200, answer.text
        return answer.json

    def post(self, path: str) -> Any:
        return ask(self.url + path, "POST").json


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The sales diamond, and a node that divides; ticks come every second."""
    folder: Path = tmp_path_factory.mktemp("web")
    with anabranch.connect(str(folder / "shop"), spark=spark, max_consecutive_errors=1000) as lake:
        make_diamond(lake, unit=0.5)
        lake.sql("CREATE TABLE rates (region STRING, divisor INT)")
        lake.sql("INSERT INTO rates VALUES ('north', 2)")
        lake.create_stream_table("share", SHARE, "1s")
        served: list[Serving] = []
        ready = threading.Event()

        def on_ready(serving: Serving) -> None:
            served.append(serving)
            ready.set()

        thread = threading.Thread(target=lake.serve, args=(Options(port=0), on_ready))
        thread.start()
        assert ready.wait(60)
        try:
            yield Shop(lake, served[0].url)
        finally:
            served[0].stop()
            thread.join(120)
        assert not thread.is_alive()


def eventually(look: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
    """What is seen once it is as wanted."""
    until = time.monotonic() + PATIENCE
    while not wanted(found := look()):
        assert time.monotonic() < until, found
        time.sleep(0.1)
    return found


def node_of(shop: Shop, name: str) -> Any:
    return shop.get(f"/api/tables/{name}")


def test_a_write_is_seen_in_the_node_its_history_and_the_ticks(shop: Shop) -> None:
    written = shop.lake.append("sales", random_sales(Random(5), 3))

    def shows_it(node: Any) -> bool:
        return bool(node["state"] == "FRESH" and node["last"]["snapshot"] > written)

    found = eventually(lambda: node_of(shop, "exec_summary"), shows_it)
    assert found["behind_since"] is None
    assert found["convergence_of"] == ["revenue_by_product", "revenue_by_region"]
    frontier = shop.get("/api/tables/exec_summary/frontier")
    assert frontier == [
        {"source": "sales", "reflected": f"snapshot {written}", "newest": f"snapshot {written}", "is_behind": False}
    ]
    entry = shop.get("/api/tables/exec_summary/history?limit=1")[0]
    assert (entry["action"], entry["snapshot"]) == (found["last"]["action"], found["last"]["snapshot"])
    tick = next(each for each in shop.get("/api/ticks") if each["snapshot"] == found["last"]["snapshot"])
    assert {"revenue_by_product", "revenue_by_region", "exec_summary"} <= {each["name"] for each in tick["nodes"]}
    assert {"plan", "compile", "read", "compute", "commit"} == set(tick["seconds"])
    assert tick["spark_jobs"] > 0


def test_real_answers_are_what_the_document_says(shop: Shop) -> None:
    document = shop.get("/openapi.json")
    for path, methods in document["paths"].items():
        if "get" in methods and path not in ("/api/events", "/openapi.json"):
            for table in ("exec_summary", "sales") if "{table}" in path else ("",):
                check(document, path, "get", ask(shop.url + path.replace("{table}", table)))
    report = ask(f"{shop.url}/api/tables/share/refresh", "POST")
    assert report.status == 200
    check(document, "/api/tables/{table}/refresh", "post", report)


def test_looking_starts_no_spark_job(shop: Shop, spark: SparkSession) -> None:
    """With the scheduler paused nothing else does."""
    shop.post("/api/scheduler/pause")
    try:
        eventually(lambda: shop.get("/api/lake")["scheduler"], lambda each: each["state"] == "PAUSED")
        shop.lake._scheduler.drain(PATIENCE)
        jobs = spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()  # type: ignore[union-attr]
        for table in ("sales", "exec_summary", "share", "revenue_by_region"):
            assert ask(f"{shop.url}/tables/{table}").status == 200
            assert ask(f"{shop.url}/tables/{table}/rows").status == 200
        for path in ("/", "/ticks", "/pending", "/errors", "/tables/share/explain", "/tables/exec_summary/explain"):
            assert ask(shop.url + path).status == 200
        assert spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs() == jobs  # type: ignore[union-attr]
    finally:
        shop.post("/api/scheduler/resume")


def test_first_rows_are_those_that_spark_reads(shop: Shop) -> None:
    shop.post("/api/scheduler/pause")
    try:
        found = shop.get("/api/tables/revenue_by_region/rows?limit=200")
        expected = shop.lake.table("revenue_by_region").collect()
        assert found["columns"] == ["region", "revenue", "sale_count"]
        shown = [tuple(None if value is None else str(value) for value in row) for row in expected]
        assert sorted(map(str, shown)) == sorted(str(tuple(row)) for row in found["rows"])
        assert len(shop.get("/api/tables/sales/rows?limit=2")["rows"]) == 2
    finally:
        shop.post("/api/scheduler/resume")


def test_pages_explain_and_check_beside_a_running_scheduler(shop: Shop) -> None:
    """Many threads look while ticks run; nobody fails, and what a tick computes stays right."""
    errors: list[BaseException] = []
    stop = threading.Event()

    def look(paths: tuple[str, ...]) -> None:
        try:
            while not stop.is_set():
                for path in paths:
                    assert ask(shop.url + path).status == 200, path
                    time.sleep(0.05)
        except BaseException as error:
            errors.append(error)

    looks = ("/", "/ticks", "/metrics"), ("/tables/share", "/tables/share/explain"), ("/tables/sales/rows", "/pending")
    threads = [threading.Thread(target=look, args=(paths,)) for paths in looks]
    for thread in threads:
        thread.start()
    written = shop.lake.append("sales", random_sales(Random(1), 4))
    eventually(lambda: node_of(shop, "share"), lambda node: bool(node["last"]["snapshot"] > written))
    stop.set()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert shop.lake.check("share")
    assert shop.lake.check("exec_summary")


def test_in_the_browser_a_tick_a_failure_its_repair_and_a_pause(shop: Shop, open_tab: OpenTab) -> None:
    """One walk: a tick shows up live, a failing node turns red with its hint and recovers, pause and refresh work."""
    from playwright.sync_api import expect

    page = open_tab(shop.url)
    page.context.set_default_timeout(PATIENCE * 1000)
    expect.set_options(timeout=PATIENCE * 1000)
    share = page.locator('.box[data-name="share"]')
    expect(page.locator(".box")).to_have_count(6)
    expect(page.locator(".edges path.diamond")).to_have_count(4)
    expect(share.locator(".label")).to_have_text("fresh")
    snapshot = page.locator("#snapshot").inner_text()
    rows = share.locator(".facts").text_content() or ""
    shop.lake.sql("INSERT INTO sales VALUES (7001, 'north', 1, 5.00)")
    expect(page.locator("#snapshot")).not_to_have_text(snapshot)
    expect(share.locator(".facts")).not_to_have_text(rows)

    shop.lake.sql("INSERT INTO rates VALUES ('south', 0)")
    shop.lake.sql("INSERT INTO sales VALUES (7002, 'south', 1, 5.00)")
    expect(share.locator(".label")).to_have_text("failed")
    expect(share).to_have_class("box state-FAILED")
    page.goto(f"{shop.url}/errors")
    expect(page.locator(".failing h2")).to_contain_text("share")
    expect(page.locator(".failing .code")).to_have_text("DIVIDE_BY_ZERO")
    expect(page.locator(".failing .hint")).to_contain_text("correct the rows or the query")

    shop.lake.sql("DELETE FROM rates WHERE divisor = 0")
    page.goto(f"{shop.url}/tables/share")
    page.get_by_role("button", name="Refresh").click()
    expect(page.locator("#message")).to_contain_text("share:")
    expect(page.locator("h1 .badge")).to_have_text("fresh")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("h1 .badge")).to_have_text("paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("h1 .badge")).to_have_text("fresh")
    expect.set_options(timeout=5000)
