"""A new project folder, small enough to be read in a minute: one source, a diamond of three stream tables."""

from __future__ import annotations

from pathlib import Path

from anabranch.errors import StateError
from anabranch.project.find import PROJECT_FILE

FILES = {
    PROJECT_FILE: """\
# The project: `anabranch plan` shows what would change in the lake, `anabranch apply` does it.
name = "{name}"
lake = "lake"                       # the lake's folder, beside this file
# catalog = "postgres:dbname=shop"  # a catalog for many writers

[defaults]                          # of stream tables whose file says nothing else
schedule = "1m"

[settings]                          # of the lake; see docs/reference/settings.md
# compact_after_files = 64
""",
    "tables/sales.sql": """\
-- A source: people and programs write to it.
CREATE TABLE sales (id BIGINT, region STRING, product_id BIGINT, amount DECIMAL(12,2))
""",
    "tables/revenue_by_region.sql": """\
-- schedule: 2s
SELECT region, SUM(amount) AS revenue, COUNT(*) AS sale_count
FROM sales
GROUP BY region
""",
    "tables/revenue_by_product.sql": """\
-- schedule: 2s
SELECT product_id, SUM(amount) AS revenue, AVG(amount) AS average_sale
FROM sales
GROUP BY product_id
""",
    "tables/exec_summary.sql": """\
-- Both branches meet again here: they always show the same state of sales.
SELECT r.total AS total_by_region, p.total AS total_by_product
FROM (SELECT SUM(revenue) AS total FROM revenue_by_region) r
CROSS JOIN (SELECT SUM(revenue) AS total FROM revenue_by_product) p
""",
    ".gitignore": "/lake/\n",
}


def make_project(folder: Path) -> list[str]:
    """Write the files; a folder that has some of them already is left alone."""
    taken = [name for name in FILES if (folder / name).exists()]
    if taken:
        raise StateError(
            "FOLDER_NOT_EMPTY", f"{folder} has {taken[0]} already", hint="name a new folder: anabranch init NAME"
        )
    for name, text in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("{name}", folder.absolute().name), encoding="utf-8")
    return list(FILES)
