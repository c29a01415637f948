"""Makes the pictures in docs/images from a running lake: `python -m tests.web.screenshots`."""

from __future__ import annotations

import tempfile
import threading
import time
from contextlib import chdir
from pathlib import Path
from random import Random

from playwright.sync_api import Browser, sync_playwright

import anabranch
from anabranch.observe.web.server import Options, Serving
from tests.scheduler.shop import PRODUCT, REGION, SUMMARY, random_sales
from tests.web.browser import CHROMIUM
from tests.web.http import ask

IMAGES = Path(__file__).parents[2] / "docs" / "images"
TOP = "SELECT product_id, revenue FROM revenue_by_product ORDER BY revenue DESC LIMIT 3"
TARGETS = (
    "SELECT r.region, r.revenue, t.target, r.revenue / t.target AS reached "
    "FROM revenue_by_region r JOIN targets t ON r.region = t.region"
)
DAILY = "SELECT region, COUNT(*) AS sale_count, MAX(amount) AS largest FROM sales GROUP BY region"


def make_shop(lake: anabranch.Lake) -> None:
    """The sales diamond and what hangs on it: top products, reached targets, one held table."""
    lake.sql("CREATE TABLE sales (id BIGINT, region STRING, product_id BIGINT, amount DECIMAL(12,2))")
    lake.sql("CREATE TABLE targets (region STRING, target INT)")
    lake.append("sales", random_sales(Random(0), 200))
    lake.sql("INSERT INTO targets VALUES ('north', 100), ('south', 80)")
    lake.create_stream_table("revenue_by_region", REGION, "2s")
    lake.create_stream_table("revenue_by_product", PRODUCT, "2s")
    lake.create_stream_table("exec_summary", SUMMARY, "2s", "DIFFERENTIAL")
    lake.create_stream_table("top_products", TOP, "2s")
    lake.create_stream_table("target_reached", TARGETS, "2s")
    lake.create_stream_table("largest_sales", DAILY, "1h")


def take(browser: Browser, url: str) -> None:
    """All pictures."""
    wide, phone = {"width": 1280, "height": 720}, {"width": 390, "height": 780}
    for name, path, viewport, scheme in (
        ("graph-light", "/", wide, "light"),
        ("graph-dark", "/", wide, "dark"),
        ("graph-phone", "/", phone, "light"),
        ("table-light", "/tables/exec_summary", {"width": 1280, "height": 1000}, "light"),
        ("ticks-dark", "/ticks", wide, "dark"),
        ("errors-light", "/errors", {"width": 1280, "height": 480}, "light"),
        ("table-phone", "/tables/target_reached", phone, "dark"),
    ):
        page = browser.new_page(viewport=viewport, color_scheme=scheme)  # type: ignore[arg-type]
        page.goto(url + path)
        page.wait_for_timeout(1500)
        page.screenshot(path=IMAGES / f"{name}.png")
        page.close()


def wait_until_fresh(url: str, written: int) -> None:
    """Until the last write is in the summary, or the machine is too busy for that."""
    until = time.monotonic() + 240
    while time.monotonic() < until:
        found = ask(f"{url}/api/tables/exec_summary").json
        if found["state"] == "FRESH" and found["last"]["snapshot"] > written:
            return
        time.sleep(0.5)


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        chdir(folder),
        anabranch.connect("shop", max_consecutive_errors=99) as lake,
    ):
        make_shop(lake)
        for number in range(2):
            lake.append("sales", random_sales(Random(number), 3 + number))
            print(lake.refresh("exec_summary", "top_products", "target_reached"))
        lake.pause("largest_sales")
        lake.sql("INSERT INTO targets VALUES ('east', 0)")
        lake.refresh("target_reached")
        ready = threading.Event()
        served: list[Serving] = []
        thread = threading.Thread(
            target=lake.serve, args=(Options(port=0), lambda it: (served.append(it), ready.set()))
        )
        thread.start()
        ready.wait()
        written = lake.append("sales", random_sales(Random(9), 5))
        wait_until_fresh(served[0].url, written)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            take(browser, served[0].url)
            browser.close()
        served[0].stop()
        thread.join()


if __name__ == "__main__":
    main()
