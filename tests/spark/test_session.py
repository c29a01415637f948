"""Sessions of our own, Java, and counting jobs."""

from __future__ import annotations

import logging
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from anabranch.errors import RefreshError, SettingError
from anabranch.spark.failure import TooLargeError, refresh_error, running
from anabranch.spark.jobs import count_jobs, count_scans
from anabranch.spark.quiet import quietly
from anabranch.spark.session import check_java, is_remote, keeping_ctrl_c, private_session


def test_a_private_session_leaves_the_users_alone(spark: SparkSession) -> None:
    ours = private_session(spark, {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.caseSensitive": "true"})
    ours.range(1).createOrReplaceTempView("only_ours")
    assert ours.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.caseSensitive") == "false"
    assert not spark.catalog.tableExists("only_ours")
    assert not is_remote(ours)


def test_a_subquery_among_the_outputs_keeps_the_order_of_the_limit_below(spark: SparkSession) -> None:
    """Seen as a wrong answer of the oracle (graph 4 of the random queries): Spark itself loses the order."""
    session = private_session(spark, {"spark.sql.autoBroadcastJoinThreshold": "-1"})
    session.sql("CREATE TEMPORARY VIEW words AS SELECT /*+ COALESCE(1) */ * FROM VALUES ('q'), ('p'), ('') AS t(word)")
    session.sql("CREATE TEMPORARY VIEW known AS SELECT * FROM VALUES ('') AS t(word)")
    first = "(SELECT * FROM words ORDER BY word DESC LIMIT 1) AS first"
    query = f"SELECT word, EXISTS (SELECT 1 FROM known WHERE known.word = first.word) AS found FROM {first}"
    assert [tuple(row) for row in session.sql(query).collect()] == [("q", False)]


def test_a_subquery_among_the_outputs_over_a_union(spark: SparkSession) -> None:
    """A table of several files is a union; Spark itself fails here."""
    session = private_session(spark, {})
    session.sql("CREATE TEMPORARY VIEW words AS SELECT 'q' AS word UNION ALL SELECT 'p'")
    session.sql("CREATE TEMPORARY VIEW known AS SELECT 'p' AS word UNION ALL SELECT ''")
    query = "SELECT word, EXISTS (SELECT 1 FROM known WHERE known.word = words.word) AS found FROM words"
    assert sorted(tuple(row) for row in session.sql(query).collect()) == [("p", True), ("q", False)]
    assert session.sql(f"{query} UNION ALL {query}").count() == 4


def test_starting_spark_leaves_ctrl_c_to_the_program() -> None:
    before = signal.getsignal(signal.SIGINT)
    with keeping_ctrl_c():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is before


def java(folder: Path, script: str, release: str = "") -> str:
    (folder / "bin").mkdir()
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    if release:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n')
    return str(folder)


@pytest.mark.parametrize(
    ("script", "release"),
    [("exit 1", "17.0.15"), ("exit 1", "25"), ("echo 'openjdk version \"21.0.1\"' >&2", "")],
)
def test_java_17_or_newer_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, release: str) -> None:
    monkeypatch.setenv("JAVA_HOME", java(tmp_path, script, release))
    check_java()


@pytest.mark.parametrize(
    ("script", "release", "detail"),
    [
        ("exit 1", "1.8.0_402", "Java 8"),
        ("echo 'java version \"11.0.2\"' >&2", "", "Java 11"),
        ("exit 1", "", "fails"),
    ],
)
def test_other_java_is_refused_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, release: str, detail: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", java(tmp_path, script, release))
    with pytest.raises(SettingError, match="JAVA_MISSING") as caught:
        check_java()
    assert detail in caught.value.detail
    assert "apt-get install openjdk-17-jre-headless" in caught.value.hint


def test_no_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingError, match="JAVA_HOME is not set"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(SettingError, match="nowhere"):
        check_java()


def test_jobs_are_counted_on_every_thread_that_says_so(spark: SparkSession) -> None:
    with count_jobs(spark) as count:
        spark.range(10).collect()

        def elsewhere(counted: bool) -> None:
            if not counted:
                spark.range(10).collect()
                return
            with count.on_this_thread():
                spark.range(10).collect()

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(elsewhere, (True, False, True)))
    spark.range(10).collect()
    assert count.jobs == 3
    assert count.stages == 3


def test_scans_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(10).write.parquet(str(tmp_path / "a"))
    frame = spark.read.schema("id bigint").parquet(str(tmp_path / "a"))
    assert count_scans(frame.join(frame.withColumnRenamed("id", "other"))) == 2
    assert count_scans(spark.range(10)) == 0


def test_expected_errors_are_not_logged(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("SQLQueryContextLogger")
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        with quietly(), pytest.raises(AnalysisException):
            spark.sql("SELECT nothing")
        assert records == []
        with pytest.raises(AnalysisException):
            spark.sql("SELECT nothing")
        assert len(records) == 1
    finally:
        logger.removeHandler(handler)


def test_failures_of_spark_in_one_line(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO") as caught, running():
        spark.sql("SELECT 1 / (id - id) FROM range(1)").collect()
    error = refresh_error(caught.value)
    assert isinstance(error, RefreshError)
    assert error.code == "DIVIDE_BY_ZERO"
    assert "\n" not in error.message
    assert refresh_error(Exception("NEGATIVE_WEIGHT")).code == "NEGATIVE_WEIGHT"


def test_a_result_too_large_for_the_driver_is_told_apart() -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(TooLargeError), running():
        raise PySparkException("Total size is bigger than spark.driver.maxResultSize")
