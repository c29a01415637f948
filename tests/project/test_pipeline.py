"""Spark Declarative Pipelines projects as they are; what cannot be taken over is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch import AnabranchError, Lake
from anabranch.project.apply import apply_project, plan_project
from anabranch.project.desired import Desired
from anabranch.project.find import project_in
from anabranch.project.read import read_project
from tests.lake.tools import rows

SPEC = "name: shop\nstorage: file:///tmp/unused\nlibraries:\n  - glob:\n      include: transformations/**\n"
PYTHON = '''from pyspark import pipelines as dp

@dp.temporary_view
def large():
    return spark.table("sales").filter("amount > 5")

@dp.materialized_view(name="by_region", comment="money")
def anything():
    return spark.sql("""
        SELECT region, SUM(amount) AS revenue FROM large GROUP BY region
    """)
'''
SQL = """CREATE TEMPORARY VIEW regions AS SELECT DISTINCT region FROM sales;

CREATE MATERIALIZED VIEW IF NOT EXISTS region_count
PARTITIONED BY (n)
AS SELECT COUNT(*) AS n FROM regions;
"""


def pipeline(folder: Path, files: dict[str, str], spec: str = SPEC) -> Desired:
    (folder / "transformations").mkdir(parents=True, exist_ok=True)
    (folder / "spark-pipeline.yml").write_text(spec)
    for name, text in files.items():
        (folder / "transformations" / name).write_text(text)
    project = project_in(folder)
    assert project is not None
    return read_project(project)


def test_python_and_sql_files(tmp_path: Path) -> None:
    desired = pipeline(tmp_path, {"tables.py": PYTHON, "tables.sql": SQL})
    assert desired.views["large"].query == "SELECT * FROM (SELECT * FROM `sales`) WHERE amount > 5"
    assert desired.tables["by_region"].query.startswith("SELECT region")
    assert desired.tables["region_count"].query == "SELECT COUNT(*) AS n FROM regions"
    assert str(desired.tables["region_count"].place) == "transformations/tables.sql:5"
    assert desired.notices == (
        "transformations/tables.py:7: comment of by_region is left aside",
        "transformations/tables.sql:5: PARTITIONED of region_count is left aside",
    )


@pytest.mark.parametrize(
    ("name", "text", "named", "line"),
    [
        ("a.sql", "SELECT 1;\nCREATE STREAMING TABLE t", "SELECT", 1),
        ("a.sql", "\nCREATE STREAMING TABLE t AS SELECT * FROM STREAM s", "CREATE STREAMING TABLE", 2),
        ("a.sql", "CREATE FLOW f AS INSERT INTO t BY NAME SELECT 1", "CREATE FLOW", 1),
        (
            "a.py",
            "from pyspark import pipelines as dp\n@dp.table\ndef t():\n    return spark.range(1)",
            "StreamingTable",
            2,
        ),
        ("a.py", "from pyspark import pipelines as dp\ndp.create_streaming_table('t')", "StreamingTable", 2),
        (
            "a.py",
            PYTHON.partition("\n")[0] + "\n@dp.materialized_view\ndef t():\n    return spark.table('s').groupBy('a')",
            "DataFrame.groupBy",
            4,
        ),
        ("a.py", "from pyspark import pipelines as dp\nspark.read.csv('x')", "spark.read.csv", 2),
        ("a.py", "from pyspark import pipelines as dp\n@dp.materialized_view\ndef t():\n    return 1", "int", 2),
        ("a.py", "import nothing_of_this_name", "nothing_of_this_name", 1),
        ("a.py", "x = (", "SyntaxError", 1),
        ("a.csv", "1,2", ".csv", 1),
    ],
)
def test_what_cannot_be_taken_over_is_named(tmp_path: Path, name: str, text: str, named: str, line: int) -> None:
    with pytest.raises(AnabranchError) as caught:
        pipeline(tmp_path, {name: text})
    assert named in caught.value.message
    assert caught.value.place == f"transformations/{name}:{line}"


def test_what_a_specification_may_say(tmp_path: Path) -> None:
    with pytest.raises(AnabranchError, match=r"spark\.sql\.ansi\.enabled"):
        pipeline(tmp_path, {"a.sql": SQL}, SPEC + "configuration:\n  spark.sql.ansi.enabled: 'false'\n")
    with pytest.raises(AnabranchError, match="colour"):
        pipeline(tmp_path, {"a.sql": SQL}, SPEC + "colour: red\n")
    with pytest.raises(AnabranchError, match="PROJECT_IS_EMPTY"):
        pipeline(tmp_path / "other", {})
    told = pipeline(tmp_path, {"a.sql": SQL}, SPEC + "catalog: c\nconfiguration:\n  spark.x: '1'\n").notices
    assert told[:2] == (
        "spark-pipeline.yml: catalog is left aside",
        "spark-pipeline.yml: configuration spark.x is left aside",
    )


def test_the_template_of_spark_pipelines_runs_incrementally(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.pipelines.init_cli import init

    monkeypatch.chdir(tmp_path)
    init("template")
    project = project_in(tmp_path / "template")
    assert project is not None
    desired = read_project(project)
    apply_project(lake._engine, desired)
    assert plan_project(lake._engine, desired).steps == ()
    assert sorted(row[0] for row in rows(lake, "example_sql_materialized_view")) == [0, 2, 4, 6, 8]

    example = tmp_path / "template" / "transformations" / "example_python_materialized_view.py"
    example.write_text(example.read_text().replace("spark.range(10)", "spark.range(12)"))
    done = apply_project(lake._engine, read_project(project))
    assert done.report is not None
    below = done.report["example_sql_materialized_view"]
    assert (below.rows_inserted, below.rows_deleted) == (1, 0)
    assert lake.explain("example_sql_materialized_view")["mode"] == "DIFFERENTIAL"
    assert lake.check("example_sql_materialized_view")


def test_a_pipeline_over_sources_of_the_lake(lake: Lake, tmp_path: Path) -> None:
    lake.sql("CREATE TABLE sales (id BIGINT, region STRING, amount DECIMAL(12,2))")
    apply_project(lake._engine, pipeline(tmp_path / "pipeline", {"tables.py": PYTHON, "tables.sql": SQL}))
    lake.sql("INSERT INTO sales VALUES (1, 'north', 10), (2, 'south', 5), (3, 'north', 20)")
    report = lake.refresh()
    assert (report["by_region"].rows_inserted, report["region_count"].rows_deleted) == (1, 1)
    assert {lake.explain(name)["mode"] for name in ("by_region", "region_count")} == {"DIFFERENTIAL"}
    assert rows(lake, "by_region")["north", 30] == 1
    assert rows(lake, "region_count")[(2,)] == 1
